import numpy as np
import pytest
import xarray as xr

from attndyn.report.snapshots import Snapshot, choose_snapshots, nearest, position

EVERY_TEN = np.arange(0, 1001, 10)


def test_the_start_and_the_end_of_every_stage():
    spans = [("condensation", 0.0, 93.2), ("focus", 93.2, 418.0), ("dilution", 418.0, 1000.0)]
    assert choose_snapshots(spans, EVERY_TEN) == [
        Snapshot("", 0),
        Snapshot("condensation", 90),
        Snapshot("focus", 420),
        Snapshot("dilution", 1000),
    ]


def test_of_stages_that_end_at_one_record_the_last_is_named():
    spans = [("condensation", 0.0, 101.0), ("collapse", 101.0, 102.0), ("focus", 102.0, 1000.0)]
    assert [s.label for s in choose_snapshots(spans, EVERY_TEN)] == ["", "collapse", "focus"]


def test_too_many_stages_keep_the_first_ones_and_the_end():
    spans = [(f"token {k}", 100.0 * k, 100.0 * (k + 1)) for k in range(10)]
    chosen = choose_snapshots(spans, EVERY_TEN, limit=4)
    assert [s.step for s in chosen] == [0, 100, 200, 1000]
    assert chosen[-1].label == "token 9"


@pytest.mark.parametrize(
    ("records", "steps"),
    [
        (EVERY_TEN, [0, 200, 400, 600, 800, 1000]),
        (np.array([0, 7]), [0, 7]),
        (np.array([5]), [5]),
        (np.array([], dtype=int), []),
    ],
)
def test_without_stages_the_record_is_covered_evenly(records, steps):
    assert choose_snapshots([], records) == [Snapshot("", step) for step in steps]


def test_nearest_takes_the_earlier_of_two():
    assert nearest(np.array([0, 10, 20]), [-3, 5, 14, 16, 99]).tolist() == [0, 0, 1, 2, 2]


def test_position_is_a_time_where_all_replicas_share_one():
    steps = xr.Dataset(coords={"step": [0, 5]})
    assert position(steps, 5) == "step 5"
    assert position(steps.assign_coords(time=("step", [0.0, 0.25])), 5) == "t = 0.25"
    own_times = steps.assign_coords(time=(("replica", "step"), [[0.0, 0.25], [0.0, 0.5]]))
    assert position(own_times, 5) == "step 5"
