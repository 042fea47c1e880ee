"""When each stage begins and ends, per replica, layer and head, with bands over replicas (docs/stages.md)."""

from __future__ import annotations

from functools import partial

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from numpy.typing import NDArray

from attndyn.analysis.analyzer import Analyzer
from attndyn.analysis.records import group, over_steps
from attndyn.analysis.settings import replica_names, settings
from attndyn.analysis.spectra import per_matrix, weight_matrices
from attndyn.analysis.stage_table import HEAD, StageTable
from attndyn.analysis.stages import Signals, StageOptions, detect, frobenius_norm, rank_one_share, separation
from attndyn.analysis.timeline import replica_spans, stage_names
from attndyn.registry import analyzer
from attndyn.report import style

MAX_REPLICAS, MAX_SETTINGS, MIN_ROWS = 18, 6, 4
BANDS = 1.6  # height of the bands of one setting, that of a replica being 1


@analyzer("stages")
class Stages(Analyzer):
    """Boundaries and depths of the stages: condensation, collapse, focus, dilution, new directions."""

    Options = StageOptions
    requires = ("attention", "parameters")
    title = "Stages"
    whole_run = True
    options: StageOptions

    def analyze(self, trajectory: xr.DataTree) -> xr.Dataset:
        """Steps and depths, NaN where absent; docs/stages.md lists the variables and defines each."""
        attention = group(trajectory, "attention")["attention"].transpose(*HEAD, "step", "query", "key")
        ranking = Ranking(trajectory, attention)
        ranks = max(min(len(ranking.keys), self.options.tokens) - 1, 1)
        curves = _curves(group(trajectory, "parameters"), ranking.tokens, ranks)
        found = np.empty(tuple(attention.sizes[dim] for dim in HEAD), dtype=object)
        for place in np.ndindex(found.shape):
            found[place] = detect(_signals(curves, attention, ranking, place), self.options)
        return StageTable(
            found,
            coords={dim: attention[dim] for dim in HEAD if dim in attention.coords},
            steps=attention["step"],
            parameter_steps=group(trajectory, "parameters")["step"].values.astype(float),
            settings=settings(trajectory),
            queries=ranking.labels,
            query_ranks=np.argsort(ranking.order, axis=1),
            ranked=ranking.labels[ranking.order[:, :ranks]],
        ).dataset()

    def draw(self, result: xr.Dataset, trajectory: xr.DataTree, figure: FigureBase) -> None:
        """The stages of each replica, by setting. Lines below: 10-90 % of each boundary over the replicas.

        Each of those lines is a boundary's, in the order of the table, with a tick at its median.
        """
        ax = figure.subplots()
        x = style.step_axis(ax, result["stage"])
        names, tokens = replica_names(trajectory), stage_names(result)
        ticks: list[tuple[float, str]] = []
        top = 0.0
        for number, setting in enumerate(settings(trajectory)[:MAX_SETTINGS]):
            for replica in setting.replicas[: max(2, MAX_REPLICAS // result.sizes["setting"])]:
                for label, start, end in style.spans_on_axis(replica_spans(result, replica), result["stage"]):
                    color, name = style.stage_color(label), style.shorten(tokens.get(label, label), 20)
                    ax.barh(top, end - start, left=start, height=0.8, color=color, alpha=0.7, label=name)
                ticks.append((top, style.shorten(names[replica], 40)))
                top += 1
            if len(setting.replicas) > 1:
                _draw_bands(ax, result.isel(setting=number), top - 0.35)
                top += BANDS
        ax.set_yticks([at for at, _ in ticks], [name for _, name in ticks])
        ax.set_ylim(max(top, MIN_ROWS) - 0.4, -0.6)
        if len(x) > 1:
            ax.set_xlim(x[0], x[-1])
        several = result.sizes["layer"] * result.sizes["head"] > 1
        style.label_axes(ax, title="layer 0, head 0" if several else "")
        style.legend(figure)


class Ranking:
    """Tokens by falling stationary probability, replica by replica; ties keep the order of the labels.

    Attributes:
        keys: positions on the attention map's axes of the tokens that have one of their own, shape (key,).
        labels: their labels, shape (key,).
        order: those keys by rank, as indices into `keys`, shape (replica, rank).
        pi: their stationary probabilities by rank, shape (replica, rank).
        tokens: rows of W_0 by rank, then the tokens without an own key, shape (replica, token).
    """

    def __init__(self, trajectory: xr.DataTree, attention: xr.DataArray):
        pi = trajectory.dataset["pi"].transpose("replica", "token")
        names = pi["token"].values
        labels = attention["key"].values if "key" in attention.coords else names
        self.keys = np.flatnonzero(np.isin(labels, names))
        self.labels = labels[self.keys]
        row = {name: index for index, name in enumerate(names.tolist())}
        rows = np.array([row[label] for label in self.labels.tolist()])
        self.order = np.argsort(-pi.values[:, rows], axis=1, kind="stable")
        self.pi = np.take_along_axis(pi.values[:, rows], self.order, axis=1)
        others = np.setdiff1d(np.arange(len(names)), rows)
        self.tokens = np.concatenate([rows[self.order], np.tile(others, (len(pi), 1))], axis=1)


def _curves(parameters: xr.Dataset, tokens: NDArray[np.intp], ranks: int) -> xr.Dataset:
    """`outer`, `size`, `inner`, `spread` and `separation` of `Signals`, with the dimensions that each has."""
    weights = weight_matrices(parameters)
    ranks = min(ranks, tokens.shape[1] - 1)
    of = {name: over_steps(_share_and_norm, weights[name]) for name in ("W_0", "W_1", "W_Q", "W_K")}
    share, norm = ({name: found[what] for name, found in of.items()} for what in ("share", "norm"))
    apart = over_steps(partial(_separation, tokens=tokens, ranks=ranks), weights["W_0"])["separation"]
    return xr.Dataset(
        {
            "outer": np.minimum(share["W_0"], share["W_1"]),  # NaN where either is
            "size": np.sqrt(norm["W_0"] * norm["W_1"]),
            "inner": np.minimum(share["W_Q"], share["W_K"]),
            "spread": 1 - share["W_0"],
            "separation": apart,
        }
    )


def _share_and_norm(block: xr.DataArray) -> xr.Dataset:
    of = {"share": rank_one_share, "norm": frobenius_norm}
    return xr.Dataset({name: per_matrix(block, function(block.values)) for name, function in of.items()})


def _separation(block: xr.DataArray, tokens: NDArray[np.intp], ranks: int) -> xr.Dataset:
    W_0 = block.transpose("replica", "step", "token", "model")
    ranked = np.take_along_axis(W_0.values, tokens[:, None, :, None], axis=2).astype(np.float64)
    dims = ("replica", "step", "rank")
    coords = {"step": block["step"]}
    return xr.Dataset({"separation": xr.DataArray(separation(ranked, ranks), dims=dims, coords=coords)})


def _signals(
    curves: xr.Dataset, attention: xr.DataArray, ranking: Ranking, place: tuple[int, ...]
) -> Signals:
    """The curves of one (replica, layer, head), `place` holding their indices."""
    at = dict(zip(HEAD, place, strict=True))
    replica = curves.isel(replica=at["replica"])
    own = ranking.keys[ranking.order[at["replica"]]]
    return Signals(
        parameter_steps=curves["step"].values.astype(float),
        outer=replica["outer"].values,
        size=replica["size"].values,
        inner=replica["inner"].isel(layer=at["layer"], head=at["head"]).values,
        spread=replica["spread"].values,
        separation=replica["separation"].transpose("step", "rank").values,
        attention_steps=attention["step"].values.astype(float),
        attention=attention.isel(at).values[:, own][:, :, own].astype(np.float64),
        pi=ranking.pi[at["replica"]],
    )


def _draw_bands(ax: Axes, result: xr.Dataset, top: float) -> None:
    """Median and 10-90 % band of each boundary of one setting, one below the other from `top` on."""
    one = result.isel(layer=0, head=0)
    found = [one[f"boundary_{name}"].values for name in ("p10", "median", "p90")]
    lines = [line for line in zip(*found, strict=True) if np.isfinite(line).all()]
    for number, line in enumerate(sorted(lines, key=lambda line: line[1])):
        ((_, low, high),) = style.spans_on_axis([("", line[0], line[2])], result["stage"])
        ((_, middle, _),) = style.spans_on_axis([("", line[1], line[1])], result["stage"])
        y = top + number * (BANDS - 0.6) / len(lines)
        ax.plot([low, high], [y, y], color="black", linewidth=0.9, solid_capstyle="butt", label="10-90 %")
        ax.plot(middle, y, color="black", marker="|", markersize=3, linestyle="none", label="median")
