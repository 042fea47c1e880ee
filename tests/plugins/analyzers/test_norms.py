"""Retractions of norm curves with known peaks, troughs and depths."""

from __future__ import annotations

import numpy as np
import pytest

from attndyn.analysis.retraction import retractions

STEPS = np.arange(0, 1001, 10)


def curve(steps: np.ndarray = STEPS) -> np.ndarray:
    """Grows to 1 at step 200, falls to 0.4 at 500, grows to 1.2 at 900, all in straight lines."""
    return np.interp(steps, [0, 200, 500, 900, 1000], [0.01, 1, 0.4, 1.2, 1.2])


@pytest.fixture
def analyzed(make_trajectory, run_analyzer):
    """A function from norms (replica, step, token) to the analysis of embeddings that have them."""

    def analyze(norms: np.ndarray, steps: np.ndarray = STEPS, **options: float):
        direction = np.array([0.6, 0.0, -0.8])
        W_0 = norms[..., None] * direction
        pi = np.full(norms.shape[-1], 1 / norms.shape[-1])
        trajectory = make_trajectory(pi, {"W_0": W_0, "W_1": 2 * W_0.swapaxes(-1, -2)}, steps)
        return run_analyzer("norms", trajectory, **options)

    return analyze


def test_norms(analyzed) -> None:
    norms = np.abs(np.random.default_rng(0).normal(size=(2, len(STEPS), 3)))
    found = analyzed(norms)
    np.testing.assert_allclose(found["embedding_norm"], norms, rtol=1e-14)
    np.testing.assert_allclose(found["output_norm"], 2 * norms, rtol=1e-14)
    assert found["output_norm"].dims == ("replica", "step", "next_token")


def test_a_known_retraction(analyzed) -> None:
    found = analyzed(curve()[None, :, None])
    assert found.sizes["event"] == 1
    event = found.isel(replica=0, token=0, event=0)
    assert float(event["retraction_start"]) == pytest.approx(230)  # a tenth of the way from 200 to 500
    assert float(event["trough_step"]) == 500
    assert float(event["regrowth_step"]) == pytest.approx(500 + 400 * 0.3 / 0.8)  # 0.7 again
    assert float(event["peak_norm"]) == pytest.approx(1)
    assert float(event["depth"]) == pytest.approx(0.6)


@pytest.mark.parametrize("every", [1, 10, 25, 50])
def test_cadence_moves_events_by_less_than_an_interval(analyzed, every: int) -> None:
    steps = np.arange(0, 1001, every)
    event = analyzed(curve(steps)[None, :, None], steps)
    for name, expected in (("retraction_start", 230), ("trough_step", 500), ("regrowth_step", 650)):
        assert abs(float(event[name].squeeze()) - expected) <= every


@pytest.mark.parametrize("seed", range(5))
def test_noise_makes_no_events(analyzed, seed: int) -> None:
    noise = 0.02 * np.random.default_rng(seed).normal(size=(1, len(STEPS), 2))
    norms = np.abs(np.stack([curve(), np.interp(STEPS, [0, 200], [0.01, 1])], axis=-1) + noise)
    found = analyzed(norms)
    assert np.isfinite(found["depth"]).sum(["replica", "event"]).values.tolist() == [1, 0]
    event = found.isel(token=0, event=0)
    assert abs(float(event["trough_step"].squeeze()) - 500) <= 30
    assert abs(float(event["depth"].squeeze()) - 0.6) < 0.1


def test_a_small_norm_that_passes_through_zero_counts_beside_a_large_one(analyzed) -> None:
    small = np.abs(np.interp(STEPS, [0, 100, 400, 1000], [0.001, 0.03, 0.03, -0.05]))
    large = np.interp(STEPS, [0, 100], [0.001, 2])
    found = analyzed(np.stack([large, small], axis=-1)[None])
    assert np.isfinite(found["depth"]).values.ravel().tolist() == [False, True]
    assert float(found["depth"][0, 1, 0]) > 0.9
    assert abs(float(found["trough_step"][0, 1, 0]) - 625) <= 10


def test_a_retraction_under_way_has_no_trough(analyzed) -> None:
    event = analyzed(np.interp(STEPS, [0, 200, 1000], [0.01, 1, 0.5])[None, :, None]).squeeze()
    assert np.isnan(event["trough_step"])
    assert np.isnan(event["regrowth_step"])
    assert float(event["depth"]) == pytest.approx(0.5)


@pytest.mark.parametrize(
    "norms",
    [np.ones_like(STEPS, float), np.zeros_like(STEPS, float), np.linspace(1, 0, len(STEPS))],
    ids=["constant", "zero", "falling"],
)
def test_what_never_grew_does_not_retract(analyzed, norms: np.ndarray) -> None:
    assert np.isnan(analyzed(norms[None, :, None])["depth"]).all()


def test_events_are_in_order_and_padded(analyzed) -> None:
    twice = np.interp(STEPS, [0, 100, 200, 400, 500, 700], [0.01, 1, 0.5, 2, 0.2, 1])
    found = analyzed(np.stack([curve(), twice], axis=-1)[None])
    np.testing.assert_allclose(found["trough_step"][0], [[500, np.nan], [200, 500]])
    np.testing.assert_allclose(found["depth"][0], [[0.6, np.nan], [0.5, 0.9]])


def test_divergence_ends_the_curve(analyzed) -> None:
    broken = curve()
    broken[STEPS >= 600] = np.nan
    event = analyzed(np.stack([broken, np.full_like(broken, np.nan)])[:, :, None])
    np.testing.assert_array_equal(event["trough_step"].squeeze(), [500, np.nan])
    assert np.isnan(event["regrowth_step"]).all()  # 0.7 is reached only after the divergence


def test_no_record_and_one_record() -> None:
    assert retractions(np.array([]), np.array([]), 0.1, 0.0) == []
    assert retractions(np.array([0.0]), np.array([1.0]), 0.1, 0.0) == []


def test_draw(rich_trajectory, draw_analyzer, words) -> None:
    shown = words(draw_analyzer("norms", rich_trajectory))
    assert {"$|W_0[i,:]|$", "$|W_1[:,i]|$", "step", r"\$word_0^"} <= set(shown)


def test_draw_marks_the_troughs(make_trajectory, draw_analyzer) -> None:
    W_0 = curve()[None, :, None, None] * np.ones((1, 1, 2, 1))
    arrays = {"W_0": W_0, "W_1": W_0.swapaxes(-1, -2)}
    trajectory = make_trajectory([0.6, 0.4], arrays, STEPS, times=0.1 * STEPS)
    figure = draw_analyzer("norms", trajectory)
    marks = [line for line in figure.axes[0].lines if line.get_marker() == "v"]
    np.testing.assert_allclose([line.get_xydata()[0] for line in marks], [[50, 0.4]] * 2)
