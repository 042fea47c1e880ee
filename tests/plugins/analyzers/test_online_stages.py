"""Both signals scored by one rule, and where training would be stopped, on short real runs."""

from __future__ import annotations

import numpy as np
import pytest

from attndyn.conformance.example_runs import trajectories


@pytest.fixture(scope="module")
def runs():
    return trajectories(("loss", "attention", "parameters"))


@pytest.mark.parametrize("name", ["several replicas, layers and heads", "one record"])
def test_every_head_has_a_score_and_the_loss_is_one_for_all(runs, run_analyzer, draw_analyzer, name) -> None:
    found = run_analyzer("online_stages", runs[name])
    assert found["precision"].dims == ("signal", "replica", "layer", "head")
    loss = found["event_step"].sel(signal="loss").transpose("layer", "head", ...)
    assert loss.broadcast_equals(loss.isel(layer=[0] * 2, head=[0] * 3).assign_coords(loss.coords))
    assert found["found_share"].sizes["setting"] == 5
    draw_analyzer("online_stages", runs[name], found)


def test_a_lost_replica_announces_only_what_came_before(runs, run_analyzer) -> None:
    whole = run_analyzer("online_stages", runs["several replicas, layers and heads"])
    lost = run_analyzer("online_stages", runs["a replica that is NaN from some step on"])
    steps = lost["event_step"].isel(replica=1).values
    assert not (steps[np.isfinite(steps)] > 30).any()
    others = [0, 2, 3, 4]
    expected = whole["event_step"].isel(replica=others).max("event")
    np.testing.assert_array_equal(lost["event_step"].isel(replica=others).max("event"), expected)


def test_stops_come_later_with_more_patience(runs, run_analyzer) -> None:
    tree = runs["several replicas, layers and heads"]
    found = run_analyzer("early_stopping", tree, patience=(4, 8), min_delta=10.0, memory=0.0)
    np.testing.assert_array_equal(found["stop_step"], [[4] * 5, [8] * 5])
    assert (found["stopped_share"] == 1).all()
    never = run_analyzer("early_stopping", tree, patience=(1000,))
    assert never["stop_step"].isnull().all()
    lost = tree["loss"]["loss"].isnull().any("step")
    assert 0 < lost.sum() < 5
    assert (never["stop_stage"].where(~lost, "goes on") == "goes on").all()
    assert (never["stop_stage"].where(lost, "diverged") == "diverged").all()


def test_a_diverged_replica_neither_stops_nor_goes_on(runs, run_analyzer) -> None:
    tree = runs["a replica that is NaN from some step on"]
    found = run_analyzer("early_stopping", tree, patience=(4, 1000), min_delta=10.0, memory=0.0)
    assert (found["stop_step"].sel(patience=4) == 4).all()  # all stop before any diverges
    assert (found["stopped_share"].sel(patience=4) == 1).all()
    lost = tree["loss"]["loss"].isnull().any("step").values
    stage, share = (found[name].sel(patience=1000) for name in ("stop_stage", "stopped_share"))
    np.testing.assert_array_equal((stage == "diverged").all(("layer", "head")), lost)
    np.testing.assert_array_equal(share, np.where(lost, np.nan, 0))  # five settings of a replica each


@pytest.mark.parametrize("name", ["online_stages", "early_stopping"])
def test_boundaries_are_read_as_told(runs, run_analyzer, name) -> None:
    tree = runs["several replicas, layers and heads"]
    options = {"rank_one_level": 0.6, "hold": 0.1, "direction_level": 0.46}
    stages = run_analyzer("stages", tree, **options)["boundary_step"]
    assert not stages.equals(run_analyzer("stages", tree)["boundary_step"])
    found = run_analyzer(name, tree, stages={"kind": "stages", **options})
    if name == "online_stages":
        expected = stages.sel(boundary=found["boundary"]).transpose(*found["true_step"].dims)
        np.testing.assert_array_equal(found["true_step"], expected)
    else:
        present = found["missed"].isel(patience=0).notnull()
        np.testing.assert_array_equal(present, stages.transpose(*present.dims).notnull())


def test_the_strict_score_is_no_better(runs, run_analyzer) -> None:
    found = run_analyzer("online_stages", runs["several replicas, layers and heads"])
    for name in ("precision", "recall"):
        assert not (found[f"strict_{name}"] > found[name]).any()
    assert not (found["strict_delay"] < 0).any()
