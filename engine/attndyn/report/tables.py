"""Tables of the report as plain text cells."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import pairwise
from typing import Any

import numpy as np
import xarray as xr

from attndyn.analysis.timeline import (
    boundary_name,
    order_faults,
    overtaken,
    replica_boundaries,
    representative,
    stage_names,
)
from attndyn.report.snapshots import has_time

MAX_REPLICAS = 24
ABSENT = "absent"
LIBRARIES = ("numpy", "scipy", "xarray")
RECORDED = ("attndyn_version", "backend", "dtype", "representation", "spec_sha256", "created")
MEANINGS = {
    "rank_one": "W_0 and W_1 have become rank one",
    "condensation_end": "W_0 and W_1 are rank one and have grown to their plateau",
    "collapse_end": "W_Q and W_K have become rank one",
    "focus_onset": "attention to the most frequent token begins to rise, for every query",
    "focus_peak": "that attention is at its highest",
    "dilution_onset": "that attention begins to fall",
    "dilution_end": "that attention has fallen",
    "new_direction": "W_0 leaves its first direction",
}


COARSE = 0.25  # a probe interval this long, in distances to the next boundary, is worth a word


@dataclass(frozen=True)
class Cell:
    """A boundary over the replicas of one setting, ready to print.

    Attributes:
        median: median step over the replicas that have it.
        time: the time of that step; empty where the run has none.
        band: 10th to 90th percentile; empty for fewer than two replicas.
        share: in how many of the replicas it is found.
        resolution: the probe interval in which it lies, the longest of the replicas.
        note: in how many replicas it is out of order; empty if in none.
    """

    median: str
    time: str
    band: str
    share: str
    resolution: str
    note: str


@dataclass(frozen=True)
class StageRow:
    """A boundary: what it is called, what happens there, and a cell for every setting."""

    name: str
    meaning: str
    cells: list[Cell]


@dataclass(frozen=True)
class ReplicaRow:
    """A replica: its seed and setting, the step of every boundary, and what is wrong with their order."""

    name: str
    steps: list[str]
    faults: str


def stage_rows(stages: xr.Dataset) -> list[StageRow]:
    """A row for every boundary that the `stages` analyzer reports, of the first layer and head."""
    one = stages.isel(layer=0, head=0)
    tokens, parts = _tokens(one), _by_setting(one)
    return [
        StageRow(
            boundary_name(label, tokens), _meaning(label, tokens), [_cell(label, part) for part in parts]
        )
        for label in one["boundary"].values.tolist()
    ]


def _cell(label: str, part: xr.Dataset) -> Cell:
    """The cell of one boundary and the only setting of `part`."""
    at = part.sel(boundary=label).isel(setting=0)
    present = int(np.isfinite(at["boundary_step"].values).sum())
    p10, p90 = _step(at["boundary_p10"]), _step(at["boundary_p90"])
    late = sum(label in overtaken(boundaries) for boundaries in _boundaries(part))
    return Cell(
        median=_step(at["boundary_median"]),
        time=_time(part, float(at["boundary_median"])),
        band=f"{p10} – {p90}" if present > 1 else "",
        share=f"{present} of {part.sizes['replica']}",
        resolution=f"± {_resolution(at):.4g}" if present else "",
        note=f"out of order in {late} of {present}" if late else "",
    )


def replica_rows(stages: xr.Dataset, names: Sequence[str]) -> list[ReplicaRow]:
    """A row for every replica, of the first layer and head and the first `MAX_REPLICAS`."""
    one = stages.isel(layer=0, head=0)
    return [
        ReplicaRow(
            names[number], [_step(value) for value in boundaries.values()], "; ".join(faults) or "none"
        )
        for number, (boundaries, faults) in enumerate(zip(_boundaries(one), _faults(one), strict=True))
    ][:MAX_REPLICAS]


def stage_summary(stages: xr.Dataset) -> list[list[str]]:
    """For every setting, sentences on the order of its stages and on how deep focus and dilution go."""
    return [_order(part) + _depths(part) for part in _by_setting(stages.isel(layer=0, head=0))]


def _order(part: xr.Dataset) -> list[str]:
    faults = _faults(part)
    sound = sum(not of_replica for of_replica in faults)
    sentences = [f"Replicas in which all stages come, one after another: {sound} of {len(faults)}."]
    counted = Counter(fault for of_replica in faults for fault in of_replica)
    if counted:
        listed = ", ".join(f"{fault} ({count} of {len(faults)})" for fault, count in counted.most_common())
        sentences.append(f"What keeps the others from it: {listed}.")
    return sentences


def _depths(part: xr.Dataset) -> list[str]:
    sentences = []
    for name in ("focus_depth", "dilution_depth"):
        depth = part[name].values
        depth = depth[np.isfinite(depth)]
        if len(depth):
            spread = f" ({depth.min():.3g} to {depth.max():.3g})" if len(depth) > 1 else ""
            what = part[name].attrs["long_name"]
            sentences.append(
                f"{name.replace('_', ' ').capitalize()}, the {what}: {np.median(depth):.3g}{spread}."
            )
    return sentences


def coarse_boundaries(stages: xr.Dataset) -> list[str]:
    """Boundaries whose probe interval is long beside the distance to the next one, in words, each once.

    By the steps of one replica a setting, the representative one; of the first layer and head.
    """
    found: dict[str, None] = {}
    of_replica, one = stages["replica_setting"].values, stages.isel(layer=0, head=0)
    for label in stages["setting"].values:
        replica = representative(stages, np.flatnonzero(of_replica == label).tolist())
        steps, tokens = one.isel(replica=replica), _tokens(one.isel(replica=[replica]))
        intervals = steps["boundary_resolution"].to_series()
        at = steps["boundary_step"].to_series().dropna().sort_values()
        for (name, step), (after, following) in pairwise(at.items()):
            if intervals[name] > COARSE * (following - step):
                between = f"{boundary_name(str(name), tokens)} and {boundary_name(str(after), tokens)}"
                found.setdefault(f"{between} ({following - step:.3g} apart, ± {intervals[name]:.4g})")
    return list(found)


def _by_setting(one: xr.Dataset) -> list[xr.Dataset]:
    """The stages of one layer and head, setting by setting."""
    of_replica = one["replica_setting"].values
    labels = one["setting"].values.tolist()
    return [one.isel(setting=[k], replica=of_replica == label) for k, label in enumerate(labels)]


def _boundaries(one: xr.Dataset) -> list[dict[str, float]]:
    return [replica_boundaries(one.isel(replica=number)) for number in range(one.sizes["replica"])]


def _faults(one: xr.Dataset) -> list[list[str]]:
    ranked = one["token_at_rank"].transpose("replica", "rank").values.tolist()
    return [order_faults(steps, tokens) for steps, tokens in zip(_boundaries(one), ranked, strict=True)]


def _tokens(one: xr.Dataset) -> list[str]:
    """The tokens by rank; where the replicas rank them differently, the ranks."""
    named = stage_names(one).values()
    return [name.removeprefix("token ") for name in named]


def _resolution(at: xr.Dataset) -> float:
    """The longest probe interval that a boundary lies in, over the replicas of a setting that have it."""
    return float(np.nanmax(at["boundary_resolution"].values))


def provenance(attrs: Mapping[str, Any], seeds: Iterable[int]) -> dict[str, str]:
    """Where the numbers come from: what the trajectory says, and what made the report from it."""
    recorded = {name.replace("_", " "): str(attrs.get(name, "unknown")) for name in RECORDED}
    made = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    libraries = {name: version(name) for name in LIBRARIES}
    return recorded | {"seeds": _listed(seeds), "report made with": made} | libraries


def variables(result: xr.Dataset) -> list[tuple[str, str, str, str]]:
    """(name, dimensions, units, long name) of every variable of an analysis."""
    return [
        (
            str(name),
            ", ".join(map(str, array.dims)),
            str(array.attrs.get("units", "1")),
            str(array.attrs.get("long_name", "")),
        )
        for name, array in result.data_vars.items()
    ]


def _meaning(label: str, tokens: list[Any]) -> str:
    rank = label.removeprefix("direction_")
    if rank == label or not rank.isdigit() or int(rank) >= len(tokens):
        return MEANINGS.get(label, "")
    return f"the embedding of token {tokens[int(rank)]} parts from those of rarer tokens"


def _step(value: Any) -> str:
    return f"{float(value):.0f}" if np.isfinite(value) else ABSENT


def _time(stages: xr.Dataset, step: float) -> str:
    if not has_time(stages) or not np.isfinite(step):
        return ""
    return f"{np.interp(step, stages['step'].values, stages['time'].values):.4g}"


def _listed(seeds: Iterable[int]) -> str:
    texts = [str(int(seed)) for seed in seeds]
    more = f", … ({len(texts)} replicas)" if len(texts) > MAX_REPLICAS else ""
    return ", ".join(texts[:MAX_REPLICAS]) + more
