"""Which tokens share a direction: cosine similarities of embedding rows and of output columns."""

from __future__ import annotations

from functools import partial
from typing import Literal

import numpy as np
import xarray as xr
from matplotlib.figure import FigureBase
from pydantic import Field

from attndyn.analysis.analyzer import Analyzer
from attndyn.analysis.records import describe, frequent_tokens, group, over_steps, telling_records
from attndyn.analysis.settings import replica_names, surviving
from attndyn.registry import analyzer
from attndyn.report import style
from attndyn.spec.base import AnalyzerOptions

SNAPSHOTS = 5


@analyzer("cosine")
class Cosine(Analyzer):
    """Cosine-similarity matrices of the rows of W_0 and the columns of W_1 over time."""

    class Options(AnalyzerOptions):
        """How many tokens to compare with one another."""

        kind: Literal["cosine"] = "cosine"
        tokens: int = Field(default=16, ge=2, le=512, description="the most frequent ones")

    options: Cosine.Options
    requires = ("parameters",)
    title = "Cosine similarity of tokens"
    height = 3.8

    def analyze(self, trajectory: xr.DataTree) -> xr.Dataset:
        """Cosines among the most frequent tokens, most frequent first, dimensionless.

        `embedding_cosine(replica, step, token, other_token)` between rows of W_0 and
        `output_cosine(replica, step, next_token, other_next_token)` between columns of W_1; NaN for a zero
        or not-finite vector.
        """
        parameters = group(trajectory, "parameters")
        chosen = frequent_tokens(trajectory, self.options.tokens)
        found = xr.Dataset()
        for name, weight, dim in (("embedding", "W_0", "token"), ("output", "W_1", "next_token")):
            vectors = parameters[weight].isel({dim: chosen}).transpose("replica", "step", dim, "model")
            found.update(over_steps(partial(_cosines, f"{name}_cosine"), vectors))
        return found

    def draw(self, result: xr.Dataset, trajectory: xr.DataTree, figure: FigureBase) -> None:
        """Matrices at a few steps, W_0 above, W_1 below; of the first replica that did not diverge."""
        replica = surviving(result["embedding_cosine"])
        first = result.isel(replica=replica)
        figure.suptitle(style.shorten(replica_names(trajectory)[replica], 60), fontsize=7.5)
        embedding, output = first["embedding_cosine"], first["output_cosine"]
        records = telling_records(SNAPSHOTS, embedding, output)
        axes = figure.subplots(2, len(records), squeeze=False)
        for row, matrices, weight in zip(axes, (embedding, output), ("W_0", "W_1"), strict=True):
            names = matrices[matrices.dims[-1]].values
            for ax, matrix in zip(row, matrices.isel(step=records), strict=True):
                image = style.heatmap(ax, matrix, names, names, (-1, 1), style.DIVERGING)
                ax.label_outer()
            style.label_axes(row[0], y=f"{style.math_label(weight)} token")
        style.title_snapshots(axes[0], embedding["step"].values[records])
        for ax, anchor in zip(axes.ravel(), np.repeat(["S", "N"], len(records)), strict=True):
            ax.set_anchor(anchor)  # the two rows together, whatever the figure's height
        figure.colorbar(image, ax=axes, label="cosine", location="bottom", shrink=0.6, aspect=25)


def _cosines(name: str, block: xr.DataArray) -> xr.Dataset:
    """Cosines between the vectors (replica, step, dim, model) of a block, as (..., dim, other_dim)."""
    dim = str(block.dims[-2])
    vectors = block.values.astype(np.float64)
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    unit = np.divide(vectors, norms, out=np.full_like(vectors, np.nan), where=norms > 0)
    cosines = xr.DataArray(
        unit @ unit.swapaxes(-1, -2),
        dims=(*block.dims[:-1], f"other_{dim}"),
        coords=block.coords,
    )
    if dim in block.coords:
        cosines = cosines.assign_coords({f"other_{dim}": block[dim].values})
    weight = "rows of W_0" if dim == "token" else "columns of W_1"
    return xr.Dataset({name: describe(cosines, f"cosine similarity of {weight}", r"\cos")})
