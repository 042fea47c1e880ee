"""Retractions of a norm: falls from a peak it had grown to, found in one curve over training."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from pydantic import Field

from attndyn.analysis.records import group, over_steps
from attndyn.analysis.series import (
    first_crossing,
    last_crossing,
    noise_level,
    turning_points,
    until_divergence,
)
from attndyn.analysis.spectra import row_norms
from attndyn.spec.base import AnalyzerOptions

Array = NDArray[np.float64]

ONSET = 0.1
REGROWN = 0.5
GROWN = 0.5

#: probes that record norms of embeddings, that which costs less first
NORMS = ("norms", "parameters")

#: records below which nothing is said of a retraction: a rise, a fall, and what comes after
FEWEST = 4


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


class Deepest(NamedTuple):
    """The deepest retraction of a curve; steps NaN where not reached, all NaN where nothing can be told.

    Attributes:
        depth: 1 - trough/peak; 0 if no fall stands out.
        growth: where the norm first has half of the peak that it falls from.
        start: where a tenth of the loss has happened.
        trough: of the smallest norm.
        recovery: where half of the loss is regained.
        relative_start: start/growth.
        records: how many lie in the fall, from `start` to the trough, or to the last.
    """

    depth: float = np.nan
    growth: float = np.nan
    start: float = np.nan
    trough: float = np.nan
    recovery: float = np.nan
    relative_start: float = np.nan
    records: float = np.nan


def deepest(steps: Array, norms: Array, options: RetractionOptions) -> Deepest:
    """The deepest retraction of a recorded curve (record,), until it diverges."""
    until, finite = until_divergence(steps, norms)
    if len(until) < FEWEST:
        return Deepest()
    events = find_retractions(until, finite, options.min_depth, options.noise_factor)
    if not events:  # of one that diverged it is not known what would have come
        return Deepest() if len(until) < len(norms) else Deepest(depth=0.0)
    event = max(events, key=lambda event: event.depth)
    growth = first_crossing(until, finite, GROWN * event.peak_norm)
    fall = (until >= event.retraction_start) & ~(until > event.trough_step)
    timing = (event.retraction_start, event.trough_step, event.regrowth_step)
    return Deepest(event.depth, growth, *timing, event.retraction_start / growth, float(fall.sum()))


def embedding_norms(trajectory: xr.DataTree) -> xr.DataArray:
    """Norms of the rows of W_0 (replica, token, step), float64, from what `norms_group` takes."""
    found = norms_group(trajectory)
    if "embedding_norm" in found:
        norms = found["embedding_norm"].astype(np.float64)
    else:
        norms = over_steps(lambda block: xr.Dataset({"norm": row_norms(block)}), found["W_0"])["norm"]
    return norms.transpose("replica", "token", "step")


def norms_group(trajectory: xr.DataTree) -> xr.Dataset:
    """What the first of the probes `NORMS` that was recorded has recorded."""
    return group(trajectory, next(name for name in NORMS if name in trajectory.children))


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
