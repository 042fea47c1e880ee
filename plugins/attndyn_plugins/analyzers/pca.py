"""The paths of all token embeddings in one plane: principal components over tokens and steps together."""

from __future__ import annotations

from typing import Literal

import numpy as np
import xarray as xr
from matplotlib.figure import FigureBase
from pydantic import Field

from attndyn.analysis.analyzer import Analyzer
from attndyn.analysis.records import describe, frequent_tokens, group
from attndyn.analysis.settings import replica_names, surviving
from attndyn.analysis.spectra import Array
from attndyn.registry import analyzer
from attndyn.report import style
from attndyn.spec.base import AnalyzerOptions


@analyzer("pca")
class PCA(Analyzer):
    """Principal components of the embeddings of all tokens at all recorded steps, one basis a replica."""

    class Options(AnalyzerOptions):
        """Size of the basis and the tokens that define it."""

        kind: Literal["pca"] = "pca"
        components: int = Field(default=3, ge=2, le=64)
        tokens: int = Field(default=512, ge=1, le=65536, description="the most frequent ones")

    options: PCA.Options
    requires = ("parameters",)
    title = "Embeddings in one basis"

    def analyze(self, trajectory: xr.DataTree) -> xr.Dataset:
        """Scores, basis and explained variance of the rows of W_0, centred on their mean over everything.

        `scores(replica, step, token, component)` and `component_vector(replica, component, model)` in units
        of the embedding, `explained_variance_ratio(replica, component)` in [0, 1], `mean(replica, model)`.
        Signs: the score of the largest size is positive. Records that are not finite take no part and have
        NaN scores; components beyond d_model, and those of a replica with no finite record, are NaN.
        """
        chosen = frequent_tokens(trajectory, self.options.tokens)
        embedding = group(trajectory, "parameters")["W_0"].isel(token=chosen)
        embedding = embedding.transpose("replica", "step", "token", "model")
        bases = [_basis(rows.values, self.options.components) for rows in embedding]
        scores, vectors, mean, ratio = (np.stack(parts) for parts in zip(*bases, strict=True))
        numbers = {"component": np.arange(1, self.options.components + 1)}
        kept = embedding.isel(model=0, drop=True).coords
        replica = {name: kept[name] for name in kept if kept[name].dims == ("replica",)}

        def labelled(values: Array, long_name: str, *dims: str) -> xr.DataArray:
            coords = dict(kept if "step" in dims else replica) | (numbers if "component" in dims else {})
            return describe(xr.DataArray(values, dims=("replica", *dims), coords=coords), long_name)

        return xr.Dataset(
            {
                "scores": labelled(scores, "principal component score", "step", "token", "component"),
                "component_vector": labelled(vectors, "direction of a component", "component", "model"),
                "mean": labelled(mean, "mean row of W_0 over tokens and records", "model"),
                "explained_variance_ratio": labelled(ratio, "share of the variance", "component"),
            }
        )

    def draw(self, result: xr.Dataset, trajectory: xr.DataTree, figure: FigureBase) -> None:
        """Paths of the tokens of one replica, the first that did not diverge; a dot where each ends."""
        replica = surviving(result["scores"])
        first = result.isel(replica=replica)
        scores, ratio = first["scores"], first["explained_variance_ratio"].values
        ax = figure.subplots()
        ax.axhline(0, **style.REFERENCE)
        ax.axvline(0, **style.REFERENCE)
        colors = style.token_colors(trajectory, scores["token"].values.tolist())
        names = style.distinct(colors)
        for token, color in colors.items():
            x, y = scores.sel(token=token).transpose("component", "step").values[:2]
            ax.plot(x, y, color=color, marker=".", markersize=2.5, linewidth=0.9, label=names[token])
            ends = np.flatnonzero(np.isfinite(x))[-1:]
            ax.plot(x[ends], y[ends], color=color, marker="o", markersize=5, markeredgecolor="white")
        ax.set_aspect("equal", adjustable="datalim")
        style.label_axes(ax, title=style.shorten(replica_names(trajectory)[replica], 60))
        style.label_axes(ax, x=f"PC 1 ({ratio[0]:.1%})", y=f"PC 2 ({ratio[1]:.1%})")
        style.legend(figure)


def _basis(embedding: Array, count: int) -> tuple[Array, Array, Array, Array]:
    """Scores (step, token, component), vectors (component, model), mean (model) and variance ratios."""
    steps, tokens, d_model = embedding.shape
    finite = np.asarray(np.isfinite(embedding).all(axis=(1, 2)))
    embedding = np.where(finite[:, None, None], embedding, np.nan).astype(np.float64)
    scores = np.full((steps, tokens, count), np.nan)
    vectors, ratio = np.full((count, d_model), np.nan), np.full(count, np.nan)
    if not finite.any():
        return scores, vectors, np.full(d_model, np.nan), ratio
    # in units of a power of 2 that makes the largest entry about 1: squares neither overflow nor underflow
    _, exponent = np.frexp(np.abs(embedding[finite]).max())
    embedding = np.ldexp(embedding, -exponent)
    mean = embedding[finite].mean(axis=(0, 1))
    rows = (embedding[finite] - mean).reshape(-1, d_model)
    variances, basis = np.linalg.eigh(rows.T @ rows)
    kept = min(count, d_model)
    found = basis[:, ::-1][:, :kept].T
    projected = rows @ found.T
    largest = np.take_along_axis(projected, np.abs(projected).argmax(axis=0)[None], axis=0)[0]
    vectors[:kept] = np.where(largest < 0, -1, 1)[:, None] * found
    scores[..., :kept] = (embedding - mean) @ vectors[:kept].T
    if variances.sum() > 0:
        ratio[:kept] = np.clip(variances[::-1][:kept], 0, None) / variances.sum()
    return np.ldexp(scores, exponent), vectors, np.ldexp(mean, exponent), ratio
