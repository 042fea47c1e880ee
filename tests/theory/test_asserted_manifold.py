"""Asserted steps on the rank-one manifold: what only grows, and what is conserved."""

import numpy as np
import pytest

from attndyn.theory.asserted.conservation import law_errors
from attndyn.theory.asserted.exact import Exact
from attndyn.theory.asserted.monotone import falls, growth, onset_slope, starts
from attndyn.theory.asserted.symmetric import Flow, Symmetric, flow

WIDTH = 32


def follow(p, d, lam, z=1e-3, horizon=20_000.0):
    setting = Symmetric(p, d, lam, WIDTH**-0.5)
    start = setting.plateau()
    start[3] = z
    return setting, flow(setting, start, horizon, ends=1e-6)


def test_growth_is_the_derivative():
    setting = Symmetric(0.6, 4, 0.5, 0.25)
    state = np.array([1.1, 0.3, 2.0, 0.4])
    step = 1e-6 * setting.velocity(state)
    log_z, size = growth(setting, state)
    assert log_z == pytest.approx((np.log(state[3] + step[3]) - np.log(state[3] - step[3])) / 2e-6, rel=1e-8)
    difference = (setting.size(state + step) - setting.size(state - step)) / 2e-6
    assert size == pytest.approx(difference, rel=1e-7)


@pytest.mark.parametrize(("p", "d", "lam"), [(0.5, 3, 0.5), (0.6, 4, 0.3), (0.7, 4, 0.9)])
def test_amplitude_grows_all_through_dilution(p, d, lam):
    """Other tokens' attention to token 0 falls because a_1 turns negative, not because z falls."""
    setting, solution = follow(p, d, lam)
    states = solution.states
    attention = setting.parts(states).attention
    assert falls(setting, solution).amplitude < 1e-9
    assert attention[1, -1] < p - 0.05
    assert attention[0, -1] > p + 0.05
    assert states[1, 0] > 0 > states[1, -1]
    diluted = attention[1] < p
    np.testing.assert_array_equal(diluted[1:], states[1, 1:] < 0)


def test_amplitude_falls_a_little_at_the_end_where_both_probabilities_overshoot():
    setting, solution = follow(0.9, 3, 0.9)
    fall = falls(setting, solution).amplitude
    assert 1e-3 < fall < 1e-2
    log_z, _ = growth(setting, solution.states)
    excess = setting.parts(solution.states).excess
    assert np.all(excess[1][log_z < -1e-7] < 0)


@pytest.mark.parametrize(("p", "d", "lam", "grows"), [(0.5, 3, 0.3, False), (0.5, 3, 0.9, True)])
def test_size_first_falls_where_the_onset_slope_is_negative(p, d, lam, grows):
    setting, solution = follow(p, d, lam, z=1e-4)
    assert (onset_slope(setting) > 0) == grows
    fall = falls(setting, solution)
    assert (fall.size < 1e-9) == grows
    assert fall.deviation < 1e-9, "(a, b) moves away from the plateau all the time either way"


def test_onset_slope_is_that_of_the_flow():
    setting = Symmetric(0.7, 4, 0.3, WIDTH**-0.5)
    start = setting.plateau()
    start[3] = 1e-8
    states = flow(setting, start, 400.0, rtol=1e-13).states
    late = (states[3] > 1e-6) & (states[3] < 1e-5)
    slope = np.polyfit(states[3][late], setting.size(states[:, late]), 1)[0]
    assert slope == pytest.approx(onset_slope(setting), rel=1e-3)


def test_falls_are_noticed():
    setting = Symmetric(0.6, 4, 0.5, 0.25)
    states = np.array([[1, 1, 1], [0.5, 0.4, 0.5], [1, 1, 1], [1, np.exp(0.5), 1]], dtype=float)
    fall = falls(setting, Flow(np.arange(3.0), states))
    assert fall.amplitude == pytest.approx(0.5)
    assert fall.size == pytest.approx(3 * 0.09)
    assert fall.deviation == pytest.approx(3 * 0.01)


def test_starts_keep_the_amplitude_they_are_given():
    setting = Symmetric(0.6, 4, 0.5, 0.25)
    plateau = np.repeat(setting.plateau()[:, None], 5, axis=1)
    state = starts(setting, plateau, 0.1, 1e-3, np.random.default_rng(0))
    assert np.all(state[3] == 1e-3)
    assert 0.01 < np.abs(state[:3] / plateau[:3] - 1).max() < 0.5


def test_dropping_the_constant_costs_order_epsilon_squared_and_dropping_attention_order_one():
    network = Exact.sticky(np.array([0.6, 0.2, 0.2]), 0.9, 2)
    seen = {std: law_errors(network, network.initial(std, 0), 600.0) for std in (1e-2, 1e-3)}
    for errors in seen.values():
        assert errors.moved[-1] > 0.3, "attention has gone through its first cycle"
        assert errors.exact.max() < 1e-9
        assert errors.at()["without_attention"] > 0.3
    dropped = [errors.at(0.003)["without_constant"] for errors in seen.values()]
    assert dropped[0] / dropped[1] == pytest.approx(100, rel=0.02)
    assert dropped[1] < 1e-4
