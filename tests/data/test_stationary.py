"""Stationary distributions against their definitions."""

from __future__ import annotations

import numpy as np
import pytest

from attndyn.data.stationary import ExplicitPi, Geometric, Symmetric, Zipf


@pytest.mark.parametrize(
    "options",
    [
        ExplicitPi(kind="explicit", pi=[0.7, 0.2, 0.1]),
        Geometric(kind="geometric", d_vocab=7, ratio=0.25),
        Symmetric(kind="symmetric", p=0.6, d_vocab=5, delta=0.05),
        Zipf(kind="zipf", d_vocab=1000),
    ],
    ids=lambda options: options.kind,
)
def test_probabilities(options):
    pi = options.vector()
    assert pi.shape == (options.d_vocab,)
    assert pi.dtype == np.float64
    assert pi.min() > 0
    assert abs(pi.sum() - 1) < 1e-15


def test_geometric_is_the_stated_pi_and_the_released_one():
    four = Geometric(kind="geometric", d_vocab=4, ratio=0.25).vector()
    five = Geometric(kind="geometric", d_vocab=5, ratio=0.25).vector()
    np.testing.assert_allclose(four, [0.75, 0.19, 0.05, 0.01], atol=5e-3)
    np.testing.assert_allclose(five, [0.751, 0.188, 0.047, 0.012, 0.003], atol=5e-4)
    np.testing.assert_allclose(four[1:] / four[:-1], 0.25, rtol=1e-15)


def test_geometric_of_ratio_one_is_uniform():
    np.testing.assert_allclose(Geometric(kind="geometric", d_vocab=5, ratio=1.0).vector(), 0.2, rtol=1e-15)


def test_symmetric_as_in_the_theorem():
    pi = Symmetric(kind="symmetric", p=0.6, d_vocab=3, delta=0.05).vector()
    np.testing.assert_allclose(pi, [0.6, 0.25, 0.15], rtol=1e-14)


def test_symmetric_spreads_the_shift_equally():
    pi = Symmetric(kind="symmetric", p=0.5, d_vocab=6, delta=0.04).vector()
    np.testing.assert_allclose(pi, [0.5, 0.14, 0.12, 0.1, 0.08, 0.06], rtol=1e-14)


def test_symmetric_group_of_one():
    np.testing.assert_allclose(Symmetric(kind="symmetric", p=0.7, d_vocab=2).vector(), [0.7, 0.3], rtol=1e-15)


def test_zipf_decays_as_a_power():
    pi = Zipf(kind="zipf", d_vocab=8, exponent=1.5).vector()
    np.testing.assert_allclose(pi[0] / pi, np.arange(1, 9) ** 1.5, rtol=1e-14)


def test_explicit_is_scaled_to_sum_to_one():
    pi = ExplicitPi(kind="explicit", pi=[0.5, 0.25, 0.25 + 5e-10]).vector()
    assert abs(pi.sum() - 1) < 1e-15
