"""From boundaries to stages: which stage a step belongs to, spans for figures, the stage of a run so far.

The stage at a step is the furthest one that has begun by then. A stage that never begins is passed over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from attndyn.analysis.series import Array, band
from attndyn.analysis.stages import Detection, Signals, StageOptions, detect

MAIN_BOUNDARIES = ("condensation_end", "collapse_end", "focus_onset", "focus_peak", "dilution_onset")
#: those that are read from the attention probe; all others are from the parameters
OF_ATTENTION = ("focus_onset", "focus_peak", "dilution_onset", "dilution_end")


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


def order_faults(steps: Mapping[str, float], tokens: Sequence[Any] = ()) -> list[str]:
    """What keeps the stages from being all there and in order, in words; empty if nothing does.

    The main boundaries must follow one another, tokens 1, 2, ... opening after them: at least token 1, and of
    the others none before the one of next lower rank.

    Args:
        steps: boundaries by label.
        tokens: labels of the tokens by rank, to name them by.
    """
    directions = [label for label in steps if _token(label)]
    opened = [number for number, label in enumerate(directions, start=1) if np.isfinite(steps[label])]
    line = [*MAIN_BOUNDARIES, *directions[: max([*opened, 1])]]
    missing = [f"{boundary_name(label, tokens)} not seen" for label in line if not np.isfinite(steps[label])]
    seen = [label for label in line if np.isfinite(steps[label])]
    reversed_ = [
        f"{boundary_name(later, tokens)} before {boundary_name(earlier, tokens)}"
        for earlier, later in pairwise(seen)
        if steps[later] < steps[earlier]
    ]
    return missing + reversed_


def in_order(steps: Mapping[str, float]) -> bool:
    """Whether the main boundaries are all there and in their order, tokens 1, 2, ... opening after them."""
    return not order_faults(steps)


def overtaken(steps: Mapping[str, float]) -> list[str]:
    """The directions, from token 1's on, that open after that of a token of higher rank: out of order."""
    directions = [label for label in steps if _token(label)]
    opened = [steps[label] if np.isfinite(steps[label]) else np.inf for label in directions]
    first_later = [min(opened[k + 1 :], default=np.inf) for k in range(len(opened))]
    return [label for label, later in zip(directions, first_later, strict=True) if later < steps[label]]


def boundary_name(label: str, tokens: Sequence[Any] = ()) -> str:
    """A boundary in words: `focus onset`, and `direction of the` for `direction_1` if that is its token."""
    rank = label.removeprefix("direction_")
    if rank.isdigit() and int(rank) < len(tokens):
        return f"direction of token {tokens[int(rank)]}"
    return label.replace("_", " ")


def stage_names(result: xr.Dataset) -> dict[str, str]:
    """The stages of tokens by the tokens' own labels: `token 1` is `token the` where that is its label.

    Where replicas rank the tokens differently, `token 1` is the `token of rank 1`.
    """
    ranked = result["token_at_rank"].transpose("rank", "replica").values
    return {
        f"token {rank}": f"token {labels[0]}" if len(set(labels.tolist())) == 1 else f"token of rank {rank}"
        for rank, labels in enumerate(ranked)
    }


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


def representative(result: xr.Dataset, replicas: Sequence[int], layer: int = 0, head: int = 0) -> int:
    """The replica whose boundaries are closest to the medians over `replicas`, which may be one setting's.

    Medians of different boundaries can be over different replicas, and then contradict one another; one
    replica's boundaries cannot. It is the one that agrees with most of the others on which boundaries are
    there, and of these the one with the smallest mean distance from the medians relative to them; of equals
    the first.
    """
    found = result["boundary_step"].isel(layer=layer, head=head, replica=list(replicas))
    steps = found.transpose("replica", "boundary").values
    present = np.isfinite(steps)
    common = present.mean(axis=0) >= 0.5
    unlike = (present != common).sum(axis=1)
    medians = band(steps).median
    far = np.abs(steps - medians) / np.maximum(medians, 1)
    shared = present & common
    distance = np.where(shared, far, 0).sum(axis=1) / np.maximum(shared.sum(axis=1), 1)
    return int(replicas[int(np.lexsort((distance, unlike))[0])])


def replica_spans(
    result: xr.Dataset, replica: int, layer: int = 0, head: int = 0
) -> list[tuple[str, float, float]]:
    """(label, start, end) in steps of every stage of one replica, from its own boundaries.

    Args:
        result: what the `stages` analyzer returns.
        replica: index of the replica.
        layer: index of the layer.
        head: index of the head.
    """
    record = result["step"].values
    steps = replica_boundaries(result.isel(replica=replica, layer=layer, head=head))
    return _spans(steps, float(record[0]), float(record[-1])) if len(record) else []


def replica_boundaries(one: xr.Dataset) -> dict[str, float]:
    """Boundaries by label of what the `stages` analyzer returns for one replica, layer and head."""
    found = one["boundary_step"]
    return dict(zip(found["boundary"].values.tolist(), found.values.tolist(), strict=True))


def _spans(steps: Mapping[str, float], first: float, last: float) -> list[tuple[str, float, float]]:
    spans, end = [], last
    for label, start in reversed(stage_starts(steps, first)):
        if start < end:
            spans.append((label, start, end))
            end = start
    return spans[::-1]


def current_stage(signals: Signals, options: StageOptions | None = None) -> str:
    """The stage that a run has reached, from its history so far: a few words for a progress bar.

    Before anything is confirmed that is `condensation`. A boundary of the weights counts once half of the
    `hold` of the options has passed, so that the label does not flicker; it follows them late.
    """
    options = (options or StageOptions()).model_copy(update={"seen": 0.5})
    starts = stage_starts(boundaries(detect(signals, options)), 0.0)
    return starts[-1][0] if starts else "condensation"


def opens_later_token(label: str) -> bool:
    """Whether a boundary opens the stage of a token: `direction_1`, `direction_2`, …."""
    return _token(label) > 0


def _token(label: str) -> int:
    """k of `direction_k`, and 0 for any other label; token 0 opens no stage of its own (docs/stages.md)."""
    word, _, number = label.rpartition("_")
    return int(number) if word == "direction" else 0
