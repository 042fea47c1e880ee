"""Whether curves move together: their correlation over training, and how long one follows the other."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

MAX_RECORDS = 512
# correlations closer than this are the same: of equally good lags the shortest is taken
TIE = 1e-9


class Agreement(NamedTuple):
    """Of every pair of curves, (curve, other curve); NaN on the diagonal.

    Attributes:
        correlation: Pearson's, over the records, evenly spaced.
        lag: steps by which the other curve follows the curve (negative: precedes it), where it fits best.
        lagged_correlation: correlation at that lag.
    """

    correlation: Array
    lag: Array
    lagged_correlation: Array


def pairwise_agreement(
    steps: Array, curves: Array, max_lag: float, min_change: float, min_correlation: float
) -> Agreement:
    """Agreement of all pairs of curves.

    Curves are taken as straight between records and sampled evenly, as often as they were recorded on
    average (at most 512 times); a lag is a multiple of that spacing.

    Args:
        steps: increasing steps (record,).
        curves: (curve, record); the records before the first at which any is not finite count.
        max_lag: longest lag tried, as a share of the record.
        min_change: a curve whose highest and lowest values lie closer together agrees with none (NaN).
        min_correlation: curves that correlate less at every lag have none (NaN).
    """
    n_curves = len(curves)
    bad = ~np.isfinite(curves).all(axis=0)
    end = int(bad.argmax()) if bad.any() else len(steps)
    nan = np.full((n_curves, n_curves), np.nan)
    if end < 3:
        return Agreement(nan, nan.copy(), nan.copy())
    at = np.linspace(steps[0], steps[end - 1], min(end, MAX_RECORDS))
    even = np.array([np.interp(at, steps[:end], curve[:end]) for curve in curves])
    even[np.ptp(even, axis=1) < max(min_change, np.finfo(float).tiny)] = np.nan
    here = _correlations(even, 0)
    best, lag = here.copy(), np.zeros_like(here)
    for shift in range(1, int(max_lag * (len(at) - 1)) + 1):
        forward = _correlations(even, shift)
        for found, sign in ((forward, 1), (forward.T, -1)):
            better = found > best + TIE
            best[better], lag[better] = found[better], sign * shift
    lag *= at[1] - at[0]
    # written so that NaN, too, has no lag
    lag[~(best >= min_correlation)] = np.nan
    for array in (here, lag, best):
        np.fill_diagonal(array, np.nan)
    return Agreement(here, lag, best)


def _correlations(curves: Array, shift: int) -> Array:
    """Correlation of every curve (curve, record) with every other one read `shift` records later."""
    count = curves.shape[1] - shift
    early, late = _standardised(curves[:, :count]), _standardised(curves[:, shift:])
    return early @ late.T


def _standardised(curves: Array) -> Array:
    """Curves of mean 0 and norm 1; NaN for one that is constant in this stretch."""
    centred = curves - curves.mean(axis=1, keepdims=True)
    norm = np.linalg.norm(centred, axis=1, keepdims=True)
    scale = np.finfo(float).eps * np.abs(curves).max(axis=1, keepdims=True) * np.sqrt(curves.shape[1])
    return centred / np.where(norm > scale, norm, np.nan)
