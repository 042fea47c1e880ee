"""Snapshots and attention to the most frequent token on maps set by hand."""

from __future__ import annotations

import numpy as np
import pytest

PI = np.array([[0.2, 0.5, 0.3], [0.6, 0.3, 0.1]])


@pytest.fixture
def attention() -> np.ndarray:
    """(replica, step, layer, head, query, key): five maps, each replica's rows different."""
    rng = np.random.default_rng(1)
    maps = rng.dirichlet(np.ones(3), size=(2, 5, 1, 2, 3))
    return maps


@pytest.fixture
def trajectory(make_trajectory, attention):
    return make_trajectory(PI, {"attention": attention}, [0, 10, 20, 50, 90], ["x", "y", "z"])


def test_focus_is_on_each_replicas_most_frequent_token(trajectory, attention, run_analyzer) -> None:
    found = run_analyzer("attention_maps", trajectory)
    assert found["top_token"].values.tolist() == ["y", "x"]
    np.testing.assert_array_equal(found["focus"][0], attention[0, ..., 1])
    np.testing.assert_array_equal(found["focus"][1], attention[1, ..., 0])
    np.testing.assert_allclose(found["focus_ratio"][1], attention[1, ..., 0] / 0.6, rtol=1e-14)
    assert found["focus"].dims == ("replica", "step", "layer", "head", "query")


def test_snapshots_at_listed_steps(trajectory, attention, run_analyzer) -> None:
    found = run_analyzer("attention_maps", trajectory, steps=[19, 88])
    assert found["snapshot"].values.tolist() == [20, 90]
    np.testing.assert_array_equal(found["attention"], attention[:, [2, 4]])


def test_default_snapshots_include_the_peak_of_focus(make_trajectory, run_analyzer) -> None:
    """A small rise of attention to the frequent token, then a large change: both are among the snapshots."""
    records = np.arange(41)
    rise = 0.5 + 0.05 * np.exp(-(((records - 10) / 3) ** 2)) - 0.45 / (1 + np.exp(-(records - 30)))
    maps = np.stack([1 - rise, rise], axis=-1)[None, :, None, None, None, :].repeat(2, axis=4)
    trajectory = make_trajectory([0.5, 0.5 + 1e-9], {"attention": maps}, records)
    chosen = run_analyzer("attention_maps", trajectory, count=4)["snapshot"].values
    assert {0, 10, 40} <= set(chosen.tolist())
    assert ((chosen > 26) & (chosen < 34)).any()
    assert len(chosen) <= 4


def test_the_rest_is_never_the_most_frequent_token(make_trajectory, run_analyzer) -> None:
    maps = np.full((1, 2, 1, 1, 2, 2), 0.5)
    trajectory = make_trajectory(
        [0.3, 0.25, 0.25, 0.2], {"attention": maps}, [0, 1], list("wxyz"), keys=["w", "<rest>"]
    )
    found = run_analyzer("attention_maps", trajectory)
    assert found["top_token"].values.tolist() == ["w"]
    np.testing.assert_allclose(found["focus_ratio"], np.full((1, 2, 1, 1, 2), 0.5 / 0.3), rtol=1e-14)


def test_diverged_replicas_are_absent(make_trajectory, attention, run_analyzer, draw_analyzer) -> None:
    attention[0] = np.nan
    attention[1, 3:] = np.nan
    trajectory = make_trajectory(PI, {"attention": attention}, [0, 10, 20, 50, 90])
    found = run_analyzer("attention_maps", trajectory)
    assert np.isnan(found["focus"][0]).all()
    assert np.isfinite(found["focus"][1, :3]).all()
    draw_analyzer("attention_maps", trajectory)


def test_draw(rich_trajectory, draw_analyzer, words) -> None:
    shown = words(draw_analyzer("attention_maps", rich_trajectory))
    assert {"layer 0, head 0\nquery", "key", "attention", "layer 1, head 2", "query:"} <= set(shown)
    assert r"\$word_0^" in shown


def test_draw_one_head(trajectory, draw_analyzer, words) -> None:
    one = trajectory.isel(head=[0], replica=[0])
    shown = words(draw_analyzer("attention_maps", one))
    assert {"attention to y over its frequency", "query", "x", "y", "z", "step 0", "90"} <= set(shown)


def test_a_replica_that_survived_is_drawn(make_trajectory, attention, draw_analyzer) -> None:
    attention[0, 2:] = np.nan
    figure = draw_analyzer("attention_maps", make_trajectory(PI, {"attention": attention}, range(5)))
    assert figure.subfigs[0].get_suptitle() == "replica 1, pi 2"
    assert np.isfinite(figure.subfigs[0].axes[3].images[0].get_array()).all()


def test_snapshots_follow_all_replicas(make_trajectory, run_analyzer) -> None:
    """The first replica changes early, the second late: there are snapshots of both changes."""
    records = np.arange(41)
    given = np.stack([1 / (1 + np.exp(-2.0 * (records - middle))) for middle in (8, 32)])
    maps = np.stack([1 - given, given], axis=-1)[:, :, None, None, None, :].repeat(2, axis=4)
    trajectory = make_trajectory([0.4, 0.6], {"attention": maps}, records)
    chosen = run_analyzer("attention_maps", trajectory, count=6)["snapshot"].values
    assert ((chosen > 5) & (chosen < 12)).any()
    assert ((chosen > 28) & (chosen < 36)).any()
