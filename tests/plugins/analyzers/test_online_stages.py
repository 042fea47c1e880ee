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
    assert (never["stop_stage"] == "goes on").all()
