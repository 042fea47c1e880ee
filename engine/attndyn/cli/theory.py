"""`attndyn theory`: what the theory predicts of a spec, beside what a run measured."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from attndyn.cli.common import (
    DIVERGED,
    INTERRUPTED,
    OUTPUTS,
    USAGE,
    Backend,
    Out,
    Overrides,
    Plugins,
)
from attndyn.errors import RunError

if TYPE_CHECKING:
    import numpy as np

    from attndyn.runs import Run
    from attndyn.spec import Spec
    from attndyn.theory.comparison import Row

#: columns where there is no terminal to fit into, so that a line is a quantity
WIDE = 400


def theory(
    spec: Annotated[Path, typer.Argument(metavar="SPEC", help="a spec, as YAML", show_default=False)],
    out: Out = OUTPUTS,
    overrides: Overrides = None,
    given: Annotated[
        Path | None,
        typer.Option("--run", metavar="RUN", help="measure this run of the spec", show_default=False),
    ] = None,
    no_run: Annotated[bool, typer.Option("--no-run", help="predict only")] = False,
    backend: Backend = "auto",
    plugins: Plugins = None,
) -> None:
    """Set the theory's predictions for a spec beside what a run of it measured.

    Uses a finished run of the same spec in DIR, or makes one. What the theory cannot say of the spec gets
    one line each, with the reason.

    Exit codes: 0 done; 2 a bad spec or usage; 3 the run diverged; 130 interrupted.
    """
    from attndyn.spec import load_spec
    from attndyn.theory.comparison import compare

    if no_run and given is not None:
        print("--no-run and --run exclude each other", file=sys.stderr)
        raise typer.Exit(USAGE)
    loaded = load_spec(spec, overrides or (), plugins or ())
    if no_run:
        show_rows(compare(loaded), measured=False)
        return
    run = _run(loaded, out, given, backend)
    state = run.status["state"]
    if state == "interrupted":
        print(f"interrupted; go on with: attndyn run --resume {run.directory}", file=sys.stderr)
        raise typer.Exit(INTERRUPTED)
    for lost in run.status["diverged"]:
        reason = f": {lost['reason']}" if "reason" in lost else ""
        print(f"replica {lost['replica']} diverged at step {lost['step']}{reason}", file=sys.stderr)
    show_rows(compare(loaded, run.trajectory), measured=True)
    if "parameters" not in loaded.probes:
        print("the run records no parameters (probe 'parameters'): only losses are measured")
    run.close()
    print(run.directory)
    raise typer.Exit(DIVERGED if state == "diverged" else 0)


def _run(spec: Spec, out: Path, given: Path | None, backend: str) -> Run:
    """The run given, a finished one of the same spec, or a new one."""
    from attndyn import runs
    from attndyn.cli.progress import Progress

    if given is not None:
        run = runs.open_run(given)
        if run.spec.sha256 != spec.sha256:
            raise RunError(f"{given}: is a run of another spec")
        return run
    for path in sorted((out / spec.name).glob(f"*-{spec.sha256[:8]}*/{runs.SPEC}"), reverse=True):
        found = runs.open_run(path.parent)
        if found.status["state"] == "complete" and found.spec.sha256 == spec.sha256:
            return found
    with Progress() as progress:
        return runs.run(spec, out, backend, sinks=[progress])


def show_rows(rows: Sequence[Row], measured: bool) -> None:
    """A table of what is predicted, and below it a line for each quantity that is not."""
    headings = ["quantity", "symbol", "predicted"]
    headings += ["measured", "difference"] if measured else []
    table = Table(*headings, "units", "where valid", box=None, padding=(0, 2, 0, 0))
    for row in rows:
        if row.reason:
            continue
        cells = [row.name, row.formula.symbol, _band(row.predicted, ".6g")]
        if measured:
            cells += [_band(row.measured, ".6g"), _band(row.difference, "+.3%")]
        table.add_row(*map(Text, [*cells, row.formula.units, row.formula.valid]))
    console = Console(soft_wrap=True, highlight=False)
    if not console.is_terminal:
        console.width = WIDE
    if table.rows:
        console.print(table)
    missing = {row.formula.name: row.reason for row in rows if row.reason}
    for name, reason in missing.items():
        console.print(Text(f"{name}: {reason}"))


def _band(values: np.ndarray, form: str) -> str:
    """The median, with the band from the 10th to the 90th percentile where replicas differ."""
    from attndyn.theory.comparison import band

    found = band(values)
    if found is None:
        return "–"
    median, low, high = (format(value, form) for value in found)
    return median if low == high else f"{median} ({low} to {high})"
