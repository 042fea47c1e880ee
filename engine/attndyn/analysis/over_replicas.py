"""A quantity of every replica beside its median and 10-90 % range over them."""

from __future__ import annotations

import numpy as np
import xarray as xr

from attndyn.analysis.records import describe
from attndyn.analysis.series import band

QUANTILES = [0.5, 0.1, 0.9]


def with_band(values: xr.DataArray, name: str, long_name: str, units: str = "1") -> dict[str, xr.DataArray]:
    """`name` with `replica` first, and `name_band` with `quantile` in its place, both described."""
    values = values.transpose("replica", ...)
    over = band(values.values)
    quantiles = xr.DataArray(
        np.stack([over.median, over.p10, over.p90]),
        dims=("quantile", *values.dims[1:]),
        coords={dim: values[dim] for dim in values.dims[1:] if dim in values.coords}
        | {"quantile": QUANTILES},
    )
    return {
        name: describe(values, long_name, units=units),
        f"{name}_band": describe(quantiles, f"{long_name}; over replicas", units=units),
    }
