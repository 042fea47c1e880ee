import platform

import numpy as np
import pytest
import xarray as xr

from attndyn.analysis.series import band
from attndyn.report.tables import (
    MAX_REPLICAS,
    coarse_boundaries,
    provenance,
    replica_rows,
    stage_rows,
    stage_summary,
    variables,
)

NAN = float("nan")


HEAD = ("replica", "layer", "head")


@pytest.fixture
def stages():
    """Three replicas of setting x and one of setting y; token b opens before token a in the last of x."""
    labels = ["condensation_end", "collapse_end", "focus_onset", "focus_peak", "dilution_onset"]
    labels += ["direction_0", "direction_1", "direction_2"]
    first = [10, 20, NAN, 40, 50, NAN, 60, NAN]
    second = [12, 22, 200, 240, 250, NAN, 260, 270]
    third = [14, 24, 300, 340, 350, NAN, 370, 360]
    other = [1, 2, 3, 4, 5, NAN, 6, 7]
    steps = np.array([first, second, third, other])
    of = [band(steps[:3]), band(steps[3:])]
    summary = {
        f"boundary_{name}": (
            ("boundary", "setting", "layer", "head"),
            np.stack([getattr(part, name) for part in of], axis=1)[..., None, None],
        )
        for name in ("median", "p10", "p90")
    }
    boundary = (("boundary", *HEAD), steps.T[..., None, None])
    resolution = (boundary[0], np.where(np.isfinite(boundary[1]), 4.0, NAN))
    return xr.Dataset(
        {
            "boundary_step": boundary,
            "boundary_resolution": resolution,
            **summary,
            "replica_setting": ("replica", ["x", "x", "x", "y"]),
            "token_at_rank": (("replica", "rank"), [["the", "a", "b"]] * 4),
            "focus_depth": (
                HEAD,
                np.reshape([NAN, 0.1, 0.3, 0.5], (4, 1, 1)),
                {"long_name": "rise of attention"},
            ),
            "dilution_depth": (HEAD, np.full((4, 1, 1), NAN), {"long_name": "fall of attention"}),
        },
        coords={
            "boundary": labels,
            "setting": ["x", "y"],
            "step": [0, 400],
            "time": ("step", [0.0, 40.0]),
        },
    )


def test_a_boundary_has_median_band_share_and_resolution_in_every_setting(stages):
    condensation, _, focus, *_, token, later = stage_rows(stages)
    x, y = condensation.cells
    assert condensation.name == "condensation end"
    assert (x.median, x.time, x.band, x.share, x.resolution, x.note) == (
        "12", "1.2", "10 – 14", "3 of 3", "± 4", "",
    )  # fmt: skip
    assert (y.median, y.band, y.share) == ("1", "", "1 of 1")  # there is no band of one replica
    assert (focus.cells[0].median, focus.cells[0].share) == ("250", "2 of 3")
    assert token.name == "direction of token a"
    assert token.meaning == "the embedding of token a parts from those of rarer tokens"
    assert token.cells[0].note == "out of order in 1 of 3"
    assert token.cells[1].note == later.cells[0].note == ""


def test_an_absent_boundary_has_only_its_share(stages):
    (cell, _) = stage_rows(stages)[5].cells
    assert (cell.median, cell.time, cell.band, cell.share, cell.resolution) == (
        "absent",
        "",
        "",
        "0 of 3",
        "",
    )


def test_the_summary_counts_and_says_what_is_wrong(stages):
    (order, why, depth), (sound, _) = stage_summary(stages)
    assert order.endswith("one after another: 1 of 3.")
    assert "focus onset not seen (1 of 3)" in why
    assert "direction of token b before direction of token a (1 of 3)" in why
    assert depth == "Focus depth, the rise of attention: 0.2 (0.1 to 0.3)."
    assert sound.endswith("1 of 1.")


def test_every_replica_has_its_steps_and_faults(stages):
    rows = replica_rows(stages, ["seed 0, x", "seed 1, x", "seed 2, x", "seed 0, y"])
    assert [row.name for row in rows] == ["seed 0, x", "seed 1, x", "seed 2, x", "seed 0, y"]
    assert rows[0].steps[:4] == ["10", "20", "absent", "40"]
    assert [row.faults for row in rows] == [
        "focus onset not seen",
        "none",
        "direction of token b before direction of token a",
        "none",
    ]
    many = stages.isel(replica=[0] * 100)
    assert len(replica_rows(many, ["seed 0"] * 100)) == MAX_REPLICAS


def test_boundaries_closer_than_their_resolution_are_named(stages):
    found = coarse_boundaries(stages)
    assert "condensation end and collapse end (10 apart, ± 4)" in found  # of setting x
    assert "condensation end and collapse end (1 apart, ± 4)" in found  # of setting y
    assert not any("collapse end and focus onset" in text and "1 apart" not in text for text in found)
    fine = stages.assign(boundary_resolution=stages["boundary_resolution"] / 100)
    assert coarse_boundaries(fine) == []


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
