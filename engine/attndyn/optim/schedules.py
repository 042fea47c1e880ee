"""Learning-rate schedules, as functions of the step: nothing is stored that grows with a run.

The first `warmup` steps rise linearly and reach 1 on the last of them; `cosine` then falls along half a
cosine and reaches `final` on the last step.
"""

from __future__ import annotations

import math

import numpy as np

from attndyn.spec.base import Schedule


def factor(schedule: Schedule, step: int, steps: int) -> float:
    """Factor on the learning rate at update `step` of `steps`."""
    warmup = _warmup(schedule)
    if step < warmup:
        return (step + 1) / warmup
    if schedule.kind != "cosine":
        return 1.0
    angle = math.pi * (step - warmup) / _fall(schedule, steps)
    return schedule.final + (1 - schedule.final) * 0.5 * (1 + math.cos(angle))


def elapsed(schedule: Schedule, step: np.ndarray, steps: int) -> np.ndarray:
    """Sum of the factors of all updates before each `step`, in closed form."""
    warmup = _warmup(schedule)
    rising = np.minimum(step, warmup)
    risen = rising * (rising + 1) / (2 * max(warmup, 1))
    after = np.maximum(step - warmup, 0)
    if schedule.kind != "cosine":
        return risen + after
    # Σ_{j<n} cos(2 j x) = sin(n x) cos((n − 1) x) / sin(x)
    x = math.pi / (2 * _fall(schedule, steps))
    cosines = np.sin(after * x) * np.cos((after - 1) * x) / math.sin(x)
    return risen + schedule.final * after + (1 - schedule.final) * 0.5 * (after + cosines)


def _warmup(schedule: Schedule) -> int:
    return 0 if schedule.kind == "constant" else schedule.warmup


def _fall(schedule: Schedule, steps: int) -> int:
    """Number of updates from the cosine's first value to its last."""
    return max(steps - schedule.warmup - 1, 1)
