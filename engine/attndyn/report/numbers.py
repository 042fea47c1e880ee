"""What an analyzer found as numbers: a table of the variables that it names, over the replicas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr

from attndyn.analysis.series import band

MAX_ROWS = 36
NONE = "absent"


@dataclass(frozen=True)
class NumberTable:
    """Variables with the same dimensions besides replicas.

    Attributes:
        columns: name, long name and unit of each.
        rows: labels of these dimensions, and a cell for every column.
        left_out: rows beyond the first `MAX_ROWS`.
    """

    columns: list[tuple[str, str, str]]
    rows: list[tuple[str, list[str]]]
    left_out: int


def number_tables(result: xr.Dataset, names: Sequence[str]) -> list[NumberTable]:
    """A table for each set of dimensions that these variables have; of a curve, its last record.

    Args:
        result: of an analyzer, of the replicas of one setting; variables that it lacks are left out.
        names: of variables over `replica` and further dimensions.
    """
    by_dims: dict[tuple[str, ...], list[xr.DataArray]] = {}
    for name in names:
        if name not in result or "replica" not in result[name].dims:
            continue
        values = result[name]
        if "step" in values.dims:
            what = f"{values.attrs.get('long_name', '')}; at the last record"
            values = values.isel(step=-1, drop=True).assign_attrs(long_name=what)
        values = values.transpose("replica", ...)
        by_dims.setdefault(tuple(map(str, values.dims[1:])), []).append(values)
    return [_table(dims, columns) for dims, columns in by_dims.items()]


def _table(dims: tuple[str, ...], columns: Sequence[xr.DataArray]) -> NumberTable:
    places = list(np.ndindex(*(columns[0].sizes[dim] for dim in dims)))
    rows = [(_label(columns[0], dims, place), place) for place in places[:MAX_ROWS]]
    return NumberTable(
        [(str(c.name), str(c.attrs.get("long_name", "")), str(c.attrs.get("units", "1"))) for c in columns],
        [(label, [_cell(c.values[(slice(None), *place)]) for c in columns]) for label, place in rows],
        max(0, len(places) - MAX_ROWS),
    )


def _label(values: xr.DataArray, dims: Sequence[str], place: Sequence[int]) -> str:
    """Where a row is, without dimensions of which there is only one."""
    parts = []
    for dim, index in zip(dims, place, strict=True):
        if dim in values.coords and values[dim].dtype.kind in "OUST":
            parts.append(str(values[dim].values[index]))
        elif values.sizes[dim] > 1:
            parts.append(f"{dim} {index}")
    return ", ".join(parts)


def _cell(values: np.ndarray) -> str:
    """Median and 10-90 % range over the replicas (replica,) that have it, and how many do if not all."""
    if values.dtype.kind == "b":
        return f"{int(values.sum())} of {len(values)}"
    finite = values[np.isfinite(values.astype(float))].astype(float)
    if not len(finite):
        return NONE
    over = band(finite[:, None])
    spread = f" ({float(over.p10[0]):.4g} – {float(over.p90[0]):.4g})" if len(finite) > 1 else ""
    share = f", {len(finite)} of {len(values)}" if len(finite) < len(values) else ""
    return f"{float(over.median[0]):.4g}{spread}{share}"
