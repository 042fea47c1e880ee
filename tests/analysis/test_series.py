"""Signal tools: each on signals whose answer is known in closed form."""

import numpy as np
import pytest

from attndyn.analysis.series import (
    Turn,
    band,
    first_crossing,
    first_plateau,
    hold_crossing,
    last_crossing,
    noise_level,
    smooth,
    turning_points,
    until_divergence,
)

IRREGULAR = np.unique(np.r_[0, np.round(np.geomspace(1, 1000, 90))]).astype(float)


def test_signal_ends_at_first_non_finite_value():
    steps, values = until_divergence(np.arange(5.0), np.array([1, 2, np.inf, 4, np.nan]))
    assert steps.tolist() == [0, 1]
    assert values.tolist() == [1, 2]
    assert len(until_divergence(np.arange(2.0), np.array([np.nan, 1.0]))[0]) == 0


@pytest.mark.parametrize("steps", [np.arange(1000.0), np.cumsum(1 + np.arange(1000) % 7).astype(float)])
@pytest.mark.parametrize("scale", [1e-3, 2.0])
def test_noise_level_is_the_standard_deviation_of_noise_on_a_smooth_curve(steps, scale):
    noise = np.random.default_rng(0).normal(scale=scale, size=len(steps))
    curve = 5 * scale * np.sin(steps / 300)
    assert noise_level(steps, curve + noise) == pytest.approx(scale, rel=0.1)


def test_noise_level_ignores_lines_steps_and_outliers():
    line = 3 * IRREGULAR - 7
    assert noise_level(IRREGULAR, line) < 1e-10
    line[40] += 1e6
    line[60:] += 1e3
    assert noise_level(IRREGULAR, line) < 1e-10
    assert noise_level(np.arange(3.0), np.array([0, 5, 0.0])) == 0


def test_smooth_is_the_mean_over_the_window_whatever_the_cadence():
    # the mean of t² over a window of width w is t² + w²/12; near the ends the window narrows
    fine = np.arange(0, 100.25, 0.25)
    inside = (fine > 10) & (fine < 90)
    np.testing.assert_allclose(smooth(fine, fine**2, 12)[inside], fine[inside] ** 2 + 12, rtol=1e-4)
    kinked = np.array([0, 1, 7, 20, 21, 60, 100.0])
    at = np.searchsorted(fine, kinked)
    curve = np.abs(kinked - 20)
    np.testing.assert_allclose(
        smooth(kinked, curve, 12), smooth(fine, np.interp(fine, kinked, curve), 12)[at], atol=1e-9
    )


def test_smooth_keeps_lines_ends_and_width_zero():
    values = np.random.default_rng(1).normal(size=len(IRREGULAR))
    np.testing.assert_allclose(smooth(IRREGULAR, 2 * IRREGULAR + 1, 0.3 * IRREGULAR), 2 * IRREGULAR + 1)
    np.testing.assert_array_equal(smooth(IRREGULAR, values, 0), values)
    assert smooth(IRREGULAR, values, 50)[[0, -1]].tolist() == values[[0, -1]].tolist()


def test_turning_points_need_a_reversal():
    steps = np.arange(9.0) * 10
    values = np.array([0, 1, 0.8, 1.2, 1.1, 0.2, 0.3, 0.1, 0.9])
    assert turning_points(steps, values, 0.5) == [
        Turn(0, 0, "min"),
        Turn(30, 1.2, "max"),
        Turn(70, 0.1, "min"),
    ]
    assert [turn.step for turn in turning_points(steps, values, 0.15)] == [0, 10, 20, 30, 70]
    assert turning_points(steps, values, 2.0) == []
    assert turning_points(steps[:0], values[:0], 0.5) == []


def test_hold_crossing_interpolates_and_takes_the_first_that_holds():
    steps = np.array([0, 10, 20, 40, 50, 60, 100, 200.0])
    values = np.array([0, 1, 0, 0, 1, 0.6, 1, 1.0])
    assert hold_crossing(steps, values, 0.5) == 5
    assert hold_crossing(steps, values, 0.5, hold=15) == 45
    assert hold_crossing(steps, values, 0.8, low=0.5, hold=15) == 48
    # without hysteresis the dip to 0.6 undoes it, and the next rise, from 0.6 at 60 to 1 at 100, counts
    assert hold_crossing(steps, values, 0.8, hold=15) == 80
    assert np.isnan(hold_crossing(steps, -values, -0.5, hold=1e4))


def test_hold_crossing_must_be_on_record():
    steps, values = np.arange(0, 101, 10.0), np.r_[np.zeros(8), np.ones(3)]
    assert hold_crossing(steps, values, 0.5, hold=25) == 75
    assert np.isnan(hold_crossing(steps, values, 0.5, hold=26))
    assert hold_crossing(steps, values, 0.5, hold=100, seen=0.25) == 75
    assert hold_crossing(steps, values, 0.5, hold_share=1 / 3) == 75
    assert np.isnan(hold_crossing(steps, values, 0.5, hold_share=0.34))
    values[-1] = 0
    # lost again within what is seen and within the hold
    assert np.isnan(hold_crossing(steps, values, 0.5, hold=100, seen=0.25))


def test_a_signal_that_begins_above_the_level_crosses_nothing():
    steps = np.arange(5.0)
    for crossing in (hold_crossing, first_crossing, last_crossing):
        assert np.isnan(crossing(steps, np.ones(5), 0.5))
        assert np.isnan(crossing(steps[:1], np.ones(1), 0.5))
        assert np.isnan(crossing(steps, np.linspace(1, 0, 5), 0.5))


def test_first_and_last_crossing():
    steps, values = np.arange(0, 50, 10.0), np.array([0, 1, 0, 1, 1.0])
    assert first_crossing(steps, values, 0.25) == 2.5
    assert last_crossing(steps, values, 0.25) == 22.5


@pytest.mark.parametrize("every", [2, 3, 7])
def test_crossings_do_not_depend_on_the_cadence_beyond_one_interval(every):
    steps = np.arange(0, 400.0)
    values = 1 / (1 + np.exp(-(steps - 150) / 10))
    full = hold_crossing(steps, values, 0.9, hold=50)
    assert full == pytest.approx(150 + 10 * np.log(9), abs=0.1)
    assert abs(hold_crossing(steps[::every], values[::every], 0.9, hold=50) - full) < every / 4


def test_band_is_over_the_replicas_that_are_present():
    values = np.array([[1.0, np.nan, 5], [2, np.nan, np.nan], [3, np.nan, np.nan], [4, np.nan, np.nan]])
    found = band(values)
    np.testing.assert_allclose(found.median, [2.5, np.nan, 5])
    np.testing.assert_allclose(found.p10, [1.3, np.nan, 5])
    np.testing.assert_allclose(found.p90, [3.7, np.nan, 5])
    np.testing.assert_allclose(found.share, [1, 0, 0.25])
    assert band(np.array([2.0, np.nan])).median == 2


def test_first_plateau():
    steps = np.arange(0.0, 301)
    values = np.interp(steps, [0, 20, 60, 70, 300], [1, 2, 2, 6, 6])
    assert first_plateau(steps, values, 0.9, 0.5, 5) == pytest.approx(2, abs=0.02)
    assert first_plateau(steps, values, 0.9, 0.5, 45) == 6  # what is left of the first is too short
    assert np.isnan(first_plateau(steps[:61], values[:61], 0.9, 0.5, 50))  # nothing can be judged
    assert np.isnan(first_plateau(steps, values, 0.9, 0.5, np.nan))
    assert np.isnan(first_plateau(steps[:0], values[:0], 0.9, 0.5, 5))


@pytest.mark.parametrize(("power", "flat"), [(0.2, True), (0.3, False), (1, False)])
def test_a_plateau_may_grow_slowly(power, flat):
    """By a ninth at most while the steps grow by half: a power of log(1/0.9) / log(1.5) = 0.26."""
    steps = np.arange(0.0, 1001, 5)
    assert np.isfinite(first_plateau(steps, steps**power, 0.9, 0.5, 10)) == flat
