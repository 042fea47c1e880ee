"""How figures look: palette, axes, bands over replicas. Works on any Matplotlib figure, without pyplot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import xarray as xr
from matplotlib import rc_context
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure, FigureBase
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import ArrayLike, NDArray

from attndyn.analysis.records import frequent_tokens
from attndyn.analysis.series import band
from attndyn.report.names import distinct as distinct
from attndyn.report.names import shorten as shorten
from attndyn.report.ticks import plain

# Okabe & Ito's palette, told apart with any colour vision; yellow, faint on white, comes last.
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000", "#F0E442")
DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1)), (0, (4, 1, 1, 1)))
REFERENCE: dict[str, Any] = {"color": "0.35", "linestyle": (0, (1, 1.5)), "linewidth": 0.9, "zorder": 1}
DIVERGING, SEQUENTIAL = "PuOr_r", "Blues"
# inches that one entry of a legend takes beside its letters, and for each letter
LEGEND_HANDLE, LEGEND_LETTER = 0.34, 0.055
STEP_AXIS = "training step"
# a logarithmic axis spans this at least
LEAST_RATIO = 1.02
MAX_CURVES, MAX_PANELS = 12, 4
FEW_CURVES = 6
MAX_NAMES, FEW_NAMES = 12, 5
MIN_POINTS, LINE = 2.8, 1.35  # smallest print of names, and the height of a line beside that of its letters

_WEIGHTS = {"W_0": 0, "W_1": 3, "W_Q": 2, "W_K": 4, "W_V": 5, "W_O": 1}
_STAGES = {"condensation": 0, "collapse": 2, "plateau": 6, "focus": 1, "dilution": 3}
_TOKEN_STAGES = (4, 5, 7)
_RC: dict[Any, Any] = {
    "font.size": 7.5,
    "axes.titlesize": 7.5,
    "axes.labelsize": 7.5,
    "legend.fontsize": 7,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "lines.linewidth": 1.3,
    "legend.frameon": False,
    "savefig.dpi": 200,
    "svg.hashsalt": "attndyn",
}


@contextmanager
def style() -> Iterator[None]:
    """Context in which figures are made and saved in the project's style; restores what was set before."""
    with rc_context(_RC):
        yield


def color(index: int) -> str:
    """The palette's colour number `index`, starting over after the last."""
    return PALETTE[index % len(PALETTE)]


def weight_line(name: str) -> dict[str, Any]:
    """Colour and dashes of a weight, the same in every figure; two curves that coincide both show."""
    dashed = name in ("W_1", "W_K", "W_O")
    return {"color": color(_WEIGHTS.get(name, 6)), "linestyle": DASHES[1 if dashed else 0]}


def token_colors(trajectory: xr.DataTree, labels: Iterable[Any]) -> dict[Any, str]:
    """A few tokens among `labels` to draw, most frequent first, with their colours: see `token_lines`."""
    lines = list(token_lines(trajectory, labels).items())
    return {token: line["color"] for token, line in lines[:FEW_CURVES]}


def token_lines(trajectory: xr.DataTree, labels: Iterable[Any]) -> dict[Any, dict[str, Any]]:
    """The tokens among `labels` to draw as curves, most frequent first, each with colour, dashes and label.

    That is all of them, or `FEW_CURVES` where they are more than `MAX_CURVES`.
    One of the `MAX_CURVES` most frequent of all looks the same in all figures of a trajectory; rarer ones
    have what these leave.
    """
    ranked = (
        trajectory.dataset["token"]
        .values[frequent_tokens(trajectory, trajectory.dataset.sizes["token"])]
        .tolist()
    )
    present = set(labels)
    drawn = [token for token in ranked if token in present]
    drawn = drawn if len(drawn) <= MAX_CURVES else drawn[:FEW_CURVES]
    own = {token: rank for rank, token in enumerate(ranked[:MAX_CURVES]) if token in drawn}
    spare = iter(sorted(set(range(MAX_CURVES)) - set(own.values())))
    number = {token: own[token] if token in own else next(spare) for token in drawn}
    label = distinct(drawn)
    return {
        token: {
            "color": color(number[token] % FEW_CURVES),
            "linestyle": DASHES[number[token] // FEW_CURVES],
            "label": label[token],
        }
        for token in drawn
    }


def token_curves(
    ax: Axes, x: ArrayLike, values: xr.DataArray, dim: str, trajectory: xr.DataTree, **line: Any
) -> None:
    """A curve with its band for every token along `dim` that is drawn; the legend says how many are not.

    Args:
        ax: the axes.
        x: positions (record,).
        values: curves of `replica`, one more dimension and `dim`, whose labels are tokens and perhaps others.
        dim: the dimension of the tokens.
        trajectory: where the tokens are known.
        **line: further properties of all lines, above their own.
    """
    labels = values[dim].values.tolist()
    lines = token_lines(trajectory, labels)
    for token, own in lines.items():
        line_with_band(ax, x, values.sel({dim: token}), **(own | line))
    total = len(set(labels) & set(trajectory.dataset["token"].values.tolist()))
    if total > len(lines) and line.get("label") != "_":
        ax.plot([], [], linestyle="none", label=f"({len(lines)} of {total} tokens)")


def stage_color(label: str) -> str:
    """The colour of a stage: `focus` and its like by name, `token 2` by its number."""
    *_, number = label.split() or [""]
    if label in _STAGES or not number.isdigit():
        return color(_STAGES.get(label, 6))
    return color(_TOKEN_STAGES[(int(number) - 1) % len(_TOKEN_STAGES)])


def math_label(name: str) -> str:
    """A weight's name in Matplotlib's mathtext: `W_Q` becomes an italic W with an index."""
    stem, _, index = name.partition("_")
    return f"${stem}_{{{index}}}$" if stem and index.isalnum() else name


def line_with_band(
    ax: Axes, x: ArrayLike, values: xr.DataArray | ArrayLike, color: str, label: str, **line: Any
) -> None:
    """Curves over replicas: the median with its 10-90 % band, or every replica where there are one or two.

    Args:
        ax: the axes.
        x: positions (record,).
        values: (replica, record), or a labelled array of `replica` and one more dimension; NaN leaves gaps.
        color: of line and band.
        label: legend entry of the line.
        **line: further properties of the line.
    """
    if isinstance(values, xr.DataArray):
        values = values.transpose("replica", ...)
    curves, x = np.atleast_2d(np.asarray(values, dtype=float)), np.asarray(x)
    if len(x) == 1:
        line.setdefault("marker", ".")  # a line of one point is invisible
    if len(curves) <= 2:
        for number, curve in enumerate(curves):
            width = {} if len(curves) == 1 else {"linewidth": 0.8}
            ax.plot(x, curve, color=color, label=label if number == 0 else "_", **width | line)
        return
    over_replicas = band(curves)
    ax.fill_between(x, over_replicas.p10, over_replicas.p90, color=color, alpha=0.2, linewidth=0)
    ax.plot(x, over_replicas.median, color=color, label=label, **line)


def step_axis(ax: Axes, data: xr.Dataset | xr.DataArray) -> NDArray[np.float64]:
    """Make `ax` an axis over training: positions (step,) of the records, in steps or, where known, time.

    Axes so made are found again by `step_axes`.
    """
    timed = _has_time(data)
    label_axes(ax, x="time" if timed else "step")
    ax.set_label(STEP_AXIS)
    ax.margins(x=0)
    return np.asarray(data["time" if timed else "step"].values, dtype=float)


def step_axes(figure: FigureBase) -> list[Axes]:
    """The axes of a figure whose horizontal axis is training steps or time."""
    return [ax for ax in _axes(figure) if ax.get_label() == STEP_AXIS]


def spans_on_axis(
    spans: Iterable[tuple[str, float, float]], data: xr.Dataset | xr.DataArray
) -> list[tuple[str, float, float]]:
    """Stage spans (label, start, end) in steps, in the unit of `step_axis` for the same `data`."""
    if not _has_time(data):
        return list(spans)
    steps, times = data["step"].values, data["time"].values
    return [(label, *np.interp([start, end], steps, times).tolist()) for label, start, end in spans]


def shade_stages(ax: Axes, spans: Iterable[tuple[str, float, float]]) -> None:
    """Tint the background of `ax` by stage, its limits unchanged.

    Args:
        ax: the axes.
        spans: (label, start, end) in the unit of the horizontal axis; not-finite or empty ones are left out.
    """
    low, high = ax.get_xlim()
    for label, start, end in spans:
        start, end = max(start, low), min(end, high)
        if start < end:
            ax.axvspan(start, end, facecolor=stage_color(label), alpha=0.13, linewidth=0, zorder=0)
    ax.set_xlim(low, high)


def stage_handles(spans: Iterable[tuple[str, float, float]], names: Mapping[str, str]) -> list[Patch]:
    """One legend entry a stage, in the order of `spans`, under its name if it has one beside its label."""
    labels = dict.fromkeys(label for label, _, _ in spans)
    named = {label: shorten(names.get(label, label), 20) for label in labels}
    return [Patch(facecolor=stage_color(label), alpha=0.3, label=name) for label, name in named.items()]


def same_y(parts: Sequence[FigureBase]) -> None:
    """The same vertical limits for the axes over training that stand in the same place of every part."""
    axes = [step_axes(part) for part in parts]
    if len({len(of_part) for of_part in axes}) > 1:
        return
    for alike in zip(*axes, strict=True):
        limits = np.array([ax.get_ylim() for ax in alike])
        for ax in alike:
            ax.set_ylim(limits.min(), limits.max())


def label_axes(ax: Axes, x: str = "", y: str = "", title: str = "", units: str = "1") -> None:
    """Labels of the axes that are given; `units` follow the vertical one in brackets unless they are `1`."""
    if x:
        ax.set_xlabel(x)
    if y:
        ax.set_ylabel(y if units in ("1", "") else f"{y} [{units}]")
    if title:
        ax.set_title(title, loc="left")


def say(ax: Axes, text: str) -> None:
    """A few words in the middle of a panel that is empty."""
    ax.text(0.5, 0.5, text, ha="center", va="center", transform=ax.transAxes, color="0.35")


def log_y(*axes: Axes) -> None:
    """Logarithmic y axes, which several axes may share; linear ones where nothing drawn is positive."""
    if any(np.isfinite(ax.dataLim.minposy) for ax in axes):
        for ax in axes:
            ax.set_yscale("log")
            plain(ax.yaxis)
        low, high = axes[0].get_ylim()
        if high < LEAST_RATIO * low:  # nothing happens, and noise is not to fill the panel
            middle, half = np.sqrt(low * high), np.sqrt(LEAST_RATIO)
            axes[0].set_ylim(middle / half, middle * half)


def log_x(ax: Axes) -> None:
    """A logarithmic x axis."""
    ax.set_xscale("log")
    plain(ax.xaxis)


def legend(figure: FigureBase, heading: str = "") -> None:
    """One legend for all axes of a figure, each label once, above them so that it covers no curve.

    Args:
        figure: figure or subfigure, its axes drawn already; needs constrained layout.
        heading: says before the entries what they are.
    """
    entries: dict[str, Artist] = {heading: Line2D([], [], linestyle="none")} if heading else {}
    for ax in _axes(figure):
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    if not entries:
        return
    room = cast(Figure, figure).bbox.width / cast(Figure, figure).dpi
    figure.legend(
        list(entries.values()),
        list(entries),
        loc="outside upper center",
        ncols=_columns(list(entries), room),
        handlelength=1.6,
        columnspacing=1.2,
    )


def panel_legend(ax: Axes) -> None:
    """A legend of one panel's own curves, above it so that it covers none, and about as wide at most."""
    place: dict[str, Any] = {
        "loc": "lower left",
        "bbox_to_anchor": (0, 1),
        "borderpad": 0,
        "borderaxespad": 0.3,
    }
    _, labels = ax.get_legend_handles_labels()
    ax.legend(ncols=_columns(labels, _cell(ax)), handlelength=1.6, columnspacing=1.2, **place)


def heatmap(
    ax: Axes,
    matrix: ArrayLike,
    rows: Iterable[Any],
    columns: Iterable[Any],
    limits: tuple[float, float],
    cmap: str,
) -> AxesImage:
    """A matrix (row, column) as squares; up to `MAX_NAMES` tokens are named on the left and below.

    As many as fit where the axes are small, at equal distances; names below are upright if they are long.
    """
    image = ax.imshow(np.asarray(matrix, float), vmin=limits[0], vmax=limits[1], cmap=cmap, aspect="equal")
    for axis, names in ((ax.yaxis, list(rows)), (ax.xaxis, list(columns))):
        points = 72 * _cell(ax) / max(len(names), 1) / LINE
        every = 1 if points >= MIN_POINTS and len(names) <= MAX_NAMES else 1 + (len(names) - 1) // FEW_NAMES
        shown = range(0, len(names), every)
        upright = axis is ax.xaxis and any(len(str(names[index])) > 2 for index in shown)
        axis.set_ticks(
            list(shown), [shorten(names[index], 7) for index in shown], rotation=90 if upright else 0
        )
        axis.set_tick_params(length=0, pad=1.5, labelsize=min(6.0, points) if every == 1 else 6)
    ax.spines[:].set(visible=True, color="0.6", linewidth=0.4)
    return image


def title_snapshots(axes: Iterable[Axes], steps: Iterable[int]) -> None:
    """Title a row of snapshots with their steps, saying so once; 12 000 is written 12k."""
    for number, (ax, step) in enumerate(zip(axes, steps, strict=True)):
        text = f"{step / 1000:.4g}k" if step >= 10_000 else f"{step}"
        label_axes(ax, title=f"step {text}" if number == 0 else text)


def layer_heads(array: xr.DataArray, limit: int = MAX_PANELS) -> list[tuple[str, xr.DataArray]]:
    """(title, array without layer and head) for at most `limit` heads, spread over the layers.

    The title is empty where there is only one head in all; the first of several says of how many they are.
    """
    stacked = [dim for dim in ("layer", "head") if dim in array.dims]
    sizes = tuple(array.sizes[dim] for dim in stacked)
    total = int(np.prod(sizes))
    chosen = np.unique(np.linspace(0, total - 1, min(limit, total)).round().astype(int))
    panels: list[tuple[str, xr.DataArray]] = []
    for flat in chosen:
        index = dict(zip(stacked, map(int, np.unravel_index(flat, sizes)), strict=True))
        title = ", ".join(f"{dim} {number}" for dim, number in index.items()) if total > 1 else ""
        title += f" ({len(chosen)} of {total} heads)" if total > len(chosen) > 1 and not panels else ""
        panels.append((title, array.isel(index)))
    return panels


def panel_grid(figure: FigureBase, count: int, **options: Any) -> list[Axes]:
    """`count` axes side by side, two a row from the third on; further `options` go to `subplots`."""
    columns = min(count, 2)
    rows = -(-count // columns)
    axes = list(np.atleast_1d(figure.subplots(rows, columns, squeeze=False, **options).ravel()))
    for ax in axes[count:]:
        ax.remove()
    return axes[:count]


def _cell(ax: Axes) -> float:
    """About the width, in inches, of one of the panels that stand in a row with `ax`."""
    grid = ax.get_subplotspec()
    figure = cast(Figure, ax.figure)
    return (figure.bbox.width / figure.dpi - 1.4) / (grid.get_gridspec().ncols if grid else 1)


def _columns(labels: list[str], room: float) -> int:
    """In how many columns a legend of these entries is no wider than `room`, in inches; one at least."""
    widths = [LEGEND_HANDLE + LEGEND_LETTER * _letters(label) for label in labels]
    return max(1, len(labels) if sum(widths) <= room else int(room / max(widths)))


def _letters(label: str) -> int:
    # about half of a formula's characters are commands
    return len(label) // 2 if label.startswith("$") else len(label)


def _axes(figure: FigureBase) -> list[Axes]:
    # a figure knows the axes of its subfigures, a subfigure only its own
    nested = [ax for part in figure.subfigs for ax in _axes(part)]
    return list(dict.fromkeys([*cast(list[Axes], figure.axes), *nested]))


def _has_time(data: xr.Dataset | xr.DataArray) -> bool:
    # where the replicas' learning rates differ, so do their times, and only steps are common to them
    return "time" in data.coords and data["time"].dims == ("step",)
