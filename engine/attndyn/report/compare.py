"""The comparison of runs: what they measured side by side, and what sets their specs apart."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from attndyn.errors import RunError
from attndyn.files import whole
from attndyn.report import compare_figures, compare_page, style
from attndyn.report.compared import collect
from attndyn.report.files import render
from attndyn.report.writer import FIGURES, Reportable, write_figures

PAGE = "compare.html"
COMPARISONS = Path("outputs") / "compare"


def write_comparison(runs: Sequence[Reportable], directory: Path | None = None) -> Path:
    """Compare runs: figures, and a page that holds them, in a directory; nothing is written to the runs.

    Args:
        runs: two to eight of them, of any specs.
        directory: where to; a fresh one under `outputs/compare` if left out.

    Returns:
        The path of `compare.html`. Beside it are `figures/curves`, `boundaries` and `retractions`, as far as
        the runs recorded what they show, each as `.svg` and `.png`.

    Raises:
        RunError: too few runs or too many, one given twice, one that cannot be read, or a directory that
            cannot be written.
    """
    compared = collect(runs)
    with style.style():
        figures = compare_figures.draw_all(compared)
        images = {name: render(figure) for name, figure in figures.items()}
    path = (directory or COMPARISONS / _identity(runs)) / PAGE
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_figures(path.parent / FIGURES, images)
        with whole(path) as fresh:
            fresh.write_text(compare_page.render_comparison(compared, images), "utf-8")
    except OSError as error:
        raise RunError(f"{error.filename or path}: cannot be written ({error.strerror})") from None
    return path


def _identity(runs: Sequence[Reportable]) -> str:
    """A name for a comparison: its time, and a hash of which runs it is of."""
    which = "\n".join(str(run.directory.resolve()) for run in runs)
    return f"{datetime.now():%Y%m%d-%H%M%S}-{hashlib.sha256(which.encode()).hexdigest()[:8]}"
