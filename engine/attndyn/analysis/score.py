"""How well announced events meet the boundaries they should: matches, delays, and what chance would do.

Times are shares of the step: a boundary at step b is met by an event at step e if |e - b| ≤ tolerance · b.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

Array = NDArray[np.float64]


class Score(NamedTuple):
    """Of the events announced for one record.

    Attributes:
        precision: share of the events that meet a boundary; NaN without events.
        recall: share of the boundaries met; NaN without boundaries.
        delay: step of the event minus that of the boundary it meets, shape (boundary,); NaN where missed.
        chance_precision: expected share of events that lie at a boundary, if placed at random.
        chance_recall: expected share of the boundaries with as many random events at them or more than none.
    """

    precision: float
    recall: float
    delay: Array
    chance_precision: float
    chance_recall: float


def score(events: Array, boundaries: Array, tolerance: float, first: float, last: float) -> Score:
    """Score of `events` (event,) against `boundaries` (boundary,) in steps, NaN for an absent one.

    Every event meets one boundary at most and every boundary is met by one event at most: of all such
    pairings one with the most pairs, and of these the one with the smallest sum of relative distances.
    Random events are spread evenly over log(step) between `first` and `last`; that they, too, meet one
    boundary at most is neglected, so chance is rather overstated than understated.
    """
    delay = np.full(len(boundaries), np.nan)
    present = np.flatnonzero(np.isfinite(boundaries))
    distance = np.abs(events[:, None] - boundaries[present]) / (tolerance * boundaries[present])
    # a pair in reach is worth more than all distances together
    cost = np.where(distance <= 1, distance - 2 * (min(distance.shape) + 1), 0.0)
    for event, boundary in zip(*linear_sum_assignment(cost), strict=True):
        if distance[event, boundary] <= 1:
            delay[present[boundary]] = events[event] - boundaries[present[boundary]]
    met = int(np.isfinite(delay).sum())
    reach = _reach(boundaries[present], tolerance, first, last)
    return Score(
        precision=met / len(events) if len(events) else np.nan,
        recall=met / len(present) if len(present) else np.nan,
        delay=delay,
        chance_precision=_covered(reach) if len(present) else np.nan,
        chance_recall=_hit(reach, len(events)) if len(present) else np.nan,
    )


def _reach(boundaries: Array, tolerance: float, first: float, last: float) -> Array:
    """Where an event meets each boundary (boundary, 2), as shares of the way from `first` to `last`."""
    low, high = np.log1p(first), np.log1p(last)
    if not high > low:
        return np.zeros((len(boundaries), 2))
    edges = np.stack([boundaries * (1 - tolerance), boundaries * (1 + tolerance)], axis=1)
    return np.clip((np.log1p(edges) - low) / (high - low), 0, 1)


def _covered(reach: Array) -> float:
    """Length of the union of intervals (interval, 2)."""
    total, end = 0.0, 0.0
    for low, high in sorted(map(tuple, reach.tolist())):
        total += max(0.0, high - max(low, end))
        end = max(end, high)
    return total


def _hit(reach: Array, count: int) -> float:
    """Expected share of the intervals in which at least one of `count` random points lies."""
    return float(np.mean(1 - (1 - (reach[:, 1] - reach[:, 0])) ** count))
