"""Checks that code keeps the engine's promises."""

from attndyn.conformance.faults import Failure, Fault, Report, Result
from attndyn.conformance.plugins import check_class, check_plugin

__all__ = ["Failure", "Fault", "Report", "Result", "check_class", "check_plugin"]
