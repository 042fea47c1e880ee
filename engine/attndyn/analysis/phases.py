"""Phases of attention to a token: rises and falls, one after the other, of its ratio to frequency."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from pydantic import Field

from attndyn.analysis.cycle import NAN, NOISE_RECORDS, Cycle
from attndyn.analysis.series import (
    Array,
    Turn,
    first_crossing,
    last_crossing,
    noise_level,
    smooth,
    turning_points,
    until_divergence,
)
from attndyn.spec.base import AnalyzerOptions

#: share of a rise or fall that its beginning and its end are
TAIL = 0.1
#: more phases than any run is expected to have; what has more is not counted
MOST = 64
#: the noise is measured anew whenever the record has grown by this share
GROWTH = 0.1


class PhaseOptions(AnalyzerOptions):
    """What counts as a rise or a fall of the ratio of attention to frequency."""

    factor: float = Field(default=1.5, gt=1, description="least factor by which the ratio rises or falls")
    floor: float = Field(default=0.1, gt=0, lt=1, description="lower ratios count as this one")
    noise_factor: float = Field(
        default=5.0, ge=0, description="least rise or fall of the ratio's logarithm, in units of its noise"
    )
    smoothing: float = Field(default=0.05, ge=0, lt=1, description="width of the running mean, share of step")
    cycles: int = Field(
        default=2, ge=1, le=MOST // 2, description="rises and falls in the table; all are counted"
    )


class Phases(NamedTuple):
    """The phases of one curve.

    Attributes:
        number: rises and falls that have begun, from the first rise on: 0 is none, 1 a rise, 2 a rise and a
            fall, 3 another rise, and so on; NaN if unknown, or if there are more than `MOST`.
        falls_first: 1 if the curve falls before it first rises, which is not counted, else 0; NaN if unknown.
        cycles: all rises and the falls after them, in order. Of a rise from a trough r to a top s, `height`
            is s - r; `depth` is how far the curve falls from s.
    """

    number: float
    falls_first: float
    cycles: list[Cycle]


def phase_turns(steps: Array, ratio: Array, options: PhaseOptions) -> list[Turn]:
    """Where phases of a ratio (record,), finite and at least 0, meet: turns of its logarithm, smoothed.

    A turn that has been found stays, however the record goes on: it hangs on the noise until then and on the
    records that a mean there needs, so that the last of the record, which have not got them, tell nothing
    yet. Only the noise needs `NOISE_RECORDS` first.
    """
    judged = steps * (1 + options.smoothing / 2) <= steps[-1:]
    curve = _curve(steps, ratio, options)[judged]
    raw = np.log(np.maximum(ratio, options.floor))
    reversal = np.maximum(np.log(options.factor), options.noise_factor * _noise_so_far(steps, raw))
    return turning_points(steps[judged], np.log(curve), reversal[judged])


def find_phases(steps: Array, ratio: Array, options: PhaseOptions) -> Phases:
    """The phases of a ratio (record,). Of one that diverged it is not known how many there are."""
    until, values = until_divergence(steps, ratio)
    unknown = len(until) < max(len(ratio), 1)
    if len(until) < 2:
        return Phases(NAN if unknown else 0.0, NAN if unknown else 0.0, [])
    turns = phase_turns(until, values, options)
    falls = bool(turns) and turns[0].kind == "max"
    curve = _curve(until, values, options)
    at = np.searchsorted(until, [turn.step for turn in turns[falls:]]).tolist()
    cycles = [
        _cycle(until, curve, at[first : first + 3], options.smoothing) for first in range(0, len(at), 2)
    ]
    # every turn is where the next phase begins
    return Phases(NAN if unknown or len(at) > MOST else float(len(at)), float(falls), cycles)


def _cycle(steps: Array, curve: Array, turns: list[int], settle: float) -> Cycle:
    """The cycle of a curve with its trough, its top and the next trough, as far as there are these turns."""
    trough = turns[0]
    if len(turns) == 1:  # the rise goes on
        rise, top = slice(trough, None), trough + int(curve[trough:].argmax())
        height = float(curve[top] - curve[trough])
        return Cycle(_onset(steps[rise], curve[rise], height), height=height)
    top = turns[1]
    next_trough = turns[2] if len(turns) > 2 else top + int(curve[top:].argmin())
    rise, fall = slice(trough, top + 1), slice(top, next_trough + 1)
    height, depth = float(curve[top] - curve[trough]), float(curve[top] - curve[next_trough])
    begins = first_crossing(steps[rise], curve[rise], curve[top] - TAIL * height)
    leaves = last_crossing(steps[fall], -curve[fall], TAIL * min(height, depth) - curve[top])
    end = first_crossing(steps[fall], -curve[fall], (1 - TAIL) * depth - curve[top])
    settled = len(turns) > 2 or steps[-1] >= end * (1 + settle)
    onset = _onset(steps[rise], curve[rise], height)
    return Cycle(onset, (begins + leaves) / 2, height, leaves, end if settled else NAN, depth)


def _onset(steps: Array, rise: Array, height: float) -> float:
    """Where a rise, which may begin with a long trough, has done its first tenth and does not lose it."""
    half = int(np.argmax(rise - rise[0] >= height / 2)) + 1
    return last_crossing(steps[:half], rise[:half], rise[0] + TAIL * height)


def _curve(steps: Array, ratio: Array, options: PhaseOptions) -> Array:
    return smooth(steps, np.maximum(ratio, options.floor), options.smoothing * np.abs(steps))


def _noise_so_far(steps: Array, values: Array) -> Array:
    """The noise of the records until each record, and at least of the first `NOISE_RECORDS`, (record,)."""
    noise, until = np.zeros(len(values)), 0
    while until < len(values):
        begin, until = until, max(NOISE_RECORDS, int(until * (1 + GROWTH)))
        seen = slice(max(begin, NOISE_RECORDS))
        noise[begin:until] = noise_level(steps[seen], values[seen])
    return noise
