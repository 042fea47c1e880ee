"""Verdicts on claims and reports of checks on the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from attndyn.conformance import Report
from attndyn.conformance.ledger import row
from attndyn.conformance.suite import Judged

NUMBERS = ("figure", "10–90 %", "so in")
#: columns of a terminal from which on sources are shown
WIDE = 120
CHECKED = {"holds": "green", "fails": "bold red", "not reached": "yellow"}
COLOURS = {"holds": "green", "in part": "yellow", "does not hold": "red", "not applicable": "dim"}


def show_findings(judged: Judged) -> None:
    """A table, claim by claim, and below it a line for each check that could not be made."""
    console = Console(highlight=False)
    if not console.is_terminal:  # a file has no width, and numbers are not to be broken
        console.width = max(console.width, WIDE)
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("claim", overflow="fold", ratio=3)
    if console.width >= WIDE:
        table.add_column("source", overflow="fold", ratio=1)
    for heading in ("verdict", *NUMBERS):
        table.add_column(heading, no_wrap=heading in NUMBERS)
    for finding in judged.findings:
        cells = row(finding)
        verdict = Text(finding.verdict or "no verdict", COLOURS.get(finding.verdict or "", "bold red"))
        if not finding.as_recorded and finding.verdict is not None:
            verdict.append(f" (on record: {finding.recorded})", "bold red")
        source = [Text(finding.source)] if console.width >= WIDE else []
        claim = Text.assemble((finding.id, "bold"), ": ", finding.claim)
        table.add_row(claim, *source, verdict, *(Text(cells[column]) for column in NUMBERS))
    runs = ", ".join(str(run) for run in judged.runs)
    title = f"{judged.spec.name} ({judged.path}), {'from' if judged.reused else 'run in'} {runs}"
    console.print(Text(title, "bold"), soft_wrap=True)
    console.print(table)
    for finding in judged.findings:
        if finding.verdict is None:
            console.print(Text(f"{finding.id}: no verdict: {finding.problem}", "bold red"), soft_wrap=True)
    console.print()


def show_report(report: Report) -> None:
    """A table, check by check, and below it a line for each fault."""
    table = Table("check", "cases", "verdict", box=None, padding=(0, 2, 0, 0))
    for result in report.results:
        verdict = Text(result.verdict, CHECKED[result.verdict])
        table.add_row(result.check, str(result.n_cases), verdict)
    console = Console(soft_wrap=True, highlight=False)
    console.print(Text(f"{report.kind} {report.name}, from {report.origin}", "bold"))
    console.print(table)
    for result in report.results:
        for failure in result.failures:
            console.print(Text(f"{result.check}: {failure}"))
    console.print()
