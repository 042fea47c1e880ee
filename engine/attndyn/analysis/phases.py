"""Phases of attention to a token: rises above its frequency and falls, one after the other, in one curve."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from attndyn.analysis.cycle import Cycle, find_cycle
from attndyn.analysis.series import Array, noise_level, smooth, turning_points, until_divergence
from attndyn.spec.base import AnalyzerOptions


class PhaseOptions(AnalyzerOptions):
    """What counts as a rise or a fall of the ratio of attention to frequency."""

    min_rise: float = Field(
        default=0.15, gt=0, description="least rise of the ratio, frequency itself being 1"
    )
    noise_factor: float = Field(default=5.0, ge=0, description="a rise must exceed the noise that many times")
    smoothing: float = Field(default=0.05, ge=0, lt=1, description="width of the running mean, share of step")
    cycles: int = Field(default=2, ge=1, le=8, description="how many rises to look for, at most")


def find_cycles(steps: Array, ratio: Array, options: PhaseOptions) -> list[Cycle]:
    """The rises of a ratio (record,) and the falls after them, in order; up to its first non-finite value.

    The first is that of the stage detector (`cycle.find_cycle`), seen against a ratio of 1. After a fall has
    ended, the next rise is seen from the lowest point that the curve turns back from, and counts by the same
    measures; also, it must be a tenth of the first.
    """
    steps, ratio = until_divergence(steps, ratio)
    found: list[Cycle] = []
    base, floor = 1.0, options.min_rise
    while len(found) < options.cycles and len(steps) > 1:
        cycle = find_cycle(
            steps,
            ratio,
            base,
            floor=floor,
            noise_factor=options.noise_factor,
            smoothing=options.smoothing,
            settle=options.smoothing,
        )
        if not np.isfinite(cycle.rise_onset):
            break
        found.append(cycle)
        floor = max(options.min_rise, 0.1 * found[0].height)
        after = steps >= cycle.fall_end  # none if the fall has no end
        trough = _trough(steps[after], ratio[after], floor, options)
        if trough is None:
            break
        at, base = trough
        steps, ratio = steps[steps >= at], ratio[steps >= at]
    return found


def count_phases(cycles: list[Cycle]) -> int:
    """Rises and falls that have begun: 0 none, 1 a rise, 2 a rise and a fall, 3 another rise, and so on."""
    return sum(1 + int(np.isfinite(cycle.fall_onset)) for cycle in cycles)


def _trough(steps: Array, values: Array, floor: float, options: PhaseOptions) -> tuple[float, float] | None:
    """Step and smoothed value of the first lowest point that a curve turns back from by `floor` and noise."""
    reversal = max(floor, options.noise_factor * noise_level(steps, values))
    turns = turning_points(steps, smooth(steps, values, options.smoothing * np.abs(steps)), reversal)
    lowest = [turn for turn in turns if turn.kind == "min"]
    return (lowest[0].step, lowest[0].value) if lowest else None
