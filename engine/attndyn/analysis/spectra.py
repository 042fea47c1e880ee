"""Singular values and leading directions of weight matrices over replicas, steps, layers and heads."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

STACKED = ("replica", "step", "layer", "head")
SIDES: dict[Hashable, int] = {"token": -1, "next_token": 1}
Array = NDArray[np.float64]


class Spectrum(NamedTuple):
    """Singular values and leading directions of matrices (..., row, column); NaN where one is not finite.

    Attributes:
        left: leading left singular vectors (..., row), NaN for a zero matrix, which has no direction.
        values: singular values, descending (..., min(row, column)).
        right: leading right singular vectors (..., column), likewise.
    """

    left: Array
    values: Array
    right: Array


def weight_matrices(parameters: xr.Dataset) -> dict[str, xr.DataArray]:
    """Every weight matrix among the parameters, as (replica, step[, layer, head], row, column).

    A variable is one if two of its dimensions remain beside replica, step, layer and head.
    """
    found = {}
    for name, array in parameters.data_vars.items():
        stacked = [dim for dim in STACKED if dim in array.dims]
        if "step" in stacked and array.ndim - len(stacked) == 2:
            # in whatever order the axes come: a row is a token's, a column a next token's
            matrix = sorted(
                (dim for dim in array.dims if dim not in stacked), key=lambda dim: SIDES.get(dim, 0)
            )
            found[str(name)] = array.transpose(*stacked, *matrix)
    return found


def spectrum(matrices: NDArray[np.floating]) -> Spectrum:
    """Singular values and leading singular vectors of every matrix of a stack (..., row, column)."""
    matrices = np.asarray(matrices, dtype=np.float64)
    finite = np.isfinite(matrices).all(axis=(-2, -1))
    left, values, right = np.linalg.svd(np.where(finite[..., None, None], matrices, 0), full_matrices=False)
    values = np.where(finite[..., None], values, np.nan)
    directed = values[..., :1] > 0
    return Spectrum(
        np.where(directed, left[..., :, 0], np.nan), values, np.where(directed, right[..., 0, :], np.nan)
    )


def energy_share(values: Array) -> Array:
    """σ₁²/Σσ² of singular values (..., k), in (0, 1]; NaN for a zero matrix, which has no direction.

    Its inverse is the stable rank ‖W‖_F²/‖W‖₂².
    """
    largest = values[..., :1]
    # relative to the largest, so that squares of very small values neither underflow nor overflow
    scaled = np.divide(values, largest, out=np.full_like(values, np.nan), where=largest > 0)
    return 1 / np.square(scaled).sum(axis=-1)


def abs_cosine(first: Array, second: Array) -> Array:
    """|cos| of the angle between vectors along the last axis; NaN where one of them is zero."""
    product = np.abs((first * second).sum(axis=-1))
    norms = np.linalg.norm(first, axis=-1) * np.linalg.norm(second, axis=-1)
    return np.divide(product, norms, out=np.full_like(product, np.nan), where=norms > 0)


def per_matrix(weight: xr.DataArray, values: Array) -> xr.DataArray:
    """`values`, one for every matrix of `weight` (..., row, column), with its dimensions and coordinates."""
    rows, columns = weight.dims[-2:]
    return weight.isel({rows: 0, columns: 0}, drop=True).copy(data=values)


def row_norms(weight: xr.DataArray) -> xr.DataArray:
    """Euclidean norms along `model` of a weight (..., model, ...) in float64; NaN where not finite."""
    return (weight.astype(np.float64) ** 2).sum("model", skipna=False) ** 0.5
