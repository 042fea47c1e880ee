"""Learning-rate schedules: the factor on the learning rate at every step."""

from __future__ import annotations

import numpy as np

from attndyn.spec.base import Schedule


def factors(schedule: Schedule, steps: int) -> np.ndarray:
    """Factors `(steps,)` on the learning rate.

    The first `warmup` steps rise linearly and reach 1 on the last of them; `cosine` then falls along half a
    cosine and reaches `final` on the last step.
    """
    step = np.arange(steps, dtype=np.float64)
    factor = np.ones(steps)
    if schedule.kind == "cosine":
        length = max(steps - schedule.warmup - 1, 1)
        progress = np.clip((step - schedule.warmup) / length, 0.0, 1.0)
        factor = schedule.final + (1 - schedule.final) * 0.5 * (1 + np.cos(np.pi * progress))
    if schedule.kind != "constant" and schedule.warmup:
        factor = np.where(step < schedule.warmup, (step + 1) / schedule.warmup, factor)
    return factor
