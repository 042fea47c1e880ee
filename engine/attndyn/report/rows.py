"""Rows of snapshots for the overview: one panel a step, all of one replica."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.image import AxesImage

from attndyn.report import style
from attndyn.report.snapshots import nearest
from attndyn.report.views import View


def recorded_steps(data: xr.Dataset, wanted: Sequence[int]) -> list[int]:
    """The recorded steps nearest to those wanted, one each."""
    steps = data["step"].values
    return [int(step) for step in steps[nearest(steps, wanted)]]


def draw_cosine(axes: Sequence[Axes], data: xr.Dataset, steps: Sequence[int], view: View) -> AxesImage:
    """Cosine similarity between the embeddings of tokens, -1 to 1."""
    matrices = data["embedding_cosine"].isel(replica=view.shown).sel(step=list(steps))
    names = matrices[matrices.dims[-1]].values
    for ax, matrix in zip(axes, matrices, strict=True):
        image = style.heatmap(ax, matrix, names, names, (-1, 1), style.DIVERGING)
        ax.label_outer()
    style.label_axes(axes[0], y=f"cosine\n{style.math_label('W_0')} token")
    return image


def draw_attention(axes: Sequence[Axes], data: xr.Dataset, steps: Sequence[int], view: View) -> AxesImage:
    """Attention from every query to every key, of the first layer and head."""
    one = data["attention"].isel(replica=view.shown).sel(step=list(steps))
    title, maps = style.layer_heads(one, limit=1)[0]
    highest = float(maps.max())
    highest = highest if highest < 0.5 else 1.0  # also where all is NaN
    for ax, attention in zip(axes, maps.transpose("step", "query", "key"), strict=True):
        keys, queries = maps["key"].values, maps["query"].values
        image = style.heatmap(ax, attention, queries, keys, (0, highest), style.SEQUENTIAL)
        if ax is not axes[0]:
            ax.tick_params(labelleft=False)
    style.label_axes(axes[0], x="key", y="\n".join(filter(None, ("attention", title, "query"))))
    return image


def draw_pca(axes: Sequence[Axes], data: xr.Dataset, steps: Sequence[int], view: View) -> None:
    """Embeddings on the first two principal components, with the way each has come since the last panel."""
    scores = data["scores"].isel(replica=view.shown).transpose("component", "token", "step")[:2]
    colors = style.token_colors(view.trajectory, scores["token"].values.tolist())
    limits = _limits(scores)
    sizes = np.linspace(6, 2.5, len(colors))  # so that tokens in one place all show
    for ax, since, step in zip(axes, [None, *steps], steps, strict=False):
        for (token, color), size in zip(colors.items(), sizes, strict=True):
            x, y = scores.sel(token=token, step=slice(since, step)).values
            ax.plot(x, y, color=color, linewidth=0.8, alpha=0.6)
            ax.plot(x[-1:], y[-1:], color=color, marker="o", markersize=size, markeredgewidth=0)
        ax.axhline(0, **style.REFERENCE)
        ax.axvline(0, **style.REFERENCE)
        ax.set(xlim=limits[0], ylim=limits[1], xticks=[], yticks=[], box_aspect=1)
        ax.spines[:].set(visible=True, color="0.6", linewidth=0.4)
    shares = data["explained_variance_ratio"].isel(replica=view.shown).values
    style.label_axes(axes[0], x=f"PC 1 ({shares[0]:.1%})", y=f"embedding\nPC 2 ({shares[1]:.1%})")


def _limits(scores: xr.DataArray) -> list[tuple[float, float]]:
    """Limits of both axes, equally long, around all finite scores (component, token, step)."""
    ends = []
    for values in scores.values:
        finite = values[np.isfinite(values)]
        ends.append((finite.min(), finite.max()) if len(finite) else (0.0, 0.0))
    half = 0.58 * max(high - low for low, high in ends) or 1.0
    return [(float((low + high) / 2 - half), float((low + high) / 2 + half)) for low, high in ends]
