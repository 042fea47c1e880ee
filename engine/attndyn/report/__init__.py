"""Figures and the HTML report."""

from attndyn.report.writer import write_report

__all__ = ["write_report"]
