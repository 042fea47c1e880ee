"""Small pure functions on one recorded signal: what analyzers use to turn curves into steps.

Everywhere `steps` is a 1-D array of increasing training steps (any spacing) and `values` a 1-D array of the
same length. A curve is taken to be straight between two records, so a result moves by less than one probe
interval when the cadence changes. Non-finite values end a signal: pass it through `until_divergence` first.
Steps that are not found are NaN, never an error: "absent" is an answer.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# median(|x|) of a standard normal x, inverted: turns a median of absolute values into a standard deviation
MAD_TO_STD = 1.4826022185056018


class Turn(NamedTuple):
    """An extremum that the signal has turned away from by at least the reversal asked for."""

    step: float
    value: float
    kind: Literal["max", "min"]


class Band(NamedTuple):
    """A quantity over replicas (first axis removed): quantiles where it is present, and how often it is."""

    median: Array
    p10: Array
    p90: Array
    share: Array


def until_divergence(steps: Array, values: Array) -> tuple[Array, Array]:
    """The records before the first non-finite value, as float64."""
    steps, values = np.asarray(steps, float), np.asarray(values, float)
    bad = ~np.isfinite(values)
    end = int(np.argmax(bad)) if bad.any() else len(values)
    return steps[:end], values[:end]


def noise_level(steps: Array, values: Array) -> float:
    """Standard deviation of the noise that is independent from record to record, in units of `values`.

    Each record is compared with the straight line through its two neighbours; for independent noise of
    variance s² the difference has variance s² (1 + a² + b²), a and b being the line's weights. The median of
    the scaled differences is robust: neither steep parts of a smooth curve nor single outliers matter.
    0 with fewer than four records, where nothing can be said.
    """
    if len(values) < 4:
        return 0.0
    left = (steps[2:] - steps[1:-1]) / (steps[2:] - steps[:-2])
    predicted = left * values[:-2] + (1 - left) * values[2:]
    scale = np.sqrt(1 + left**2 + (1 - left) ** 2)
    return float(MAD_TO_STD * np.median(np.abs(values[1:-1] - predicted) / scale))


def smooth(steps: Array, values: Array, width: float | Array) -> Array:
    """Mean of the curve over a window of `width` steps (one, or one a record) centred on each record.

    The mean is that of the piecewise straight curve (an integral, not a sum over records), so it does not
    depend on the cadence. Near the ends the window shrinks symmetrically, which leaves a slope unbiased and
    the end records as they are.
    """
    if len(values) < 3:
        return np.array(values, float)
    half = np.minimum(width / 2, np.minimum(steps - steps[0], steps[-1] - steps))
    inside = half > 0
    t, h = steps[inside], half[inside]
    out = np.array(values, float)
    out[inside] = (_integral(steps, values, t + h) - _integral(steps, values, t - h)) / (2 * h)
    return out


def _integral(steps: Array, values: Array, at: Array) -> Array:
    """Integral of the piecewise straight curve from the first record to each of `at` (within the records)."""
    areas = np.concatenate([[0.0], np.cumsum(np.diff(steps) * (values[1:] + values[:-1]) / 2)])
    i = np.clip(np.searchsorted(steps, at, side="right") - 1, 0, len(steps) - 2)
    return areas[i] + (at - steps[i]) * (values[i] + np.interp(at, steps, values)) / 2


def turning_points(steps: Array, values: Array, reversal: float | Array) -> list[Turn]:
    """Maxima and minima, alternating, each left behind by at least `reversal` (> 0) before the next.

    This is hysteresis on extrema: wiggles smaller than `reversal` are not turns. The first record is a
    turn if the signal departs from it by `reversal`; the end of the last stretch, from which no reversal has
    been seen yet, is not.
    With a `reversal` a record, it is that of the record which has left the turn behind that counts.
    """
    turns: list[Turn] = []
    least = np.broadcast_to(reversal, len(values))
    if len(values) == 0:
        return turns
    values = values.tolist()  # of which the loop is made faster
    low = high = 0  # records of the lowest and highest value since the last turn
    direction = 0  # +1 while rising, -1 while falling, 0 before the first departure
    for i, value in enumerate(values):
        if value > values[high]:
            high = i
        if value < values[low]:
            low = i
        if direction >= 0 and values[high] - value >= least[i]:
            turns.append(Turn(float(steps[high]), float(values[high]), "max"))
            direction, low = -1, i
        elif direction <= 0 and value - values[low] >= least[i]:
            turns.append(Turn(float(steps[low]), float(values[low]), "min"))
            direction, high = 1, i
    return turns


def hold_crossing(
    steps: Array,
    values: Array,
    level: float,
    *,
    low: float | None = None,
    hold: float = 0.0,
    hold_share: float = 0.0,
    seen: float = 1.0,
) -> float:
    """Step at which the signal rises through `level` and holds; NaN if it does not.

    It must be seen below `level` first: a signal that begins above it has crossed nothing. It holds if for
    `hold` + `hold_share` × (the step of the crossing) more steps it does not fall below `low` (default:
    `level`; hysteresis: `low` < `level`); of that time the records must show the share `seen`. The first
    rise that holds is taken. For a falling signal pass `-values`, `-level` and `-low`.
    """
    rises = _rises(values, level)
    if len(rises) == 0:
        return float("nan")
    at = _between(steps, values, level, rises)
    low = level if low is None else low
    falls = np.flatnonzero((values[1:] < low) & (values[:-1] >= low)) + 1
    lost = np.append(_between(steps, values, low, falls), np.inf)[np.searchsorted(falls, rises)]
    wait = hold + hold_share * at
    holds = (lost > at + wait) & (at + seen * wait <= steps[-1])
    return float(at[np.argmax(holds)]) if holds.any() else float("nan")


def first_crossing(steps: Array, values: Array, level: float) -> float:
    """Step at which the signal first rises from below `level` to it; NaN if it never does."""
    rises = _rises(values, level)[:1]
    return float(_between(steps, values, level, rises)[0]) if len(rises) else float("nan")


def last_crossing(steps: Array, values: Array, level: float) -> float:
    """Step at which the signal last rises from below `level` to it; NaN if it never does."""
    rises = _rises(values, level)[-1:]
    return float(_between(steps, values, level, rises)[0]) if len(rises) else float("nan")


def first_plateau(steps: Array, values: Array, level: float, ahead: float, start: float) -> float:
    """Value of the first plateau from step `start` on; NaN if there is none.

    It is the median of its records, but no less than what the first of them goes on to: of a plateau that has
    only just begun all records lie on the way to it.

    A record lies on a plateau if it has at least the share `level` of the value that the signal has `ahead` ×
    (its step) more steps on. This has no scale: a growth as t^a goes on if a > -log(level) / log(1 + ahead),
    and exponential growth does once it has grown. A plateau must last for `ahead` × (the step at which it
    begins), or to the last record that can be judged, of which the record shows enough of what comes after.
    """
    judged = steps[steps * (1 + ahead) <= steps[-1:]]
    if len(judged) == 0:
        return float("nan")
    later = np.interp(judged * (1 + ahead), steps, values)
    flat = values[: len(judged)] >= level * later
    edges = np.flatnonzero(np.diff(flat & (judged >= start), prepend=False, append=False))
    for begin, end in edges.reshape(-1, 2):
        if end == len(judged) or judged[end - 1] >= judged[begin] * (1 + ahead):
            return float(max(np.median(values[begin:end]), later[begin]))
    return float("nan")


def _rises(values: Array, level: float) -> NDArray[np.intp]:
    """The records at or above `level` whose predecessor is below it."""
    return np.flatnonzero((values[1:] >= level) & (values[:-1] < level)) + 1


def _between(steps: Array, values: Array, level: float, i: NDArray[np.intp]) -> Array:
    """Where the straight lines from records i-1 to i meet `level`, which lies between the two."""
    part = (level - values[i - 1]) / (values[i] - values[i - 1])
    return np.asarray(steps[i - 1] + part * (steps[i] - steps[i - 1]), float)


def band(values: Array) -> Band:
    """Median and 10-90 % range over replicas (axis 0) of those that are present (not NaN), and their share.

    Quantiles are NaN where the quantity is present in no replica; `share` is in [0, 1].
    """
    values = np.asarray(values, float)
    present = np.isfinite(values)
    share = present.mean(axis=0) if len(values) else np.zeros(values.shape[1:])
    quantiles = np.full((3, *values.shape[1:]), np.nan)
    some = present.any(axis=0)
    if some.any():
        quantiles[:, some] = np.nanquantile(
            np.where(present, values, np.nan)[:, some], [0.5, 0.1, 0.9], axis=0
        )
    return Band(quantiles[0], quantiles[1], quantiles[2], np.asarray(share, float))
