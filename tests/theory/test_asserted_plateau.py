"""Asserted steps at the first plateau: order of times, scales in ε, attention block, softmax identities."""

import numpy as np
import pytest

from attndyn.theory.analytic import jacobian
from attndyn.theory.asserted.attention_block import (
    coupling_rate,
    critical_point,
    linearisation,
    predicted_block,
)
from attndyn.theory.asserted.exact import Exact
from attndyn.theory.asserted.passage import closest_exponent, contraction_rate, passage
from attndyn.theory.asserted.simplex import identity_errors, symmetric_probabilities, variance
from attndyn.theory.closed_forms import condensation_rate, focus_rate
from attndyn.theory.exponents import fit_exponent


def geometric(d):
    weights = 0.25 ** np.arange(d)
    return weights / weights.sum()


SYMMETRIC = np.array([0.6, 0.2, 0.2])

# -- the order of arrival and escape ----------------------------------------------------------------------


def test_arrival_comes_before_escape_for_small_initial_weights_and_not_for_large_ones():
    seen = {std: passage(SYMMETRIC, 0.5, 8, std, 0) for std in (1e-5, 1e-3, 1e-1)}
    assert [p.in_order for p in seen.values()] == [True, True, False]
    assert seen[1e-1].arrival == np.inf, "the plateau is never reached"


def test_both_times_grow_with_the_logarithm_of_the_initial_scale():
    """T_p by 1/σ and T_1 by 1/σ + 1/κ for each factor e in ε, so the order holds from some ε on."""
    small, smaller = (passage(SYMMETRIC, 0.5, 8, std, 1) for std in (1e-5, 1e-6))
    sigma, kappa = condensation_rate(SYMMETRIC), focus_rate(SYMMETRIC, 0.5, 8)
    assert (smaller.arrival - small.arrival) / np.log(10) == pytest.approx(1 / sigma, rel=1e-3)
    assert (smaller.escape - small.escape) / np.log(10) == pytest.approx(1 / kappa + 1 / sigma, rel=0.02)


# -- scales in ε ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("pi", "expected"), [(SYMMETRIC, 1.0), (geometric(5), 0.4153)])
def test_power_of_the_closest_approach(pi, expected):
    """1 where predictions settle fast; 2μ/(μ + 2κ) where attention grows before the rarest has settled."""
    assert closest_exponent(pi, 0.5, 16) == pytest.approx(expected, abs=1e-4)
    scales = np.array([1e-7, 1e-6, 1e-5])
    passages = [passage(pi, 0.5, 16, std, 0) for std in scales]
    power = fit_exponent(scales, np.array([p.closest for p in passages])).value
    assert power == pytest.approx(expected, abs=0.01)
    rank = fit_exponent(scales, np.array([p.off_rank for p in passages])).value
    assert rank == pytest.approx(1, abs=0.01)


def test_contraction_rate_is_in_the_spectrum_of_the_plateau():
    pi = np.array([0.5, 0.3, 0.2])
    network = Exact.sticky(pi, 0.5, 2)
    rates = np.linalg.eigvalsh(jacobian(network.gradient, critical_point(network, np.array([0.6, 0.8]))))
    assert np.abs(rates - contraction_rate(pi)).min() < 1e-12


# -- the attention block ----------------------------------------------------------------------------------


@pytest.fixture(params=range(8))
def random_network(request):
    rng = np.random.default_rng(request.param)
    d, m = rng.integers(3, 9), rng.integers(2, 6)
    pi = rng.dirichlet(np.ones(d))
    direction = rng.standard_normal(m)
    return Exact.sticky(pi, rng.uniform(0.05, 0.95), int(m)), direction / np.linalg.norm(direction)


def test_attention_block_is_one_row_direction_of_both_signs(random_network):
    network, direction = random_network
    point = critical_point(network, direction)
    assert np.abs(network.gradient(point)).max() < 1e-13
    block, coupling = linearisation(network, point)
    assert np.abs(coupling).max() < 1e-12
    np.testing.assert_allclose(block, predicted_block(network, direction), atol=1e-10)
    kappa, m = coupling_rate(network), network.width
    rates = np.linalg.eigvalsh(block)
    np.testing.assert_allclose(rates[-m:], kappa, atol=1e-10)
    np.testing.assert_allclose(rates[:m], -kappa, atol=1e-10)  # not semi-definite as a whole
    np.testing.assert_allclose(rates[m:-m], 0, atol=1e-10)
    # what is semi-definite and of rank one is the coupling of the rows of W_Q to those of W_K
    rows = block[: m * m, m * m :].reshape(m, m, m, m)[:, 0, :, 0]
    np.testing.assert_allclose(np.linalg.eigvalsh(rows), [0] * (m - 1) + [kappa], atol=1e-10)


def test_coupling_is_the_focus_rate_on_a_sticky_chain(random_network):
    network, _ = random_network
    lam = float(network.transition[0, 0] - network.transition[1, 0])
    assert coupling_rate(network) == pytest.approx(focus_rate(network.pi, lam, network.width), rel=1e-12)


def test_coupling_is_negative_where_tokens_avoid_themselves():
    """Then C is negative semi-definite, and what grows is W_Q = −W_K: attention leaves the frequent token."""
    pi = np.array([0.4, 0.35, 0.25])
    network = Exact.sticky(pi, -0.3, 3)
    assert network.transition.min() > 0
    assert coupling_rate(network) < 0
    direction = np.eye(3)[0]
    block, _ = linearisation(network, critical_point(network, direction))
    np.testing.assert_allclose(block, predicted_block(network, direction), atol=1e-12)
    _, vectors = np.linalg.eigh(block)
    q, k = np.split(vectors[:, -1], 2)
    np.testing.assert_allclose(q, -k, atol=1e-8)


# -- softmax identities -----------------------------------------------------------------------------------


def test_variance_of_symmetric_probabilities():
    p_sym = symmetric_probabilities(5, 1.3)
    u = np.array([0, 1.0, -2.0, 0.5, 0.5])
    errors = identity_errors(p_sym, u)
    assert max(errors.values()) < 1e-15


def test_variance_identity_needs_its_conditions():
    u = np.array([0, 1.0, -1.0])
    unequal = np.array([0.5, 0.3, 0.2])
    assert identity_errors(unequal, u)["eigenvector"] > 0.01
    assert identity_errors(symmetric_probabilities(3, 1.0), np.abs(u))["eigenvector"] > 0.01
    assert np.abs(variance(unequal) @ np.ones(3)).max() < 1e-16
