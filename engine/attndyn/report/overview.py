"""The overview in the layout of Figure 2 of arXiv:2605.01199: snapshots of the stages over curves in time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import xarray as xr
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure, FigureBase, SubFigure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D

from attndyn.report import curves, rows, style
from attndyn.report.files import WIDTH, new_figure
from attndyn.report.snapshots import Snapshot, choose_snapshots, position
from attndyn.report.views import Spans, View

CURVE_HEIGHT, MAX_CELL, MIN_COLUMNS = 1.5, 1.15, 5


@dataclass(frozen=True)
class Panel:
    """One kind of picture.

    Attributes:
        label: what it is called.
        needs: where its data come from.
        by_token: whether its colours stand for tokens.
        data: the data, if they are there.
    """

    label: str
    needs: str
    by_token: bool
    data: xr.Dataset | None


@dataclass(frozen=True)
class Row(Panel):
    """A row of snapshots, one panel a step."""

    draw: Callable[[Sequence[Axes], xr.Dataset, Sequence[int], View], AxesImage | None]


@dataclass(frozen=True)
class Curve(Panel):
    """A panel of curves over training."""

    draw: Callable[[Axes, xr.Dataset, xr.DataTree], None]


def draw_overview(view: View) -> tuple[Figure, list[str]]:
    """The overview of one setting of a run, and a line for every panel that had to be left out.

    Maps and stages are those of one replica, named in the title; curves show all replicas of the setting.
    """
    trajectory, analysis, spans = view.trajectory, view.analysis, view.spans
    row_panels, curve_panels = _rows(trajectory, analysis), _curves(trajectory, analysis)
    panels: list[Panel] = [*row_panels, *curve_panels]
    notes = [f"{panel.label} (needs the {panel.needs})" for panel in panels if panel.data is None]
    row_panels = [row for row in row_panels if row.data is not None]
    curve_panels = [curve for curve in curve_panels if curve.data is not None]
    snapshots = _snapshots(row_panels, spans)
    figure, parts = _page(len(row_panels), len(snapshots), len(curve_panels))
    if row_panels:
        figure.suptitle(f"maps: {style.shorten(view.shown_name, 100)}", fontsize=7.5)
    if any(panel.by_token for panel in panels if panel.data is not None):
        _token_legend(parts[-1], [panel.data for panel in panels if panel.by_token], trajectory)
    if row_panels:
        _draw_rows(parts[0], row_panels, snapshots, view)
    if curve_panels:
        _draw_curves(parts[-1], curve_panels, view)
    return figure, notes


def in_words(view: View) -> str:
    """What the overview of a view shows, for who does not see it."""
    trajectory, analysis = view.trajectory, view.analysis
    maps, curves_ = (
        ", ".join(panel.label for panel in panels if panel.data is not None)
        for panels in (_rows(trajectory, analysis), _curves(trajectory, analysis))
    )
    when = " at the end of each stage" if view.spans else ""
    parts = [f"snapshots{when}: {maps}"] if maps else []
    parts += [f"curves over training{', stages shaded' if view.spans else ''}: {curves_}"] if curves_ else []
    return "; ".join(parts) or "nothing was recorded"


def _page(n_rows: int, n_columns: int, n_curves: int) -> tuple[Figure, list[SubFigure]]:
    """An empty figure and its parts: one for the rows of snapshots and one below for the curves, if any."""
    cell = min(MAX_CELL, (WIDTH - 1.0) / max(n_columns, MIN_COLUMNS))
    heights = [n_rows * (cell + 0.2) + 0.3] if n_rows else []
    heights += [-(-n_curves // 2) * CURVE_HEIGHT + 0.6] if n_curves else []
    heights = heights or [1.0]
    figure = new_figure(sum(heights))
    parts = figure.subfigures(len(heights), 1, height_ratios=heights, squeeze=False)
    return figure, list(cast(Any, parts)[:, 0])


def _rows(trajectory: xr.DataTree, analysis: Mapping[str, xr.Dataset]) -> list[Row]:
    cosine, pca = analysis.get("cosine"), analysis.get("pca")
    attention = _recorded(trajectory, "attention")
    return [
        Row("cosine of embeddings", "analyzer 'cosine'", False, cosine, rows.draw_cosine),
        Row("embeddings in one basis", "analyzer 'pca'", True, pca, rows.draw_pca),
        Row("attention maps", "probe 'attention'", False, attention, rows.draw_attention),
    ]


def _curves(trajectory: xr.DataTree, analysis: Mapping[str, xr.Dataset]) -> list[Curve]:
    attention, loss = _recorded(trajectory, "attention"), _recorded(trajectory, "loss")
    norms, projection = analysis.get("norms"), analysis.get("projection")
    return [
        Curve("entropy", "probe 'attention'", True, attention, curves.draw_entropy),
        Curve("norms", "analyzer 'norms'", True, norms, curves.draw_norms),
        Curve("projection", "analyzer 'projection'", False, projection, curves.draw_projection),
        Curve("loss", "probe 'loss'", False, loss, curves.draw_loss),
    ]


def _recorded(trajectory: xr.DataTree, probe: str) -> xr.Dataset | None:
    if probe not in trajectory.children or not trajectory[probe].sizes["step"]:
        return None
    return trajectory[probe].to_dataset()


def _snapshots(panels: Sequence[Row], spans: Spans) -> list[Snapshot]:
    data = panels[0].data if panels else None
    return [] if data is None else choose_snapshots(spans, data["step"].values)


def _draw_rows(figure: SubFigure, panels: Sequence[Row], snapshots: Sequence[Snapshot], view: View) -> None:
    count = len(snapshots)
    spare = max(MIN_COLUMNS - count, 0)  # left empty: few snapshots stay small and together
    widths = [1.0] * count + [0.07] + [1.0] * spare
    grid = figure.subplots(len(panels), len(widths), squeeze=False, width_ratios=widths)
    for ax in grid[:, count + 1 :].flat:
        ax.remove()
    wanted = [snapshot.step for snapshot in snapshots]
    for (*axes, bar), panel in zip(grid[:, : count + 1], panels, strict=True):
        assert panel.data is not None
        steps = rows.recorded_steps(panel.data, wanted)
        image = panel.draw(axes, panel.data, steps, view)
        if image is None:
            bar.remove()
        else:
            figure.colorbar(image, cax=bar).ax.tick_params(labelsize=6)
        if panel is panels[0]:
            _title_columns(axes, snapshots, panel.data, view.stage_names)
        elif steps != wanted:  # recorded at other steps than the row that names them
            for ax, step in zip(axes, steps, strict=True):
                style.label_axes(ax, title=position(panel.data, step))


def _title_columns(
    axes: Sequence[Axes], snapshots: Sequence[Snapshot], data: xr.Dataset, names: Mapping[str, str]
) -> None:
    for ax, (label, step) in zip(axes, snapshots, strict=True):
        where = position(data, step)
        ax.set_title(where, fontsize=7, pad=3)
        if label:
            box = {"facecolor": style.stage_color(label), "alpha": 0.25, "linewidth": 0, "pad": 1.5}
            ax.set_title(
                f"{style.shorten(names.get(label, label), 14)}\n{where}", fontsize=7, pad=4, bbox=box
            )


def _draw_curves(figure: SubFigure, panels: Sequence[Curve], view: View) -> None:
    axes = style.panel_grid(figure, len(panels))
    for number, (ax, panel) in enumerate(zip(axes, panels, strict=True)):
        assert panel.data is not None
        panel.draw(ax, panel.data, view.trajectory)
        style.shade_stages(ax, style.spans_on_axis(view.spans, panel.data))
        if number < len(panels) - 2:
            ax.set_xlabel("")
    stage_legend(figure, view.spans, view.stage_names)


def _token_legend(figure: SubFigure, panels: Sequence[xr.Dataset | None], trajectory: xr.DataTree) -> None:
    """The tokens of all panels, and how many of all there are these are."""
    lines: dict[Any, dict[str, Any]] = {}
    for data in (data for data in panels if data is not None):
        labels = data["query" if "query" in data.dims else "token"].values.tolist()
        lines |= style.token_lines(trajectory, labels)
    tokens = [Line2D([], [], **line | {"label": f"token {line['label']}"}) for line in lines.values()]
    if (total := trajectory.dataset.sizes["token"]) > len(lines):
        tokens.append(Line2D([], [], linestyle="none", label=f"({len(lines)} of {total} tokens)"))
    _legend(figure, tokens, "upper")


def stage_legend(figure: FigureBase, spans: Spans, names: Mapping[str, str]) -> None:
    """What the shades of `style.shade_stages` mean, below all axes of a figure."""
    if spans:
        _legend(figure, style.stage_handles(spans, names), "lower")


def _legend(figure: FigureBase, handles: Sequence[Artist], where: Literal["upper", "lower"]) -> None:
    """A legend outside the axes: one row if it fits the width of the page, else columns that do."""
    letters = [len(str(handle.get_label())) for handle in handles]
    widths = [1.6 * style.LEGEND_HANDLE + style.LEGEND_LETTER * count for count in letters]
    columns = len(handles) if sum(widths) <= WIDTH else max(1, int(WIDTH / max(widths)))
    place: dict[str, Any] = {"loc": f"outside {where} center", "ncols": columns}
    figure.legend(handles=handles, handlelength=1.4, columnspacing=1.4, **place)
