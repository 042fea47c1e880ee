"""Transition matrices: row-stochastic, with the right stationary distribution."""

from __future__ import annotations

import numpy as np
import pytest

from attndyn.data.options import MarkovOptions
from attndyn.data.transition import Explicit, Random, Sticky, stationary_of

PI = np.array([0.5, 0.3, 0.15, 0.05])


@pytest.mark.parametrize("lam", [0.0, 0.5, 0.99])
def test_sticky_is_its_definition(lam):
    matrix = Sticky(kind="sticky", lam=lam).probabilities(PI)
    for i in range(4):
        for j in range(4):
            assert matrix[i, j] == pytest.approx(lam * (i == j) + (1 - lam) * PI[j], rel=1e-15)
    np.testing.assert_allclose(PI @ matrix, PI, atol=1e-15)


@pytest.mark.parametrize("concentration", [0.1, 0.3, 1.0, 100.0])
@pytest.mark.parametrize("d_vocab", [2, 5, 40])
def test_random_has_pi_as_its_stationary_distribution(concentration, d_vocab):
    pi = 0.5 ** np.arange(d_vocab) if d_vocab < 40 else np.arange(1.0, d_vocab + 1)
    pi /= pi.sum()
    for seed in range(20):
        matrix = Random(kind="random", seed=seed, concentration=concentration).probabilities(pi)
        assert matrix.min() >= 0
        np.testing.assert_allclose(matrix.sum(axis=1), 1, atol=1e-14)
        np.testing.assert_allclose(pi @ matrix, pi, atol=1e-14)


def test_random_depends_on_its_seed_and_on_nothing_else():
    one, again, other = (Random(kind="random", seed=s).probabilities(PI) for s in (1, 1, 2))
    assert np.array_equal(one, again)
    assert np.abs(one - other).max() > 0.01


def test_large_concentration_is_near_independence():
    matrix = Random(kind="random", seed=0, concentration=1e6).probabilities(PI)
    np.testing.assert_allclose(matrix, np.tile(PI, (4, 1)), atol=0.01)
    loose = Random(kind="random", seed=0, concentration=0.1).probabilities(PI)
    assert np.abs(loose - PI).max() > 0.2


def test_stationary_of_two_states():
    # from the balance of the two flows: π_0 a = π_1 b
    np.testing.assert_allclose(stationary_of(np.array([[0.9, 0.1], [0.3, 0.7]])), [0.75, 0.25], rtol=1e-15)


def test_stationary_of_a_cycle_and_of_a_rare_token():
    np.testing.assert_allclose(stationary_of(np.roll(np.eye(5), 1, axis=1)), 0.2, rtol=1e-15)
    rare = 1e-13
    pi = stationary_of(np.array([[1 - rare, rare], [1.0, 0.0]]))
    assert pi[1] == pytest.approx(rare / (1 + rare), rel=1e-14)


def test_stationary_of_a_random_chain():
    pi = np.random.default_rng(0).dirichlet(np.ones(30))
    matrix = Random(kind="random", seed=5).probabilities(pi)
    np.testing.assert_allclose(stationary_of(matrix), pi, rtol=1e-11)


@pytest.mark.parametrize("matrix", [np.eye(2), [[1.0, 0.0], [0.5, 0.5]]], ids=["two chains", "absorbing"])
def test_no_positive_stationary_distribution(matrix):
    with pytest.raises(ValueError, match="tokens 0 and 1 are not reachable from each other"):
        stationary_of(np.array(matrix))


def test_options_compute_pi_of_an_explicit_matrix():
    options = MarkovOptions(
        kind="markov", transition=Explicit(kind="explicit", matrix=[[0.9, 0.1], [0.3, 0.7]])
    )
    assert options.d_vocab == 2
    assert options.labels == ("0", "1")
    np.testing.assert_allclose(options.pi, [0.75, 0.25], rtol=1e-15)
    np.testing.assert_allclose(options.pi @ options.P, options.pi, rtol=1e-15)


def test_arrays_are_read_only_and_belong_to_the_values():
    transition = {"kind": "sticky", "lam": 0.5}
    first = MarkovOptions(kind="markov", stationary={"kind": "zipf", "d_vocab": 3}, transition=transition)
    other = first.model_copy(update={"transition": Sticky(kind="sticky", lam=0.0)})
    assert first.P[0, 0] > other.P[0, 0]
    with pytest.raises(ValueError, match="read-only"):
        first.pi[0] = 1
