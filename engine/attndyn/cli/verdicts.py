"""Reports of the conformance checks on the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from attndyn.conformance import Report


def show_report(report: Report) -> None:
    """A table, check by check, and below it a line for each fault."""
    table = Table("check", "cases", "verdict", box=None, padding=(0, 2, 0, 0))
    for result in report.results:
        verdict = Text("fails", "bold red") if result.failures else Text("holds", "green")
        if not result.n_cases:
            verdict = Text("not reached", "yellow")
        table.add_row(result.check, str(result.n_cases), verdict)
    console = Console(soft_wrap=True, highlight=False)
    console.print(Text(f"{report.kind} {report.name}, from {report.origin}", "bold"))
    console.print(table)
    for result in report.results:
        for failure in result.failures:
            console.print(Text(f"{result.check}: {failure}"))
    console.print()
