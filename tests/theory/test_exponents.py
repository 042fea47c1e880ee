"""Exponents of power laws: exact ones, bent ones, several seeds, and two points."""

import numpy as np
import pytest

from attndyn.theory.exponents import fit_exponent


def test_fit_exponent():
    x = np.logspace(0, 3, 9)
    exact = fit_exponent(x, 3 * x**2.5)
    assert exact.value == pytest.approx(2.5)
    bent = fit_exponent(x, x * (1 + 0.1 * np.sin(np.arange(9))))
    assert bent.low < 1 < bent.high


def test_one_exponent_and_a_factor_for_each_seed():
    scales, noise = np.logspace(-6, -2, 9), np.random.default_rng(0).normal(0, 0.01, (3, 9))
    values = np.array([[1.0], [7.0], [0.2]]) * scales**0.7 * np.exp(noise)
    found = fit_exponent(scales, values)
    assert found.low < 0.7 < found.high
    assert found.high - found.low < 0.02


def test_two_points_have_an_exponent_and_no_interval():
    found = fit_exponent(np.array([1.0, 2.0]), np.array([1.0, 8.0]))
    assert found.value == pytest.approx(3, rel=1e-14)
    assert np.isnan([found.low, found.high]).all()
