"""Figures of a comparison: one colour a run, medians with 10-90 % bands over its replicas."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attndyn.analysis.series import Band
from attndyn.report import style
from attndyn.report.compare_tables import boundary_bands, common_tokens, retraction_bands
from attndyn.report.compared import Compared
from attndyn.report.files import new_figure
from attndyn.report.snapshots import has_time

ROW_HEIGHT, LABEL_WIDTH, MAX_TOKENS = 1.7, 40, 6
CURVES = {
    "loss": ("loss", "cross-entropy", "nats"),
    "focus": ("attention of the other tokens to the most frequent", "attention", "1"),
    "entropy": ("attention entropy", "entropy", "nats"),
    "held_out": ("loss on what is held out", "cross-entropy", "nats"),
    "ratio": ("attention to the most frequent token over its frequency", "attention / frequency", "1"),
    "entropy_of_places": ("entropy of attention over places", "entropy", "nats"),
    "kl_unigram": ("KL of the unigram from the predictions", "KL", "nats"),
    "kl_bigram": ("KL of the bigram from the predictions", "KL", "nats"),
    "kl_pseudo_bigram": ("KL of the pseudo-2-gram from the predictions", "KL", "nats"),
    "token_share": ("share of the predictions' spread for the last token", "share", "1"),
}
NORM = "embedding norm of token"
Bands = dict[str, Band]


def draw_all(compared: Sequence[Compared]) -> dict[str, Figure]:
    """`curves`, `boundaries` and `retractions`, those of which there is anything to show."""
    draws: dict[str, Callable[[Sequence[Compared]], Figure | None]] = {
        "curves": draw_curves,
        "boundaries": draw_boundaries,
        "retractions": draw_retractions,
    }
    figures = {name: draw(compared) for name, draw in draws.items()}
    return {name: figure for name, figure in figures.items() if figure is not None}


def draw_curves(compared: Sequence[Compared]) -> Figure | None:
    """Curves over training, means over layers and heads; attention also over queries."""
    panels = _panels(compared)
    if not panels:
        return None
    figure = new_figure(ROW_HEIGHT * -(-len(panels) // 2) + 0.5)
    axes = style.panel_grid(figure, len(panels))
    timed = all(has_time(curve.to_dataset(name="y")) for panel in panels for curve in panel[-1].values())
    for ax, (title, y, units, curves) in zip(axes, panels, strict=True):
        _draw_overlay(ax, compared, curves, timed)
        style.label_axes(ax, y=y, units=units, title=title)
    style.legend(figure)
    return figure


def curve_titles(compared: Sequence[Compared]) -> list[str]:
    """What `draw_curves` draws, the norms of all tokens at once."""
    titles = [title for title, *_ in _panels(compared)]
    others = [title for title in titles if not title.startswith(NORM)]
    norms = len(titles) - len(others)
    return others + ([f"embedding norms of {norms} tokens"] if norms else [])


def _panels(compared: Sequence[Compared]) -> list[tuple[str, str, str, dict[str, xr.DataArray]]]:
    """Title, vertical label, units and the curve of every run that has one; panels with any."""
    panels = [
        (title, y, units, {run.label: run.curves[name] for run in compared if name in run.curves})
        for name, (title, y, units) in CURVES.items()
    ]
    tokens = common_tokens(compared)[:MAX_TOKENS]
    for token, name in style.distinct(tokens).items():
        norms = {
            run.label: run.results["norms"]["embedding_norm"].sel(token=token)
            for run in compared
            if "norms" in run.results
        }
        panels.append((f"{NORM} {name}", r"$|W_0[i,:]|$", "1", norms))
    return [panel for panel in panels if panel[-1]]


def _draw_overlay(
    ax: Axes, compared: Sequence[Compared], curves: dict[str, xr.DataArray], timed: bool
) -> None:
    """The curves (replica, step) of the runs that have one, over steps unless all have a time."""
    for run in compared:
        if run.label in curves:
            curve = curves[run.label]
            curve = curve.where(np.isfinite(curve))
            x = style.step_axis(ax, curve if timed else curve.drop_vars("time", errors="ignore"))
            style.line_with_band(ax, x, curve, run.color, style.shorten(run.label, LABEL_WIDTH))


def draw_boundaries(compared: Sequence[Compared]) -> Figure | None:
    """Medians of the stage boundaries, with their 10-90 % ranges over replicas, layers and heads."""
    bands = {run.label: boundary_bands(run) for run in compared}
    rows = list(dict.fromkeys(label for found in bands.values() for label in found))
    rows = [row for row in rows if any(_found(found, row) for found in bands.values())]
    if not rows:
        return None
    figure = new_figure(0.18 * len(rows) * max(2, len(compared)) + 0.9)
    ax = figure.subplots()
    _draw_rows(ax, compared, rows, bands)
    ax.set_yticks(range(len(rows)), [row.replace("_", " ") for row in rows])
    if all(
        low > 0 for found in bands.values() for low in (band.p10 for band in found.values()) if low == low
    ):
        style.log_x(ax)
    style.label_axes(ax, x="step")
    style.legend(figure)
    return figure


def draw_retractions(compared: Sequence[Compared]) -> Figure | None:
    """Depth of every token's deepest retraction, and of the medium tokens, beside the step of its trough."""
    depth = {run.label: retraction_bands(run, "depth") for run in compared}
    trough = {run.label: retraction_bands(run, "trough") for run in compared}
    rows = list(dict.fromkeys(row for found in depth.values() for row in found))[: MAX_TOKENS + 1]
    if not rows:
        return None
    figure = new_figure(0.18 * len(rows) * max(2, len(compared)) + 0.9)
    left, right = figure.subplots(1, 2, sharey=True)
    _draw_rows(left, compared, rows, depth)
    _draw_rows(right, compared, rows, trough, labels=False)
    left.set_yticks(range(len(rows)), [style.shorten(row, 16) for row in rows])
    left.set_xlim(-0.02, 1.02)
    right.set_xlim(left=0)
    style.label_axes(left, x="depth, 1 - trough / peak", y="token")
    style.label_axes(right, x="step of the trough")
    style.legend(figure)
    return figure


def _draw_rows(
    ax: Axes, compared: Sequence[Compared], rows: Sequence[str], bands: dict[str, Bands], labels: bool = True
) -> None:
    """A line for every row and run: the median as a dot on the 10-90 % range."""
    spread = np.linspace(-0.28, 0.28, len(compared))
    for run, offset in zip(compared, spread, strict=True):
        label = style.shorten(run.label, LABEL_WIDTH) if labels else "_"
        ax.plot([], [], color=run.color, marker="o", markersize=3.5, label=label)
        for number, row in enumerate(rows):
            if not _found(bands[run.label], row):
                continue
            found, y = bands[run.label][row], number + offset
            ax.plot([found.p10, found.p90], [y, y], color=run.color, linewidth=1.2, alpha=0.6)
            ax.plot([found.median], [y], color=run.color, marker="o", markersize=3.5, linestyle="none")
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.grid(axis="x", color="0.9", linewidth=0.5)
    for between in range(len(rows) - 1):
        ax.axhline(between + 0.5, color="0.85", linewidth=0.5)


def _found(bands: Bands, row: str) -> bool:
    return row in bands and bool(np.isfinite(bands[row].median))
