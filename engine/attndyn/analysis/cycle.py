"""One rise and fall of a signal: where it begins, tops out and ends, with hysteresis."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attndyn.analysis.series import Array, first_crossing, last_crossing, noise_level, smooth

NAN = float("nan")
NOISE_RECORDS = 16  # fewer tell too little of the noise


class Cycle(NamedTuple):
    """A rise above a base and the fall after it; steps, NaN where absent, and heights in the signal's unit.

    Attributes:
        rise_onset: the rise has done its first `tail` (a tenth).
        peak: middle of the top, the stretch within a `tail` (and the noise) of the full height; absent
            until left.
        height: how far the signal rises above the base.
        fall_onset: end of the top.
        fall_end: the fall has only its last `tail` to go.
        depth: how far the signal falls below its maximum.
    """

    rise_onset: float = NAN
    peak: float = NAN
    height: float = NAN
    fall_onset: float = NAN
    fall_end: float = NAN
    depth: float = NAN


def find_cycle(
    steps: Array,
    values: Array,
    base: float,
    *,
    floor: float,
    noise_factor: float = 5.0,
    smoothing: float = 0.05,
    tail: float = 0.1,
    settle: float = 0.0,
) -> Cycle:
    """The first rise above `base` that counts, and the fall after it; values finite, shape (step,).

    A rise counts if it exceeds `floor`, a `tail` of the largest rise on record and `noise_factor` times the
    noise until then, starts from the base (not from further below it than half the rise) and is itself
    recorded. It is over, and the fall begun, once half of it is lost again and what is lost counts by the
    same measures. The fall goes on until half of it is regained. `smoothing` is the width of the running mean
    as a share of the step; `settle` how far, as a share of the step, the record must go on after `fall_end`:
    a fall that the record cuts short has no end.
    """
    if len(values) < 2:
        return Cycle()
    raw, values = values, smooth(steps, values, smoothing * np.abs(steps)) - base
    floor = max(floor, tail * float(values.max()))
    left, noise = _leave(steps, raw, values, floor, noise_factor)
    floor = max(floor, noise_factor * noise)
    top = int(np.argmax(values[: left + 1]))
    height = float(values[top])
    half = first_crossing(steps[: top + 1], values[: top + 1], height / 2)
    if height < floor or not np.isfinite(half) or values[: top + 1].min() < -height / 2:
        return Cycle()
    risen = int(np.searchsorted(steps, half)) + 1
    onset = last_crossing(steps[:risen], values[:risen], tail * height)
    if left == len(values):
        return Cycle(onset, height=height)
    # the highest of noisy records lies above the curve: without a margin the top would be that record alone
    level = max((1 - tail) * height - 2 * noise, height / 2)
    top_from = first_crossing(steps[: top + 1], values[: top + 1], level)
    top_to = last_crossing(steps[: left + 1], -values[: left + 1], -level)
    end, depth = _fall(steps[top:], height - values[top:], left - top, floor, tail, settle)
    return Cycle(onset, (top_from + top_to) / 2, height, top_to, end, depth)


def _leave(steps: Array, raw: Array, values: Array, floor: float, noise_factor: float) -> tuple[int, float]:
    """Record at which a rise above 0 that counts is half lost (their number if none), and the noise.

    The noise may grow during training, so it is measured up to that record; a rise that does not stand above
    it raises the floor for the next.
    """
    highest = np.maximum.accumulate(values)
    while True:
        left = _first((highest >= floor) & (highest - values >= np.maximum(highest / 2, floor)))
        until = max(left + 1, NOISE_RECORDS)
        noise = noise_level(steps[:until], raw[:until])
        if noise_factor * noise <= floor:
            return left, noise
        floor = noise_factor * noise


def _fall(
    steps: Array, fallen: Array, begun: int, floor: float, tail: float, settle: float
) -> tuple[float, float]:
    """End and depth of a fall, given as how far the signal is below its maximum, counted from `begun` on."""
    deepest = np.maximum.accumulate(fallen)
    regained = deepest - fallen >= np.maximum(deepest / 2, floor)
    back = begun + _first(regained[begun:])
    depth = float(deepest[min(back, len(fallen) - 1)])
    end = first_crossing(steps, fallen, (1 - tail) * depth)
    settled = back < len(fallen) or steps[-1] >= end * (1 + settle)
    return (end if settled else NAN), depth


def _first(where: NDArray[np.bool_]) -> int:
    """Index of the first True, or the length if there is none."""
    return int(np.argmax(where)) if where.any() else len(where)
