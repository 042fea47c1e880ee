"""Retractions of a norm: falls from a peak it had grown to, found in one curve over training."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from attndyn.analysis.series import (
    first_crossing,
    last_crossing,
    noise_level,
    turning_points,
    until_divergence,
)
from attndyn.spec.base import AnalyzerOptions

Array = NDArray[np.float64]

ONSET = 0.1
REGROWN = 0.5


class RetractionOptions(AnalyzerOptions):
    """What counts as a retraction: a fall that stands out against the peak and above the noise."""

    min_depth: float = Field(default=0.1, gt=0, lt=1, description="smallest fall, relative to the peak")
    noise_factor: float = Field(
        default=6.0, ge=0, description="added to the smallest fall, in standard deviations of the noise"
    )


class Event(NamedTuple):
    """One retraction of a norm: steps (NaN where not reached before the end) and sizes."""

    retraction_start: float
    trough_step: float
    regrowth_step: float
    peak_norm: float
    trough_norm: float
    depth: float


EVENT = {
    "retraction_start": ("step at which a tenth of the loss has happened", "step"),
    "trough_step": ("step of the smallest norm", "step"),
    "regrowth_step": ("step at which half of the loss is regained", "step"),
    "peak_norm": ("embedding norm before the retraction", "1"),
    "trough_norm": ("smallest embedding norm of the retraction", "1"),
    "depth": ("loss of embedding norm relative to the preceding peak", "1"),
}


def find_retractions(steps: Array, norms: Array, min_depth: float, noise_factor: float) -> list[Event]:
    """The retractions of a recorded curve (record,), up to its first value that is not finite.

    Args:
        steps: training steps (record,).
        norms: norms (record,).
        min_depth: smallest fall, relative to the peak.
        noise_factor: added to the smallest fall, in standard deviations of the curve's noise.
    """
    steps, norms = until_divergence(steps, norms)
    return retractions(steps, norms, min_depth, noise_factor * noise_level(steps, norms))


def retractions(steps: Array, norms: Array, min_depth: float, noise: float) -> list[Event]:
    """Falls of a finite curve (record,) from a peak by at least `min_depth` · peak + `noise`, in order.

    A fall from the first record on, as of large initial weights, is none: there was no growth before it.
    """
    # on this scale a relative and an absolute threshold together are one constant reversal
    offset = max(noise / min_depth, np.finfo(np.float64).tiny)
    turns = turning_points(steps, np.log(norms + offset), -np.log1p(-min_depth))
    peaks = [turn.step for number, turn in enumerate(turns) if turn.kind == "max" and number > 0]
    ends = [*peaks[1:], steps[-1]] if peaks else []
    events = []
    for peak, end in zip(peaks, ends, strict=True):
        within = (steps >= peak) & (steps <= end)
        t, y = steps[within], norms[within]
        lowest = int(y.argmin())
        loss = y[0] - y[lowest]
        fall, rise = slice(lowest + 1), slice(lowest, None)
        events.append(
            Event(
                retraction_start=last_crossing(t[fall], -y[fall], ONSET * loss - y[0]),
                trough_step=np.nan if peak == turns[-1].step else float(t[lowest]),
                regrowth_step=first_crossing(t[rise], y[rise], y[0] - REGROWN * loss),
                peak_norm=float(y[0]),
                trough_norm=float(y[lowest]),
                depth=float(loss / y[0]),
            )
        )
    return events
