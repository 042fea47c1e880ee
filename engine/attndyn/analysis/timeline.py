"""From boundaries to stages: which stage a step belongs to, spans for figures, the stage of a run so far.

The stage at a step is the furthest one that has begun by then. A stage that never begins is passed over.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from attndyn.analysis.series import Array
from attndyn.analysis.stages import Detection, Signals, StageOptions, detect

MAIN_BOUNDARIES = ("condensation_end", "collapse_end", "focus_onset", "focus_peak", "dilution_onset")


def boundaries(found: Detection) -> dict[str, float]:
    """All boundaries of one replica and head by label; steps, NaN where absent."""
    cycle = found.cycles[0]
    return {
        "rank_one": found.rank_one,
        "condensation_end": found.condensation_end,
        "collapse_end": found.collapse_end,
        "focus_onset": cycle.rise_onset,
        "focus_peak": cycle.peak,
        "dilution_onset": cycle.fall_onset,
        "dilution_end": cycle.fall_end,
        "new_direction": found.new_direction,
        **{f"direction_{k}": direction.step for k, direction in enumerate(found.directions)},
    }


def in_order(steps: Mapping[str, float]) -> bool:
    """Whether the main boundaries are all there and in their order, tokens 1, 2, ... opening after them.

    Of the tokens, those that have opened must be the first ones, in order, and one at least (if any can).
    """
    tokens = [step for label, step in steps.items() if _token(label)]
    opened = tokens[: int(np.isfinite(tokens).sum())]
    line = [steps[label] for label in MAIN_BOUNDARIES] + opened
    return bool((opened or not tokens) and np.isfinite(line).all() and (np.diff(line) >= 0).all())


def stage_starts(steps: Mapping[str, float], first: float) -> list[tuple[str, float]]:
    """(label, step at which it begins) of the stages that are there, from first to furthest.

    Args:
        steps: boundaries by label.
        first: step at which the record, and with it condensation if anything condenses, begins.
    """
    starts = [
        ("condensation", first if np.isfinite(steps["rank_one"]) else float("nan")),
        ("collapse", steps["condensation_end"]),
        ("plateau", steps["collapse_end"]),
        ("focus", steps["focus_onset"]),
        ("dilution", steps["dilution_onset"]),
        *((f"token {_token(label)}", step) for label, step in steps.items() if _token(label)),
    ]
    return [(label, step) for label, step in starts if np.isfinite(step)]


def stage_labels(steps: Mapping[str, float], at: Array) -> NDArray[np.str_]:
    """The stage at each of the steps `at`, shape as `at`; empty where none is known."""
    labels = np.full(at.shape, "", dtype=object)
    for label, start in stage_starts(steps, float(at[0]) if len(at) else 0.0):
        labels[at >= start] = label
    return labels.astype(str)


def stage_spans(result: xr.Dataset, layer: int = 0, head: int = 0) -> list[tuple[str, float, float]]:
    """(label, start, end) in steps of every stage, from the medians over replicas; for shading figures.

    Args:
        result: what the `stages` analyzer returns.
        layer: index of the layer.
        head: index of the head.

    A boundary counts if at least half of the replicas have it.
    """
    medians = result["boundary_median"].isel(layer=layer, head=head)
    common = result["boundary_share"].isel(layer=layer, head=head) >= 0.5
    steps = dict(zip(medians["boundary"].values.tolist(), medians.where(common).values.tolist(), strict=True))
    record = result["step"].values
    return _spans(steps, float(record[0]), float(record[-1])) if len(record) else []


def _spans(steps: Mapping[str, float], first: float, last: float) -> list[tuple[str, float, float]]:
    spans, end = [], last
    for label, start in reversed(stage_starts(steps, first)):
        if start < end:
            spans.append((label, start, end))
            end = start
    return spans[::-1]


def replica_spans(
    result: xr.Dataset, replica: int, layer: int = 0, head: int = 0
) -> list[tuple[str, float, float]]:
    """The same for one replica alone, from its own boundaries."""
    found = result["boundary_step"].isel(replica=replica, layer=layer, head=head)
    steps = dict(zip(found["boundary"].values.tolist(), found.values.tolist(), strict=True))
    record = result["step"].values
    return _spans(steps, float(record[0]), float(record[-1])) if len(record) else []


def current_stage(signals: Signals, options: StageOptions | None = None) -> str:
    """The stage that a run has reached, from its history so far: a few words for a progress bar.

    Before anything is confirmed that is `condensation`. A boundary of the weights counts once half of the
    `hold` of the options has passed, so that the label does not flicker; it follows them late.
    """
    options = (options or StageOptions()).model_copy(update={"seen": 0.5})
    starts = stage_starts(boundaries(detect(signals, options)), 0.0)
    return starts[-1][0] if starts else "condensation"


def _token(label: str) -> int:
    """k of `direction_k`, and 0 for any other label; token 0 opens no stage of its own (docs/stages.md)."""
    word, _, number = label.rpartition("_")
    return int(number) if word == "direction" else 0
