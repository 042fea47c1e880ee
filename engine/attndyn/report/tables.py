"""Tables of the report as plain text cells."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
import xarray as xr

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


@dataclass(frozen=True)
class StageRow:
    """A boundary over the replicas, ready to print.

    Attributes:
        name: what it is called.
        meaning: what happens there.
        median: median step over the replicas that have it.
        time: the time of that step; empty where the run has none.
        band: 10th to 90th percentile.
        share: in how many of the replicas it is found.
        replicas: the step in each of the first `MAX_REPLICAS`.
    """

    name: str
    meaning: str
    median: str
    time: str
    band: str
    share: str
    replicas: list[str]


def stage_rows(stages: xr.Dataset) -> list[StageRow]:
    """A row for every boundary that the `stages` analyzer reports, of the first layer and head."""
    one = stages.isel(layer=0, head=0)
    count = one.sizes["replica"]
    tokens = one["token_at_rank"].isel(replica=0).values.tolist()
    rows = []
    for label in one["boundary"]["boundary"].values.tolist():
        at = one.sel(boundary=label)
        values = at["boundary_step"].values
        present = int(np.isfinite(values).sum())
        p10, p90 = _step(at["boundary_p10"]), _step(at["boundary_p90"])
        rows.append(
            StageRow(
                name=label.replace("_", " "),
                meaning=_meaning(label, tokens),
                median=_step(at["boundary_median"]),
                time=_time(stages, float(at["boundary_median"])),
                band=f"{p10} – {p90}" if present > 1 else "",
                share=f"{present} of {count}",
                replicas=[_step(value) for value in values[:MAX_REPLICAS]],
            )
        )
    return rows


def stage_summary(stages: xr.Dataset) -> list[str]:
    """Sentences on the order of the stages and on how deep focus and dilution go."""
    one = stages.isel(layer=0, head=0)
    order = one["in_order"].values.astype(bool)
    sentences = [f"Replicas in which all stages come, one after another: {order.sum()} of {order.size}."]
    for name in ("focus_depth", "dilution_depth"):
        depth = one[name].values
        depth = depth[np.isfinite(depth)]
        if len(depth):
            spread = f" ({depth.min():.3g} to {depth.max():.3g})" if len(depth) > 1 else ""
            what = one[name].attrs["long_name"]
            sentences.append(
                f"{name.replace('_', ' ').capitalize()}, the {what}: {np.median(depth):.3g}{spread}."
            )
    return sentences


def replica_names(root: xr.Dataset) -> list[str]:
    """The names of the first `MAX_REPLICAS` replicas."""
    return [replica_name(root, number) for number in range(min(root.sizes["replica"], MAX_REPLICAS))]


def replica_name(root: xr.Dataset, number: int) -> str:
    """A replica as its seed and the values that vary."""
    varied = [
        str(name)
        for name, array in root.coords.items()
        if array.dims == ("replica",) and name not in ("replica", "seed")
    ]
    values = [f"{name} {_value(root[name].values[number])}" for name in varied]
    return ", ".join([f"seed {int(root['seed'].values[number])}", *values])


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


def _value(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float | np.floating) else str(value)


def _listed(seeds: Iterable[int]) -> str:
    texts = [str(int(seed)) for seed in seeds]
    more = f", … ({len(texts)} replicas)" if len(texts) > MAX_REPLICAS else ""
    return ", ".join(texts[:MAX_REPLICAS]) + more
