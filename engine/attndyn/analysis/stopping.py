"""Early stopping: where a patience rule on the loss would end a training."""

from __future__ import annotations

from math import isfinite

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def diverged(loss: Array, max_loss: float = float("inf")) -> bool:
    """Whether a loss (record,) in nats was ever not finite, or above `max_loss`, where a run is given up."""
    return not bool((loss <= max_loss).all() and np.isfinite(loss).all())


def stopping_step(steps: Array, loss: Array, patience: float, min_delta: float, memory: float) -> float:
    """Step at which training would be stopped; NaN if it would not be, or if the loss diverges first.

    The rule keeps the best value so far of a running mean of the loss. A mean lower than the best by more
    than `min_delta` is an improvement; after `patience` steps without one training stops.

    Args:
        steps: increasing steps (record,).
        loss: in nats (record,).
        patience: in steps.
        min_delta: in nats.
        memory: of the running mean, in steps: the weight of a record falls by a factor e over it; 0: none.
    """
    mean, best, best_step, before = float("nan"), float("inf"), 0.0, 0.0
    for step, value in zip(steps.tolist(), loss.tolist(), strict=True):
        if not isfinite(value):
            return float("nan")
        keep = float(np.exp(-(step - before) / memory)) if memory and isfinite(mean) else 0.0
        mean = keep * mean + (1 - keep) * value if keep else value
        before = step
        if mean < best - min_delta:
            best, best_step = mean, step
        elif step - best_step >= patience:
            return float(step)
    return float("nan")
