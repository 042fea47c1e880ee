"""Phases, n-grams and Markov order of curves whose answer is known."""

import numpy as np
import pytest

from attndyn.analysis.ngrams import approach, captured, first_span, markov_order, nearest
from attndyn.analysis.phases import PhaseOptions, count_phases, find_cycles

OPTIONS = PhaseOptions(kind="phases")
STEPS = np.arange(0.0, 2001.0, 5.0)


def through(*points):
    return np.interp(STEPS, *np.array(points, float).T)


@pytest.mark.parametrize(
    ("points", "phases", "peaks"),
    [
        ([(0, 1), (2000, 1)], 0, []),
        ([(0, 1), (2000, 0.3)], 0, []),
        ([(0, 1), (200, 1), (1500, 6), (2000, 7)], 1, []),
        ([(0, 1), (100, 1), (300, 8), (700, 0.5), (2000, 0.5)], 2, [300]),
        ([(0, 1), (100, 1), (300, 8), (700, 0.5), (1300, 4), (2000, 5)], 3, [300]),
        ([(0, 1), (100, 1), (300, 8), (600, 0.5), (900, 4), (1500, 1), (2000, 1)], 4, [300, 900]),
        # as <unk> in a text: first passed over, then focused on
        ([(0, 1), (200, 0.2), (600, 3.8), (1400, 1.2), (2000, 1.2)], 2, [600]),
        # a second rise of less than a tenth of the first is none
        ([(0, 1), (100, 1), (300, 8), (700, 0.5), (1300, 0.9), (2000, 0.5)], 2, [300]),
    ],
)
def test_phases_of_straight_lines(points, phases, peaks):
    for noise in (0.0, 0.01):
        rng = np.random.default_rng(3)
        cycles = find_cycles(STEPS, through(*points) + noise * rng.normal(size=len(STEPS)), OPTIONS)
        assert count_phases(cycles) == phases
        found = [cycle.peak for cycle in cycles if np.isfinite(cycle.peak)]
        np.testing.assert_allclose(found, peaks, rtol=0.1)


def test_noise_alone_has_no_phases():
    rng = np.random.default_rng(0)
    assert count_phases(find_cycles(STEPS, 1 + 0.1 * rng.normal(size=len(STEPS)), OPTIONS)) == 0


def test_divergence_ends_a_curve():
    curve = through((0, 1), (100, 1), (300, 8), (700, 0.5), (1300, 4), (2000, 4))
    curve[STEPS >= 600] = np.nan
    assert count_phases(find_cycles(STEPS, curve, OPTIONS)) == 2
    assert count_phases(find_cycles(STEPS, curve * np.nan, OPTIONS)) == 0


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
