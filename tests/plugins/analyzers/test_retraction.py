"""Depth and timing of retractions that were put there."""

from __future__ import annotations

import numpy as np
import pytest

STEPS = np.arange(0, 1001, 10)
PI = np.array([0.1, 0.6, 0.05, 0.25])  # most frequent: token 1, rarest: token 2


def falls_to(trough: float, at: float = 500) -> np.ndarray:
    """Grows to 1 at step 200, falls to `trough`, comes back to 1 a hundred steps later: straight lines."""
    return np.interp(STEPS, [0, 200, at, at + 100, 1000], [0, 1, trough, 1, 1])


RISES = np.interp(STEPS, [0, 200, 1000], [0, 1, 1.2])


@pytest.fixture
def analyzed(make_trajectory, run_analyzer):
    """A function from norms (replica, step, token) to the analysis of embeddings that have them."""

    def analyze(norms: np.ndarray, pi: np.ndarray = PI, **options: float):
        W_0 = norms[..., None] * np.array([0.6, 0.0, -0.8])
        return run_analyzer("retraction", make_trajectory(pi, {"W_0": W_0}, STEPS), **options)

    return analyze


def tokens(*curves: np.ndarray) -> np.ndarray:
    return np.stack(curves, axis=-1)


@pytest.fixture
def three(analyzed):
    """Three replicas: in the last, token 0 does not retract."""
    first = tokens(falls_to(0.2), RISES, falls_to(0.05), falls_to(0.6))
    second = tokens(falls_to(0.4), RISES, falls_to(0.05), falls_to(0.6, at=600))
    third = tokens(RISES, RISES, falls_to(0.05), falls_to(0.6, at=700))
    return analyzed(np.stack([first, second, third]))


def test_depth_and_timing(three) -> None:
    one = three.isel(replica=0, token=0)
    assert float(one["depth"]) == pytest.approx(0.8)
    assert float(one["growth"]) == pytest.approx(100)
    assert float(one["start"]) == pytest.approx(230)
    assert float(one["trough"]) == 500
    assert float(one["recovery"]) == pytest.approx(550)
    assert float(one["relative_start"]) == pytest.approx(2.3)


def test_no_retraction_has_depth_zero_and_no_step(three) -> None:
    one = three.isel(replica=2, token=0)
    assert float(one["depth"]) == 0
    for name in ("growth", "start", "trough", "recovery", "relative_start"):
        assert np.isnan(one[name])


def test_bands_over_replicas(three) -> None:
    band = three["depth_band"].isel(token=0)
    np.testing.assert_allclose(band, np.quantile([0.8, 0.6, 0], [0.5, 0.1, 0.9]))
    assert band["quantile"].values.tolist() == [0.5, 0.1, 0.9]
    np.testing.assert_allclose(
        three["trough_band"].isel(token=3), np.quantile([500, 600, 700], [0.5, 0.1, 0.9])
    )
    np.testing.assert_allclose(three["share"], [2 / 3, 0, 1, 1])


def test_medium_tokens_are_neither_the_most_frequent_nor_the_rarest(three) -> None:
    assert three["medium"].values[0].tolist() == [True, False, False, True]
    np.testing.assert_allclose(three["medium_depth"], [(0.8 + 0.4) / 2, (0.6 + 0.4) / 2, (0 + 0.4) / 2])
    np.testing.assert_allclose(three["medium_trough"], [500, 550, 700])
    np.testing.assert_allclose(three["medium_depth_band"], np.quantile([0.6, 0.5, 0.2], [0.5, 0.1, 0.9]))


def test_the_medium_tokens_of_a_replica_follow_its_own_frequencies(analyzed) -> None:
    norms = np.broadcast_to(tokens(falls_to(0.2), RISES, falls_to(0.5)), (2, len(STEPS), 3))
    found = analyzed(norms, np.array([[0.6, 0.3, 0.1], [0.3, 0.6, 0.1]]))
    np.testing.assert_allclose(found["medium_depth"], [0, 0.8])


def test_two_tokens_have_no_medium_one(analyzed) -> None:
    found = analyzed(tokens(falls_to(0.2), RISES)[None], np.array([0.6, 0.4]))
    assert np.isnan(found["medium_depth"]).all()
    assert np.isnan(found["medium_depth_band"]).all()


def test_of_two_retractions_the_deeper_one_counts(analyzed) -> None:
    twice = np.interp(STEPS, [0, 100, 200, 400, 500, 700], [0, 1, 0.5, 2, 0.2, 2])
    found = analyzed(twice[None, :, None], np.array([1.0]))
    assert float(found["depth"][0, 0]) == pytest.approx(0.9)
    assert float(found["trough"][0, 0]) == 500


def test_the_same_course_at_another_pace_and_size_has_the_same_depth_and_relative_start(analyzed) -> None:
    slow = np.interp(STEPS, [0, 300, 600, 900], [0, 3, 0.6, 3])
    fast = np.interp(STEPS, [0, 100, 200, 300], [0, 1, 0.2, 1])
    found = analyzed(tokens(slow, fast)[None], np.array([0.6, 0.4]))
    for name in ("depth", "relative_start"):
        assert float(found[name][0, 0]) == pytest.approx(float(found[name][0, 1]))


def test_divergence_at_once_is_not_no_retraction(analyzed) -> None:
    norms = tokens(*[falls_to(0.2)] * 4)[None].copy()
    norms[:, :, 0] = np.nan
    found = analyzed(norms)
    assert np.isnan(found["depth"][0, 0])
    assert float(found["depth"][0, 1]) == pytest.approx(0.8)


def test_draw(rich_trajectory, draw_analyzer, words) -> None:
    shown = words(draw_analyzer("retraction", rich_trajectory))
    assert {"depth, 1 - trough / peak", "step", r"\$word_0^", "start", "trough", "recovery"} <= set(shown)


def test_draw_puts_the_median_where_it_is(make_trajectory, draw_analyzer) -> None:
    W_0 = falls_to(0.3)[None, :, None, None] * np.ones((1, 1, 2, 1))
    figure = draw_analyzer("retraction", make_trajectory([0.6, 0.4], {"W_0": W_0}, STEPS))
    marks = [line.get_xdata()[0] for line in figure.axes[0].lines if line.get_marker() == "|"]
    np.testing.assert_allclose(marks, [0.7, 0.7])
