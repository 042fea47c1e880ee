"""Which states of a run stand for its stages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

MAX_SNAPSHOTS = 7


class Snapshot(NamedTuple):
    """A recorded step that stands for a stage; the label is empty where no stage is known."""

    label: str
    step: int


def choose_snapshots(
    spans: Sequence[tuple[str, float, float]], steps: NDArray[np.integer], limit: int = MAX_SNAPSHOTS
) -> list[Snapshot]:
    """The state at the end of every stage, where its work is done; without stages, evenly spread states.

    Args:
        spans: (label, start, end) in steps, in order.
        steps: the steps on record, ascending, shape (record,).
        limit: at most so many; of more stages, the last ones before the end are passed over.

    A stage too short to have a record of its own is passed over.
    """
    if not len(steps):
        return []
    if not spans:
        goals = np.linspace(0, len(steps) - 1, min(limit - 1, len(steps))).round().astype(int)
        return [Snapshot("", int(steps[goal])) for goal in goals]
    ends = steps[nearest(steps, [end for _, _, end in spans])]
    latest = {int(step): label for (label, _, _), step in zip(spans, ends, strict=True)}
    found = [Snapshot(label, step) for step, label in latest.items()]
    return found if len(found) <= limit else [*found[: limit - 1], found[-1]]


def nearest(steps: NDArray[np.integer], wanted: Sequence[float]) -> NDArray[np.intp]:
    """For each step wanted, the number of the record nearest to it; of two as near, the earlier one."""
    return np.abs(steps[:, None] - np.asarray(wanted, dtype=float)).argmin(axis=0)


def position(data: xr.Dataset, step: int) -> str:
    """A recorded step in the words of the time axis: `step 120`, or `t = 12` where the run has a time."""
    if "time" in data.coords and data["time"].dims == ("step",):
        return f"t = {float(data['time'].sel(step=step)):.4g}"
    return f"step {step}"
