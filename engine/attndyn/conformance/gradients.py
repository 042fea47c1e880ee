"""Gradients against central differences, in float64."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

#: near the optimum of truncation (h²) and rounding (1e-16 / h) for functions of order 1
STEP = 1e-5


def central_differences(function: Callable[[], float], array: np.ndarray, step: float = STEP) -> np.ndarray:
    """Gradient of `function` with respect to the entries of `array`, which it reads, by central differences.

    Args:
        function: a scalar of whatever `array` holds at the call.
        array: float64; changed entry by entry, and left as it was.
        step: half of the difference.

    Raises:
        TypeError: the array is not float64: in less, differences say nothing at this step.
    """
    if array.dtype != np.float64:
        raise TypeError(f"central differences need float64, not {array.dtype}")
    gradient = np.empty_like(array)
    for place in np.ndindex(array.shape):
        kept = array[place]
        array[place] = kept + step
        above = function()
        array[place] = kept - step
        below = function()
        array[place] = kept
        gradient[place] = (above - below) / (2 * step)
    return gradient


def relative_error(found: np.ndarray, expected: np.ndarray) -> float:
    """Largest deviation, relative to the largest expected entry; infinite for another shape or a NaN."""
    if found.shape != expected.shape or not (np.isfinite(found).all() and np.isfinite(expected).all()):
        return float("inf")
    scale = np.abs(expected).max()
    deviation = np.abs(found - expected).max()
    return float(deviation / scale) if scale > 0 else float(deviation)
