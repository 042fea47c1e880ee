"""Exponents of power laws, fitted on logarithms."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import stats


class Exponent(NamedTuple):
    """The slope of a straight line through logarithms, with its confidence interval."""

    value: float
    low: float
    high: float


def fit_exponent(x: np.ndarray, y: np.ndarray, confidence: float = 0.95) -> Exponent:
    """The exponent n of y ∝ xⁿ by least squares on logarithms, with Student's interval.

    Of what is computed without noise the interval measures how straight the line is: the next order of the
    expansion. Of several seeds one exponent is fitted, with a factor for each.

    Args:
        x: positive `(point,)`, at least two.
        y: positive `(point,)` or `(seed, point)`.
        confidence: of the interval, which is NaN of two points and one seed.
    """
    logs = np.log(np.atleast_2d(y))
    along, across = np.log(x) - np.log(x).mean(), logs - logs.mean(axis=1, keepdims=True)
    squares = len(logs) * (along @ along)
    slope = float(np.sum(across * along) / squares)
    free = logs.size - len(logs) - 1
    error = np.sqrt(np.sum((across - slope * along) ** 2) / free / squares) if free > 0 else np.nan
    half = float(stats.t.ppf((1 + confidence) / 2, free) * error)
    return Exponent(slope, slope - half, slope + half)
