import platform

import numpy as np
import pytest
import xarray as xr

from attndyn.report.tables import (
    MAX_REPLICAS,
    provenance,
    replica_names,
    stage_rows,
    stage_summary,
    variables,
)

NAN = float("nan")


@pytest.fixture
def stages():
    """Three replicas: condensation ends in all, focus begins in two, token `b` opens in none."""
    steps = [[10, 12, 14], [NAN, 200, 300], [NAN, NAN, NAN]]
    head = ("replica", "layer", "head")
    boundary = xr.DataArray(np.reshape(steps, (3, 3, 1, 1)), dims=("boundary", *head))
    over = {"median": [12, 250, NAN], "p10": [10.4, 210, NAN], "p90": [13.6, 290, NAN]}
    dims = ("boundary", "layer", "head")
    summary = {f"boundary_{name}": (dims, np.reshape(v, (3, 1, 1))) for name, v in over.items()}
    return xr.Dataset(
        {
            "boundary_step": boundary,
            **summary,
            "token_at_rank": (("replica", "rank"), [["a", "b"]] * 3),
            "in_order": (head, np.reshape([False, True, True], (3, 1, 1))),
            "focus_depth": (head, np.reshape([NAN, 0.1, 0.3], (3, 1, 1)), {"long_name": "rise of attention"}),
            "dilution_depth": (head, np.full((3, 1, 1), NAN), {"long_name": "fall of attention"}),
        },
        coords={
            "boundary": ["condensation_end", "focus_onset", "direction_1"],
            "step": [0, 400],
            "time": ("step", [0.0, 40.0]),
        },
    )


def test_a_row_has_median_band_share_and_every_replica(stages):
    condensation, focus, token = stage_rows(stages)
    assert (condensation.name, condensation.median, condensation.time) == ("condensation end", "12", "1.2")
    assert (condensation.band, condensation.share) == ("10 – 14", "3 of 3")
    assert (focus.share, focus.replicas) == ("2 of 3", ["absent", "200", "300"])
    assert (token.median, token.band, token.time) == ("absent", "", "")
    assert token.meaning == "the embedding of token b parts from those of rarer tokens"


def test_there_is_no_band_of_one_replica(stages):
    rows = stage_rows(stages.isel(replica=[1]))
    assert [(row.band, row.share) for row in rows] == [("", "1 of 1"), ("", "1 of 1"), ("", "0 of 1")]


def test_the_summary_counts_and_leaves_out_what_never_happens(stages):
    order, depth = stage_summary(stages)
    assert order.endswith("2 of 3.")
    assert depth == "Focus depth, the rise of attention: 0.2 (0.1 to 0.3)."


def test_replicas_are_named_by_seed_and_by_what_varies():
    root = xr.Dataset(coords={"seed": ("replica", [7, 8]), "pi": (("replica", "token"), [[1.0], [1.0]])})
    varied = root.assign_coords(lr=("replica", [0.1, 0.25]))
    assert replica_names(root) == ["seed 7", "seed 8"]
    assert replica_names(varied) == ["seed 7, lr 0.1", "seed 8, lr 0.25"]
    many = xr.Dataset(coords={"seed": ("replica", np.arange(100))})
    assert len(replica_names(many)) == MAX_REPLICAS


def test_provenance_names_versions_and_no_machine():
    found = provenance({"backend": "numpy", "created": "2026-01-01"}, range(100))
    assert found["backend"] == "numpy"
    assert found["dtype"] == "unknown"
    assert found["numpy"] == np.__version__
    assert found["seeds"].endswith("(100 replicas)")
    python, system, machine = platform.python_version(), platform.system(), platform.machine()
    assert found["report made with"] == f"Python {python} on {system} {machine}"


def test_variables_are_described():
    result = xr.Dataset({"norm": ("step", [1.0], {"units": "1", "long_name": "a norm"})})
    assert variables(result) == [("norm", "step", "1", "a norm")]
