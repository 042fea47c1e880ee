"""Figures and the HTML report."""

from attndyn.report.compare import write_comparison
from attndyn.report.writer import write_report

__all__ = ["write_comparison", "write_report"]
