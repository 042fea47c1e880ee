"""The gradient check itself: it finds a known gradient, and it notices what is wrong."""

import numpy as np
import pytest

from attndyn.conformance.gradients import central_differences, relative_error


def test_known_gradient():
    x = np.random.default_rng(0).normal(size=(3, 5))
    before = x.copy()
    found = central_differences(lambda: float(np.sin(x).sum()), x)
    assert relative_error(found, np.cos(x)) < 1e-9
    assert np.array_equal(x, before)


@pytest.mark.parametrize(
    "spoil", [lambda g: -g, lambda g: g.T, lambda g: g * np.nan, lambda g: g + 1e-6 * np.abs(g).max()]
)
def test_notices_a_wrong_gradient(spoil):
    x = np.random.default_rng(0).normal(size=(4, 4))
    expected = central_differences(lambda: float((x**3).sum()), x)
    assert relative_error(expected, 3 * x**2) < 1e-7
    assert relative_error(spoil(3 * x**2), expected) > 1e-7


def test_other_shapes_and_precisions_are_refused():
    assert relative_error(np.ones(3), np.ones((3, 1))) == np.inf
    with pytest.raises(TypeError, match="float64"):
        central_differences(lambda: 0.0, np.ones(2, dtype=np.float32))
