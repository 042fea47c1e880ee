"""Curves of attention that several analyzers read: mean entropy, attention to the most frequent token."""

from __future__ import annotations

import numpy as np
import xarray as xr

from attndyn.analysis.records import frequencies

HEAD_DIMS = ("replica", "step", "layer", "head")


def mean_over_queries(trajectory: xr.DataTree, values: xr.DataArray) -> xr.DataArray:
    """Mean of `values` (..., query) over queries weighted by π; NaN where a query's value is not finite."""
    weights = frequencies(trajectory, values["query"].values, "query")
    return (values * weights).sum("query", skipna=False)


def top_key(trajectory: xr.DataTree, attention: xr.DataArray) -> xr.DataArray:
    """Position (replica,) among the map's keys of k* = argmax π, of the tokens that have their own key."""
    keys = attention["key"].values
    named = np.isin(keys, trajectory.dataset["token"].values)
    return frequencies(trajectory, keys, "key").where(xr.DataArray(named, dims="key"), -1).argmax("key")


def focus(trajectory: xr.DataTree, attention: xr.DataArray) -> xr.DataArray:
    """Attention (replica, step, layer, head, query) to the most frequent token, that of `top_key`."""
    attention = attention.transpose(*HEAD_DIMS, "query", "key")
    return attention.isel(key=top_key(trajectory, attention)).drop_vars("key")
