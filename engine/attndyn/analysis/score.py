"""How well announced events meet the boundaries they should: matches, delays, and what chance would do.

Times are shares of the step: a boundary at step b is met by an event at step e if |e - b| ≤ tolerance · b.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

Array = NDArray[np.float64]
SHIFTS = 200


class Rule(NamedTuple):
    """Which event may meet which boundary.

    Attributes:
        tolerance: largest distance of the two, as a share of the boundary's step.
        allowed: whether this event may meet this boundary at all, shape (event, boundary); None: any may.
        early: whether an event before its boundary may meet it; what is announced on line is news only after.
    """

    tolerance: float
    allowed: NDArray[np.bool_] | None = None
    early: bool = True


class Score(NamedTuple):
    """Of the events announced for one record.

    Attributes:
        precision: share of the events that meet a boundary; NaN without events.
        recall: share of the boundaries met, 0 without events; NaN without boundaries.
        delay: step of the event minus that of the boundary it meets, shape (boundary,); NaN where missed.
        chance_precision: mean precision of the same events moved to other times.
        chance_recall: mean recall of these.
    """

    precision: float
    recall: float
    delay: Array
    chance_precision: float
    chance_recall: float


def score(events: Array, boundaries: Array, rule: Rule, first: float, last: float) -> Score:
    """Score of `events` (event,) against `boundaries` (boundary,) in steps, NaN for an absent one.

    Every event meets one boundary at most and every boundary is met by one event at most: of all such
    pairings one with the most pairs, and of these the one with the smallest sum of relative distances.

    Chance is what the same events get, by the same rule, shifted together in log(step) by `SHIFTS` even
    fractions of the way from `first` to `last`; what leaves at the end comes back at the beginning. It keeps
    the number, the kinds and the spacing of the events. `first` and `last` must be the first and last step at
    which an event could have been announced, or chance is understated.
    """
    delay = _delays(events, boundaries, rule)
    present = int(np.isfinite(boundaries).sum())
    by_chance = float(
        np.mean([_met(_delays(moved, boundaries, rule)) for moved in _moved(events, first, last)])
    )

    def share(met: float, of: int) -> float:
        return met / of if of else np.nan

    return Score(
        precision=share(_met(delay), len(events)),
        recall=share(_met(delay), present),
        delay=delay,
        chance_precision=share(by_chance, len(events)),
        chance_recall=share(by_chance, present),
    )


def _delays(events: Array, boundaries: Array, rule: Rule) -> Array:
    """Step of the event minus that of the boundary it meets (boundary,); NaN where none does."""
    delay = np.full(len(boundaries), np.nan)
    late = events[:, None] - boundaries
    distance = np.abs(late) / (rule.tolerance * boundaries)
    may = distance <= 1  # False for an absent boundary
    if rule.allowed is not None:
        may &= rule.allowed
    if not rule.early:
        may &= late >= 0
    # a pair in reach is worth more than all distances together
    cost = np.where(may, distance - 2 * (min(may.shape) + 1), 0.0)
    for event, boundary in zip(*linear_sum_assignment(cost), strict=True):
        if may[event, boundary]:
            delay[boundary] = late[event, boundary]
    return delay


def _met(delay: Array) -> int:
    return int(np.isfinite(delay).sum())


def _moved(events: Array, first: float, last: float) -> Array:
    """The events moved in a circle from `first` to `last`, (shift, event)."""
    low, high = np.log1p(first), np.log1p(last)
    if not high > low or not len(events):
        return events[None]
    shifts = (np.arange(SHIFTS) + 0.5) / SHIFTS
    place = (np.log1p(events) - low) / (high - low)
    return np.expm1(low + (place + shifts[:, None]) % 1 * (high - low))
