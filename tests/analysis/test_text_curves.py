"""Phases, n-grams and Markov order of curves whose answer is known."""

import numpy as np
import pytest

from attndyn.analysis.cycle import NOISE_RECORDS
from attndyn.analysis.ngrams import approach, captured, first_span, markov_order, nearest
from attndyn.analysis.phases import MOST, PhaseOptions, find_phases, phase_turns

OPTIONS = PhaseOptions(kind="phases")
STEPS = np.arange(0.0, 2001.0, 5.0)


def through(*points):
    return np.interp(STEPS, *np.array(points, float).T)


CURVES = [
    ([(0, 1), (2000, 1)], 0, 0, []),
    ([(0, 1), (200, 1), (1500, 6), (2000, 7)], 1, 0, []),
    ([(0, 1), (100, 1), (300, 8), (700, 0.5), (2000, 0.5)], 2, 0, [300]),
    ([(0, 1), (100, 1), (300, 8), (700, 0.5), (1300, 4), (2000, 5)], 3, 0, [300]),
    ([(0, 1), (100, 1), (300, 8), (600, 0.5), (900, 4), (1500, 1), (2000, 1)], 4, 0, [300, 900]),
    # a rise is judged by what it starts from, not by the largest, and not by whether a larger one follows
    ([(0, 1), (100, 1), (300, 8), (700, 0.5), (1300, 0.9), (2000, 0.5)], 4, 0, [300, 1300]),
    ([(0, 1), (100, 1), (300, 1.9), (500, 1), (2000, 1)], 2, 0, [300]),
    ([(0, 1), (100, 1), (300, 1.9), (500, 1), (700, 12), (2000, 12)], 3, 0, [300]),
    ([(0, 1), (100, 1), (300, 8), (700, 1), (1300, 1.3), (2000, 1)], 2, 0, [300]),
    # first passed over, then focused on: the fall from the start is none of the phases
    ([(0, 1), (2000, 0.3)], 0, 1, []),
    ([(0, 1), (200, 0.2), (600, 3.8), (1400, 1.2), (2000, 1.2)], 2, 1, [600]),
    ([(0, 1), (200, 0.2), (600, 2.5), (1400, 0.5), (2000, 0.5)], 2, 1, [600]),
    # what is below a tenth of the frequency is as good as nothing
    ([(0, 1), (300, 8), (700, 0.03), (1300, 0.09), (2000, 0.02)], 2, 0, [300]),
    ([(0, 1), (300, 8), (700, 0.0), (2000, 0.0)], 2, 0, [300]),
]


def teeth(number):
    """So many rises from 1 to 3 and falls back to 1, of a hundred steps each."""
    made = np.interp(STEPS % 200, [0, 100, 200], [1, 3, 1])
    made[int(np.searchsorted(STEPS, 200 * number)) :] = 1
    return made


@pytest.mark.parametrize(("points", "phases", "falls_first", "peaks"), CURVES)
def test_phases_of_straight_lines(points, phases, falls_first, peaks):
    for noise in (0.0, 0.01):
        rng = np.random.default_rng(3)
        curve = np.abs(through(*points) * (1 + noise * rng.normal(size=len(STEPS))))
        found = find_phases(STEPS, curve, OPTIONS)
        assert (found.number, found.falls_first) == (phases, falls_first)
        tops = [cycle.peak for cycle in found.cycles if np.isfinite(cycle.peak)]
        np.testing.assert_allclose(tops, peaks, rtol=0.1)


@pytest.mark.parametrize("number", [2, 3, 4, 7])
def test_all_phases_are_counted_whatever_the_table_holds(number):
    options = OPTIONS.model_copy(update={"smoothing": 0.02, "cycles": 1})
    found = find_phases(STEPS, teeth(number), options)
    assert found.number == 2 * number
    np.testing.assert_allclose(
        [each.peak for each in found.cycles], 100 + 200.0 * np.arange(number), rtol=0.1
    )


def test_more_phases_than_can_be_are_not_counted():
    steps = np.arange(0.0, 2001.0)
    found = find_phases(steps, np.exp(np.sin(steps / 4)), OPTIONS.model_copy(update={"smoothing": 0.0}))
    assert len(found.cycles) > MOST / 2
    assert np.isnan(found.number)


def test_steps_of_a_cycle():
    curve = through((0, 1), (100, 1), (300, 9), (700, 0.5), (1500, 0.5), (1700, 2.5), (2000, 2.5))
    first, second = find_phases(STEPS, curve, OPTIONS.model_copy(update={"smoothing": 0.0})).cycles
    np.testing.assert_allclose(first, [120, (280 + 337.6) / 2, 8, 337.6, 660, 8.5], atol=0.5)
    np.testing.assert_allclose(second, [1520, np.nan, 2, np.nan, np.nan, np.nan])


@pytest.mark.parametrize(("sigma", "noise_factor"), [(0.0, 5.0), (0.15, 5.0), (0.3, 0.0), (0.3, 1.5)])
def test_what_was_found_stays_however_a_run_goes_on(sigma, noise_factor):
    rng = np.random.default_rng(5)
    options = OPTIONS.model_copy(update={"noise_factor": noise_factor})
    steps = np.concatenate([[0.0], np.cumsum(rng.integers(1, 12, 400))])
    noise = sigma * rng.normal(size=len(steps)) * np.linspace(0, 1, len(steps))
    curve = np.exp(1.5 * np.sin(6 * np.log1p(steps)) + noise)
    whole = phase_turns(steps, curve, options)
    assert len(whole) > 3
    for end in range(NOISE_RECORDS, len(steps) + 1, 3):
        part = phase_turns(steps[:end], curve[:end], options)
        assert part == whole[: len(part)]


def test_noise_alone_has_no_phases():
    rng = np.random.default_rng(0)
    for noise in (0.1, 0.3):
        curve = np.exp(noise * rng.normal(size=len(STEPS)))
        assert find_phases(STEPS, curve, OPTIONS).number == 0


def test_phases_of_what_diverged_are_not_known():
    curve = through((0, 1), (100, 1), (300, 8), (700, 0.5), (1300, 4), (2000, 4))
    curve[STEPS >= 600] = np.nan
    found = find_phases(STEPS, curve, OPTIONS)
    assert np.isnan(found.number)
    assert [cycle.peak for cycle in found.cycles] == pytest.approx([300], rel=0.1)
    nothing = find_phases(STEPS, curve * np.nan, OPTIONS)
    assert np.isnan(nothing[:2]).all()
    assert not nothing.cycles
    assert find_phases(STEPS[:1], curve[:1], OPTIONS).number == 0


def test_captured_is_one_for_the_reference_and_zero_for_the_simpler_one():
    kl, information = np.array([0.0, 0.4, 0.8]), np.array([0.4, 0.4, 0.4])
    np.testing.assert_allclose(captured(kl, information, 0.01), [1, 0, -1])
    assert np.isnan(captured(kl, np.full(3, 0.005), 0.01)).all()


def test_approach():
    steps = np.array([0.0, 10.0, 20.0, 30.0])
    kl = np.array([1.0, 0.6, 0.2, 0.4])
    found = approach(steps, kl, 1 - kl, 0.6)
    assert found == (20.0, 0.2, 0.8, pytest.approx(15.0))
    assert np.isnan(approach(steps, kl, 1 - kl, 0.9).reached_step)
    late = np.array([np.nan, np.nan, 0.8, 0.6])  # told nothing before
    assert approach(steps, kl, late, 0.6).reached_step == 20.0
    assert np.isnan(approach(steps, kl * np.nan, kl, 0.6)).all()
    assert np.isnan(approach(steps, kl, kl * np.nan, 0.6).most_captured)


def test_nearest():
    kl = np.array([[0.3, 0.1, 0.2], [0.1, 0.3, 0.2], [np.nan, 0.1, 0.2]])
    assert nearest(kl).tolist() == [1, 0, -1]


def test_order_with_hysteresis():
    share = np.array([np.nan, 0.5, 0.95, 0.85, 0.7, 0.85, np.nan])
    spread = np.array([0.001, 0.1, 0.1, 0.1, 0.1, 0.1, np.nan])
    order = markov_order(share, spread, 0.9, 0.8, 0.01)
    assert order.tolist() == [0, 2, 1, 1, 2, 2, -1]
    steps = np.arange(7.0) * 10
    assert first_span(steps, order == 1) == (20.0, 40.0, 20.0)
    assert first_span(steps[:4], order[:4] == 1)[::2] == (20.0, 10.0)
    assert first_span(steps, np.zeros(7, bool)).steps == 0
