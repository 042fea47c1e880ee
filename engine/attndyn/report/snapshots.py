"""Which states of a run stand for its stages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

MAX_SNAPSHOTS, EVEN_SNAPSHOTS = 8, 6


class Snapshot(NamedTuple):
    """A recorded step that stands for a stage; the label is empty where no stage is known."""

    label: str
    step: int


def choose_snapshots(
    spans: Sequence[tuple[str, float, float]], steps: NDArray[np.integer], limit: int = MAX_SNAPSHOTS
) -> list[Snapshot]:
    """The first state, and that at the end of every stage, where its work is done.

    Without stages: states evenly spread over the record.

    Args:
        spans: (label, start, end) in steps, in order.
        steps: the steps on record, ascending, shape (record,).
        limit: at most so many; of more stages, the last ones before the end are passed over.

    A stage too short to have a record of its own is passed over as well.
    """
    if not len(steps):
        return []
    if not spans:
        goals = np.linspace(0, len(steps) - 1, min(EVEN_SNAPSHOTS, limit, len(steps))).round().astype(int)
        return [Snapshot("", int(steps[goal])) for goal in goals]
    ends = steps[nearest(steps, [end for _, _, end in spans])]
    latest = {int(steps[0]): ""} | {int(step): span[0] for span, step in zip(spans, ends, strict=True)}
    found = [Snapshot(label, step) for step, label in latest.items()]
    return found if len(found) <= limit else [*found[: limit - 1], found[-1]]


def nearest(steps: NDArray[np.integer], wanted: Sequence[float]) -> NDArray[np.intp]:
    """For each step wanted, the number of the record nearest to it; of two as near, the earlier one."""
    return np.abs(steps[:, None] - np.asarray(wanted, dtype=float)).argmin(axis=0)


def has_time(data: xr.Dataset) -> bool:
    """Whether every step has one time, the same in all replicas."""
    return "time" in data.coords and data["time"].dims == ("step",)


def position(data: xr.Dataset, step: int) -> str:
    """A recorded step in the words of the time axis: `step 120`, or `t = 12` where the run has a time."""
    if has_time(data):
        return f"t = {float(data['time'].sel(step=step)):.4g}"
    return f"step {step}"
