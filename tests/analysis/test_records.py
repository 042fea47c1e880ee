"""Reading records in blocks, π by label, and the choice of snapshots."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from attndyn.analysis.records import (
    describe,
    frequencies,
    frequent_tokens,
    nearest_records,
    over_steps,
    telling_records,
)


@pytest.fixture
def trajectory() -> xr.DataTree:
    pi = [[0.2, 0.5, 0.3], [0.1, 0.3, 0.6]]
    coords = {"replica": [0, 1], "token": ["x", "y", "z"], "pi": (("replica", "token"), pi)}
    return xr.DataTree(xr.Dataset(coords=coords))


@pytest.mark.parametrize("records_per_block", [1, 3, 7, 100])
def test_over_steps_is_the_function_of_the_whole(records_per_block: int) -> None:
    values = np.random.default_rng(0).normal(size=(2, 7, 3))
    array = xr.DataArray(
        values,
        dims=("replica", "step", "model"),
        coords={"step": 10 * np.arange(7), "time": ("step", np.arange(7.0))},
    )
    seen = []

    def function(block: xr.DataArray) -> xr.Dataset:
        seen.append(block.sizes["step"])
        return xr.Dataset({"total": block.sum("model")})

    found = over_steps(function, array, block_bytes=records_per_block * 2 * 3 * 8)
    xr.testing.assert_identical(found, xr.Dataset({"total": array.sum("model")}))
    assert max(seen) == min(records_per_block, 7)


def test_over_steps_of_no_records() -> None:
    array = xr.DataArray(np.zeros((2, 0)), dims=("replica", "step"))
    assert over_steps(lambda block: xr.Dataset({"same": block}), array).sizes["step"] == 0


def test_frequent_tokens_by_mean_over_replicas(trajectory: xr.DataTree) -> None:
    assert frequent_tokens(trajectory, 2).tolist() == [2, 1]


def test_frequencies_by_label_and_the_rest(trajectory: xr.DataTree) -> None:
    found = frequencies(trajectory, np.array(["z", "<rest>"]), "key")
    np.testing.assert_allclose(found, [[0.3, 0.7], [0.6, 0.4]], rtol=1e-14)
    assert found.dims == ("replica", "key")


def test_telling_records_follow_the_change() -> None:
    path = xr.DataArray([0.0, 0, 0, 0, 1, 2, 3, 3, 3, 3], dims="step")
    assert telling_records(4, path).tolist() == [0, 4, 5, 6]


def test_telling_records_of_a_constant_are_spread_in_time() -> None:
    assert telling_records(3, xr.DataArray(np.ones(9), dims="step")).tolist() == [0, 4, 8]


def test_telling_records_pass_over_what_is_not_finite() -> None:
    path = xr.DataArray([0.0, 1, np.nan, np.inf, 5, 6, 7], dims="step")
    assert telling_records(3, path).tolist() == [0, 1, 6]


def test_telling_records_take_all_of_a_few() -> None:
    assert telling_records(5, xr.DataArray(np.arange(3.0), dims="step")).tolist() == [0, 1, 2]


def test_nearest_records() -> None:
    assert nearest_records(np.array([0, 10, 20, 30]), [29, 12, 8, 1000]).tolist() == [1, 3]


def test_describe_replaces_attributes() -> None:
    array = xr.DataArray([1.0], dims="step", attrs={"long_name": "other", "stale": 1})
    assert describe(array, "a name", units="step").attrs == {"long_name": "a name", "units": "step"}
    assert array.attrs["stale"] == 1
