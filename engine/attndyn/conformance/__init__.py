"""Checks that code keeps the engine's promises."""

from attndyn.conformance.faults import Failure, Fault, Report, Result
from attndyn.conformance.plugins import check_class, check_plugin
from attndyn.conformance.spec_core import check_spec

__all__ = ["Failure", "Fault", "Report", "Result", "check_class", "check_plugin", "check_spec"]
