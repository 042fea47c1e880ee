"""Reading a trajectory record by record: bounded memory, token frequencies, telling snapshots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

BLOCK_BYTES = 2**26


def group(trajectory: xr.DataTree, name: str) -> xr.Dataset:
    """A probe's group as a dataset that has the coordinates of the root's dimensions."""
    return trajectory[name].to_dataset()


def describe(
    array: xr.DataArray,
    long_name: str,
    symbol: str = "",
    units: str = "1",
    valid: tuple[float | None, float | None] = (None, None),
) -> xr.DataArray:
    """`array` with the attributes that every recorded or derived variable has, and no others.

    `valid` is what it cannot be below and above in any run, None where there is no such bound.
    """
    described = array.drop_attrs(deep=False)
    described.attrs = {"long_name": long_name, "units": units} | ({"symbol": symbol} if symbol else {})
    bounds: dict[str, Any] = dict(zip(("valid_min", "valid_max"), valid, strict=True))
    described.attrs |= {name: bound for name, bound in bounds.items() if bound is not None}
    return described


def over_steps(
    function: Callable[[xr.DataArray], xr.Dataset], array: xr.DataArray, block_bytes: int = BLOCK_BYTES
) -> xr.Dataset:
    """`function` of the whole array, computed a block of records at a time so that memory stays bounded.

    Args:
        function: maps an array (..., step, ...) to a dataset whose variables all have `step`; each record's
            result must depend on that record alone.
        array: any dimensions, `step` among them; read from the file lazily where it comes from one.
        block_bytes: upper bound for one block of the input, of which there is at least one record.
    """
    count = array.sizes["step"]
    size = max(1, block_bytes * count // max(array.nbytes, 1))
    starts = range(0, count, size) if count else [0]
    parts = [function(array.isel(step=slice(start, start + size)).load()) for start in starts]
    if len(parts) == 1:
        return parts[0]
    return xr.concat(parts, "step", data_vars="minimal", coords="minimal", compat="override", join="override")


def frequent_tokens(trajectory: xr.DataTree, limit: int) -> NDArray[np.intp]:
    """Positions of the `limit` most frequent tokens (mean π over replicas), most frequent first."""
    pi = trajectory.dataset["pi"].mean("replica").values
    return np.argsort(-pi, kind="stable")[:limit]


def frequencies(trajectory: xr.DataTree, labels: NDArray[Any], dim: str) -> xr.DataArray:
    """π(replica, dim) of the tokens named by `labels`; one that names no token stands for all the others."""
    pi = trajectory.dataset["pi"].transpose("replica", "token")
    position = {token: index for index, token in enumerate(pi["token"].values.tolist())}
    at = np.array([position.get(label, -1) for label in labels.tolist()], dtype=np.intp)
    values = np.where(at >= 0, pi.values[:, at], 0.0)
    values[:, at < 0] = 1 - values.sum(axis=1, keepdims=True)
    return xr.DataArray(values, dims=("replica", dim), coords={"replica": pi["replica"], dim: labels})


def telling_records(count: int, *paths: xr.DataArray) -> NDArray[np.intp]:
    """At most `count` record numbers spread evenly along the path that quantities take, ends included.

    Equal arc lengths rather than equal times: snapshots gather where the quantities change. Moves from or to
    a record that is not finite have no length. Every path has `step`, the same ones, and other dimensions.
    """
    values = np.concatenate([_flat(path) for path in paths], axis=1)
    if len(values) <= count:
        return np.arange(len(values))
    moves = np.linalg.norm(np.nan_to_num(np.diff(values, axis=0), posinf=0, neginf=0), axis=1)
    length = np.concatenate([[0.0], np.cumsum(moves)])
    if length[-1] == 0:  # nothing moves
        length = np.arange(len(values), dtype=float)
    goals = np.linspace(0, length[-1], count)
    return np.unique(np.abs(length[:, None] - goals).argmin(axis=0))


def _flat(path: xr.DataArray) -> NDArray[np.float64]:
    return path.transpose("step", ...).values.reshape(path.sizes["step"], -1).astype(np.float64)


def nearest_records(steps: NDArray[np.integer], wanted: Sequence[int]) -> NDArray[np.intp]:
    """The numbers of the records whose steps are nearest to those wanted, each once, ascending."""
    return np.unique(np.abs(steps[:, None] - np.asarray(wanted)).argmin(axis=0))
