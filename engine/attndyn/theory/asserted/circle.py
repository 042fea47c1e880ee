"""Derivatives of analytic functions from their values on a circle in the complex plane (Cauchy's formula).

There is no step to choose between truncation and cancellation: with a radius well inside the domain the error
falls geometrically with the number of points, down to rounding divided by the radius to the order.
"""

from __future__ import annotations

from collections.abc import Callable
from math import factorial

import numpy as np

Analytic = Callable[[np.ndarray], np.ndarray]


def derivative(
    function: Callable[[complex], np.ndarray], order: int, radius: float, points: int = 16
) -> np.ndarray:
    """The derivative at 0 of a function that is real on the real line."""
    circle = radius * np.exp(2j * np.pi * np.arange(points) / points)
    values = np.stack([function(complex(z)) for z in circle])
    weights = circle ** (-order) * factorial(order) / points
    return np.tensordot(weights, values, axes=1).real


def second(function: Analytic, at: np.ndarray, direction: np.ndarray, radius: float = 0.03) -> np.ndarray:
    """D²f(at)[direction, direction]; `radius` is that of the largest component's circle."""
    size = np.abs(direction).max() or 1.0
    return size**2 * derivative(lambda z: function(at + z * direction / size), 2, radius)


def mixed(function: Analytic, at: np.ndarray, first: np.ndarray, other: np.ndarray) -> np.ndarray:
    """D²f(at)[first, other] by polarisation."""
    one, two = np.abs(first).max() or 1.0, np.abs(other).max() or 1.0
    both = [second(function, at, first / one + sign * other / two) for sign in (1, -1)]
    return one * two * (both[0] - both[1]) / 4
