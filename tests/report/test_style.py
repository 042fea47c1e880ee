"""Palette, axes and bands: what is drawn, where, and that nothing leaks out of it."""

from __future__ import annotations

import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pytest
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from attndyn.report import style


@pytest.fixture
def ax() -> Axes:
    return Figure(layout="constrained").subplots()


def test_style_is_restored() -> None:
    before = mpl.rcParams["font.size"]
    with style.style():
        assert mpl.rcParams["font.size"] == 7.5 != before
    assert mpl.rcParams["font.size"] == before


def test_import_changes_nothing_and_needs_no_pyplot() -> None:
    code = (
        "import matplotlib as mpl; before = mpl.rcParams.copy(); import attndyn.report.style, sys;"
        "sys.exit(before != mpl.rcParams or 'matplotlib.pyplot' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_band_is_median_and_quantiles(ax: Axes) -> None:
    values = np.arange(11.0)[:, None] * [1.0, 10.0]
    style.line_with_band(ax, [0, 5], values, "#000000", "w")
    (line,) = ax.lines
    np.testing.assert_allclose(line.get_ydata(), [5, 50])
    corners = ax.collections[0].get_paths()[0].vertices
    np.testing.assert_allclose((corners[:, 1].min(), corners[:, 1].max()), (1, 90))
    assert line.get_label() == "w"


def test_labelled_values_are_transposed(ax: Axes) -> None:
    values = xr.DataArray(np.arange(12.0).reshape(4, 3), dims=("step", "replica"))
    style.line_with_band(ax, np.arange(4), values, "#000000", "w")
    np.testing.assert_allclose(ax.lines[0].get_ydata(), [1, 4, 7, 10])


@pytest.mark.parametrize("replicas", [1, 2])
def test_few_replicas_are_all_drawn_under_one_label(ax: Axes, replicas: int) -> None:
    style.line_with_band(ax, [0, 1], np.arange(2.0 * replicas).reshape(replicas, 2), "#000000", "w")
    assert len(ax.lines) == replicas
    assert not ax.collections
    assert len(ax.get_legend_handles_labels()[1]) == 1


def test_diverged_replicas_leave_the_band_to_the_others(ax: Axes) -> None:
    values = np.array([[1.0, np.nan], [2.0, np.nan], [np.nan, np.nan], [3.0, np.nan]])
    style.line_with_band(ax, [0, 1], values, "#000000", "w")
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), [2, np.nan])


def test_a_single_record_is_visible(ax: Axes) -> None:
    style.line_with_band(ax, [3], [[1.0], [2.0], [4.0]], "#000000", "w")
    assert ax.lines[0].get_marker() == "."


def records(**coords: object) -> xr.Dataset:
    return xr.Dataset(coords={"step": [0, 10, 20]} | coords)


def test_step_axis_in_steps_or_common_time(ax: Axes) -> None:
    np.testing.assert_array_equal(style.step_axis(ax, records()), [0, 10, 20])
    assert ax.get_xlabel() == "step"
    np.testing.assert_array_equal(style.step_axis(ax, records(time=("step", [0, 1, 4]))), [0, 1, 4])
    assert ax.get_xlabel() == "time"
    per_replica = (("replica", "step"), [[0, 1, 4], [0, 2, 8]])
    np.testing.assert_array_equal(style.step_axis(ax, records(time=per_replica)), [0, 10, 20])


def test_step_axes_are_found_again() -> None:
    figure = Figure()
    first, _, third = figure.subplots(1, 3)
    for ax in (first, third):
        style.step_axis(ax, records())
        ax.set_xlabel("")
    assert style.step_axes(figure) == [first, third]


def test_spans_follow_the_axis() -> None:
    spans = [("focus", 5.0, 20.0)]
    assert style.spans_on_axis(spans, records()) == spans
    assert style.spans_on_axis(spans, records(time=("step", [0, 1, 4]))) == [("focus", 0.5, 4.0)]


def test_shading_keeps_the_limits_and_skips_what_is_absent(ax: Axes) -> None:
    ax.plot([0, 10], [0, 1])
    low, high = ax.get_xlim()
    nan = float("nan")
    style.shade_stages(
        ax, [("condensation", -5, 4), ("focus", 4, 25), ("dilution", nan, 9), ("token 1", 8, 8)]
    )
    assert ax.get_xlim() == (low, high)
    spans = [(patch.get_x(), patch.get_x() + patch.get_width()) for patch in ax.patches]
    assert spans == [(low, 4), (4, high)]
    assert to_hex(ax.patches[1].get_facecolor()) == style.stage_color("focus").lower()


def test_stages_in_sequence_have_different_colors() -> None:
    labels = ["condensation", "collapse", "plateau", "focus", "dilution", "token 1", "token 2", "token 3"]
    assert len({style.stage_color(label) for label in labels}) == len(labels)
    assert [patch.get_label() for patch in style.stage_handles([("focus", 0, 1), ("focus", 2, 3)], {})] == [
        "focus"
    ]


def test_stages_of_tokens_have_the_color_of_their_rank_and_the_name_of_their_token() -> None:
    (patch,) = style.stage_handles([("token 2", 0, 1)], {"token 2": "token the"})
    assert patch.get_label() == "token the"
    assert to_hex(patch.get_facecolor()) == style.stage_color("token 2").lower()


def test_parts_have_the_same_vertical_limits() -> None:
    figure = Figure()
    parts = figure.subfigures(2, 1)
    for part, high in zip(parts, (3, 7), strict=True):
        for ax in part.subfigures().subplots(2, 1):  # nested: they are found all the same
            style.step_axis(ax, records())
            ax.set_ylim(1, high)
    style.same_y(parts)
    assert [ax.get_ylim() for ax in style.step_axes(figure)] == [(1, 7)] * 4


def test_weights_are_told_apart() -> None:
    lines = [style.weight_line(name) for name in ("W_0", "W_1", "W_Q", "W_K", "W_V", "W_O")]
    assert len({(line["color"], line["linestyle"]) for line in lines}) == 6


def test_tokens_keep_their_color_by_rank() -> None:
    pi = (("replica", "token"), [[0.1, 0.6, 0.3]])
    trajectory = xr.DataTree(xr.Dataset(coords={"replica": [0], "token": ["x", "y", "z"], "pi": pi}))
    colors = style.token_colors(trajectory, ["x", "z", "<rest>"])
    assert colors == {"z": style.PALETTE[1], "x": style.PALETTE[2]}


def many(count: int) -> xr.DataTree:
    """A trajectory of so many tokens, the first the most frequent."""
    pi = np.arange(count, 0, -1.0)
    coords = {"replica": [0], "token": [f"t{i}" for i in range(count)], "pi": (("replica", "token"), [pi])}
    return xr.DataTree(xr.Dataset(coords=coords))


def test_a_dozen_tokens_are_told_apart_and_rarer_ones_take_what_is_left() -> None:
    lines = style.token_lines(many(40), [f"t{i}" for i in (0, 1, 3, 7, 20, 21, 22, 23, 30, 31, 32, 39)])
    assert len(lines) == 12
    assert len({(line["color"], str(line["linestyle"])) for line in lines.values()}) == 12
    of_few = style.token_lines(many(40), ["t7", "t35"])
    assert of_few["t7"] == lines["t7"]


@pytest.mark.parametrize(("count", "drawn", "note"), [(12, 12, []), (13, 6, ["(6 of 13 tokens)"])])
def test_what_is_not_drawn_is_counted_in_the_legend(count: int, drawn: int, note: list[str]) -> None:
    figure = Figure(layout="constrained")
    ax = figure.subplots()
    labels = [*(f"t{i}" for i in range(count)), "<rest>"]
    values = xr.DataArray(
        np.ones((1, 2, count + 1)), dims=("replica", "step", "query"), coords={"query": labels}
    )
    style.token_curves(ax, [0, 1], values, "query", many(60))
    style.legend(figure)
    assert [text.get_text() for text in figure.legends[0].texts] == labels[:drawn] + note


def test_every_token_that_is_drawn_is_in_the_legend() -> None:
    """Neither a leading underscore nor a name cut like another's hides one."""
    names = ["_a", "__", "international", "internationalism", "internationalists", "$x", "\n"]
    figure = Figure(layout="constrained")
    ax = figure.subplots()
    for name in style.distinct(names).values():
        ax.plot([0, 1], label=name)
    style.legend(figure)
    figure.draw_without_rendering()
    texts = [text.get_text() for text in figure.legends[0].texts]
    assert len(set(texts)) == len(names)
    assert max(map(len, texts)) <= 12
    assert texts[:2] == [r"$\_$a", r"$\_$_"]


def labelled(low: float, high: float) -> list[str]:
    ax = Figure().subplots()
    ax.plot([low, high])
    style.log_y(ax)
    ax.figure.draw_without_rendering()
    bottom, top = ax.get_ylim()
    seen = [(at, text.get_text()) for at, text in zip(ax.get_yticks(), ax.get_yticklabels(), strict=True)]
    seen += [
        (at, t.get_text())
        for at, t in zip(ax.get_yticks(minor=True), ax.get_yticklabels(minor=True), strict=True)
    ]
    return [text for at, text in seen if bottom <= at <= top and text]


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0.01, 100, ["0.01", "0.1", "1", "10", "100"]), (0.3, 4, ["0.5", "1", "2"])],
)
def test_logarithmic_axes_have_plain_numbers(low, high, expected) -> None:
    assert labelled(low, high) == expected


@pytest.mark.parametrize(("low", "high"), [(5.5, 7.5), (0.99, 1.4), (1.0, 1.00006), (2.0, 2.0), (40, 95)])
def test_a_short_logarithmic_axis_has_several_numbers_and_no_two_alike(low, high) -> None:
    found = labelled(low, high)
    assert 2 <= len(set(found)) == len(found)
    assert not any("times" in text or "10^" in text for text in found)


def test_legend_names_each_label_once() -> None:
    figure = Figure(layout="constrained")
    for ax in figure.subplots(2, 1):
        ax.plot([0, 1], label="same")
        ax.plot([0, 1], label="_hidden")
    style.legend(figure, "query:")
    assert [text.get_text() for text in figure.legends[0].texts] == ["query:", "same"]


def test_label_axes_shows_units_unless_there_are_none(ax: Axes) -> None:
    style.label_axes(ax, y="entropy", units="nats")
    assert ax.get_ylabel() == "entropy [nats]"
    style.label_axes(ax, y="|cos|", units="1")
    assert ax.get_ylabel() == "|cos|"


def test_long_names_are_cut_and_dollars_are_text(ax: Axes) -> None:
    assert style.shorten("extraordinary") == "extraord…"
    image = style.heatmap(ax, np.eye(3), ["a$b$", "c", "d"], ["a$b$", "c", "d"], (0, 1), style.SEQUENTIAL)
    ax.figure.draw_without_rendering()
    assert [text.get_text() for text in ax.get_yticklabels()] == [r"a\$b\$", "c", "d"]
    assert [text.get_rotation() for text in ax.get_xticklabels()] == [90] * 3
    assert image.get_clim() == (0, 1)


@pytest.mark.parametrize(("count", "named"), [(3, 3), (12, 12), (13, 5), (40, 5)])
def test_up_to_twelve_tokens_are_all_named(count: int, named: int) -> None:
    figure = Figure(figsize=(7.2, 2))
    names = list(range(count))
    for ax in figure.subplots(1, 7):
        style.heatmap(ax, np.eye(count), names, names, (0, 1), style.SEQUENTIAL)
        assert len(ax.get_xticklabels()) == len(ax.get_yticklabels()) == named
        assert ax.get_yticklabels()[-1].get_text() == str(max(ax.get_yticks()))


def test_a_panel_has_a_legend_of_its_own() -> None:
    figure = Figure(layout="constrained")
    axes = figure.subplots(2, 1)
    for number, ax in enumerate(axes):
        ax.plot([0, 1], label=f"curve {number}")
        style.panel_legend(ax)
    figure.draw_without_rendering()
    for number, ax in enumerate(axes):
        assert [text.get_text() for text in ax.get_legend().texts] == [f"curve {number}"]
        assert ax.get_legend().get_window_extent().y0 >= ax.bbox.y1  # above the curves


@pytest.mark.parametrize(("layers", "heads", "count"), [(1, 1, 1), (1, 3, 3), (8, 8, 4)])
def test_heads_are_spread_over_the_layers(layers: int, heads: int, count: int) -> None:
    dims = ("replica", "step", "layer", "head")
    array = xr.DataArray(np.arange(2.0 * layers * heads).reshape(1, 2, layers, heads), dims=dims)
    panels = style.layer_heads(array)
    assert len(panels) == count
    assert all(panel.dims == ("replica", "step") for _, panel in panels)
    title = "" if layers * heads == 1 else "layer 0, head 0"
    assert panels[0][0] == title + (f" (4 of {layers * heads} heads)" if layers * heads > 4 else "")
    xr.testing.assert_equal(panels[-1][1], array.isel(layer=-1, head=-1))


@pytest.mark.parametrize(
    ("values", "scale"), [([[0, 0], [0, 1e-9]], "log"), ([[0, 0], [np.nan, 0]], "linear")]
)
def test_a_logarithmic_axis_needs_something_positive(values, scale) -> None:
    axes = Figure().subplots(2, 1, sharey=True)
    for ax, curve in zip(axes, values, strict=True):
        ax.plot(curve)
    style.log_y(*axes)
    assert [ax.get_yscale() for ax in axes] == [scale, scale]
