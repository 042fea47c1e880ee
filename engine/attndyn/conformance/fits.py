"""Straight lines through the points of several seeds, with an interval for the slope."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Array = NDArray[np.float64]


class Fit(NamedTuple):
    """The slope that all series share, each with an intercept of its own.

    Attributes:
        slope: by least squares.
        low: lower end of its interval; NaN where no point is left over to tell the scatter from.
        high: upper end.
        points: how many there were.
    """

    slope: float
    low: float
    high: float
    points: int


def straight_line(series: Sequence[tuple[Array, Array]], confidence: float = 0.95) -> Fit | None:
    """The common slope of several series (x, y), and Student's interval of it; None if no x differs.

    With one series these are the slope and the interval of ordinary regression.
    """
    if not series:
        return None
    x = np.concatenate([x - x.mean() for x, _ in series])
    y = np.concatenate([y - y.mean() for _, y in series])
    spread = float(x @ x)
    if spread == 0:
        return None
    slope = float(x @ y) / spread
    free = len(x) - len(series) - 1
    if free < 1:
        return Fit(slope, np.nan, np.nan, len(x))
    error = np.sqrt(float(((y - slope * x) ** 2).sum()) / free / spread)
    half = float(stats.t.ppf((1 + confidence) / 2, free)) * error
    return Fit(slope, slope - half, slope + half, len(x))
