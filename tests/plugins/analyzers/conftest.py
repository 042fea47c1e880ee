"""What the analyzers' tests share: small trajectories made of arrays, and figures checked for legibility."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from numpy.typing import ArrayLike

from attndyn import registry
from attndyn.data.labels import REST
from attndyn.report import style

HEADS = ("replica", "step", "layer", "head")
DIMS = {
    "W_0": ("replica", "step", "token", "model"),
    "W_1": ("replica", "step", "model", "next_token"),
    "W_Q": (*HEADS, "model", "d_head"),
    "W_K": (*HEADS, "model", "d_head"),
    "W_V": (*HEADS, "model", "d_head"),
    "W_O": (*HEADS, "d_head", "model"),
    "attention": (*HEADS, "query", "key"),
    "entropy": (*HEADS, "query"),
}


def build(
    pi: ArrayLike,
    arrays: dict[str, np.ndarray],
    steps: ArrayLike,
    tokens: list[str] | None = None,
    times: ArrayLike | None = None,
    keys: list[str] | None = None,
) -> xr.DataTree:
    """A trajectory of the given arrays; `pi` (token) or (replica, token), `keys` label the attention map."""
    n_replicas = len(next(iter(arrays.values())))
    pi = np.broadcast_to(pi, (n_replicas, np.shape(pi)[-1]))
    tokens = tokens or [f"t{i}" for i in range(pi.shape[1])]
    root = xr.Dataset(
        coords={
            "replica": np.arange(n_replicas),
            "token": tokens,
            "next_token": tokens,
            "pi": (("replica", "token"), pi),
        }
    )
    coords: dict[str, Any] = {"step": np.asarray(steps)}
    if times is not None:
        coords["time"] = (("step",) if np.ndim(times) == 1 else ("replica", "step"), np.asarray(times))
    groups: dict[str, xr.Dataset] = {"/": root}
    for group, names in (("parameters", list(DIMS)[:6]), ("attention", ["attention", "entropy"])):
        variables = {name: (DIMS[name], arrays[name]) for name in names if name in arrays}
        labels = {"query": keys or tokens, "key": keys or tokens} if group == "attention" else {}
        if variables:
            groups[group] = xr.Dataset(variables, coords=coords | labels)
    return xr.DataTree.from_dict(groups)


def rich() -> xr.DataTree:
    """Straight random paths of every weight, and an attention map with a lumped rest; all sizes differ."""
    rng = np.random.default_rng(7)
    replicas, records, layers, heads, d_vocab, d_model, d_head, shown = 4, 9, 2, 3, 12, 6, 5, 7
    pi = 0.7 ** np.arange(d_vocab)
    time = np.linspace(0, 1, records)

    def path(*shape: int) -> np.ndarray:
        start, end = rng.normal(size=(2, replicas, 1, *shape))
        t = time.reshape(-1, *[1] * len(shape))
        return (1 - t) * start + t * end

    logits = path(layers, heads, shown + 1, shown + 1)
    attention = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    arrays = {
        "W_0": path(d_vocab, d_model),
        "W_1": path(d_model, d_vocab),
        "W_Q": path(layers, heads, d_model, d_head),
        "W_K": path(layers, heads, d_model, d_head),
        "W_O": path(layers, heads, d_head, d_model),
        "attention": attention,
        "entropy": -(attention * np.log(attention)).sum(axis=-1),
    }
    tokens = [f"$word_{i}^" for i in range(d_vocab)]
    return build(pi / pi.sum(), arrays, np.arange(records) * 2500, tokens, keys=[*tokens[:shown], REST])


def analyze(name: str, trajectory: xr.DataTree, **options: Any) -> xr.Dataset:
    """What the analyzer makes of the trajectory; every variable is described."""
    analyzer = registry.get("analyzer", name)
    result = analyzer(analyzer.Options(kind=name, **options)).analyze(trajectory)
    for variable in result.data_vars.values():
        assert variable.attrs["long_name"]
        assert variable.attrs["units"] in ("1", "nats", "step")
    return result


def draw(name: str, trajectory: xr.DataTree, result: xr.Dataset | None = None, **options: Any) -> Figure:
    """The analyzer's figure at half the width of a page, every text inside it and none over another."""
    analyzer = registry.get("analyzer", name)
    result = analyze(name, trajectory, **options) if result is None else result
    with style.style():
        figure = Figure(figsize=(3.4, 2.8), dpi=200, layout="constrained")
        analyzer(analyzer.Options(kind=name)).draw(result, trajectory, figure)
        FigureCanvasAgg(figure).draw()
    assert collisions(figure) == []
    return figure


def texts(figure: Figure) -> list[Text]:
    """All texts that are drawn, of axes, ticks and legends."""
    found = [text for part in [figure, *figure.subfigs] for legend in part.legends for text in legend.texts]
    for ax in figure.axes:
        found += ax.get_legend().texts if ax.get_legend() else []
        found += [ax.title, ax._left_title, ax._right_title, *ax.texts, *_axis_texts(ax)]
    return [text for text in found if text.get_visible() and text.get_text().strip()]


def _axis_texts(ax: Axes) -> Iterator[Text]:
    for axis in (ax.xaxis, ax.yaxis):
        yield axis.label
        for tick in axis._update_ticks():  # those that are drawn
            yield from (label for label in (tick.label1, tick.label2) if label.get_visible())


def collisions(figure: Figure, slack: float = 1.0) -> list[tuple[str, str]]:
    """Pairs of texts that overlap by more than `slack` pixels, and texts that leave the figure."""
    boxes = [(text.get_text(), text.get_window_extent().padded(-slack)) for text in texts(figure)]
    outside = [(t, "figure") for t, box in boxes if box.x0 < 0 or box.y0 < 0 or not _inside(figure, box)]
    return outside + [(a, b) for (a, box), (b, other) in combinations(boxes, 2) if box.overlaps(other)]


def _inside(figure: Figure, box: Any) -> bool:
    return bool(box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1)


@pytest.fixture
def make_trajectory() -> Callable[..., xr.DataTree]:
    return build


@pytest.fixture
def rich_trajectory() -> xr.DataTree:
    return rich()


@pytest.fixture
def run_analyzer() -> Callable[..., xr.Dataset]:
    return analyze


@pytest.fixture
def draw_analyzer() -> Callable[..., Figure]:
    return draw


@pytest.fixture
def words() -> Callable[[Figure], list[str]]:
    """The texts of a figure."""
    return lambda figure: [text.get_text() for text in texts(figure)]
