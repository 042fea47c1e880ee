"""Results of analyzers as tables of numbers."""

import numpy as np
import xarray as xr

from attndyn.report.numbers import MAX_ROWS, number_tables


def result():
    steps = np.array([[[[10.0, np.nan]]], [[[20.0, np.nan]]], [[[np.nan, np.nan]]]])
    dims = ("replica", "layer", "head", "of")
    of = {"of": ["the", "[high]"]}
    return xr.Dataset(
        {
            "peak": (dims, steps, {"long_name": "step of the top", "units": "step"}),
            "taken_up": (dims, np.isfinite(steps), {"long_name": "whether", "units": "1"}),
            "order": (("replica", "step"), [[0, 1], [0, 2], [0, 1]], {"long_name": "order", "units": "1"}),
            "mean": (("layer",), [0.5], {"long_name": "of no replica", "units": "1"}),
        },
        of,
    )


def test_median_range_and_share_of_the_replicas():
    by_token, single = number_tables(result(), ("peak", "taken_up", "order", "mean", "not there"))
    assert by_token.columns == [("peak", "step of the top", "step"), ("taken_up", "whether", "1")]
    assert by_token.rows == [
        ("the", ["15 (11 – 19), 2 of 3", "2 of 3"]),
        ("[high]", ["absent", "0 of 3"]),
    ]
    assert single.columns == [("order", "order; at the last record", "1")]
    assert single.rows == [("", ["1 (1 – 1.8)"])]


def test_heads_are_named_where_there_are_several_and_rows_have_an_end():
    values = xr.DataArray(np.zeros((1, 5, 10)), dims=("replica", "layer", "head"), name="x")
    (table,) = number_tables(values.to_dataset(), ("x",))
    assert table.rows[11] == ("layer 1, head 1", ["0"])
    assert len(table.rows) == MAX_ROWS
    assert table.left_out == 50 - MAX_ROWS
