"""Which replicas repeat one another: those of one setting differ in nothing but their seed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

#: label of the only setting of a run that varies nothing
ALL = "all"
VARIED = "varied: "  # how the long name of a varied scalar's coordinate begins


class Setting(NamedTuple):
    """One combination of varied values; `replicas` are the indices of the replicas that have it."""

    label: str
    replicas: tuple[int, ...]


def settings(trajectory: xr.DataTree) -> list[Setting]:
    """The settings of a trajectory in the order of their first replicas; one, `ALL`, if nothing varies.

    Replicas belong together if all varied scalars, π and the transition matrix are equal. A scalar is named
    with its value (`lr 0.03`); a π or a transition matrix that varies as a whole is numbered (`pi 2`).
    """
    labels = _setting_labels(trajectory.dataset)
    found: dict[str, list[int]] = {}
    for replica, label in enumerate(labels):
        found.setdefault(label, []).append(replica)
    return [Setting(label, tuple(replicas)) for label, replicas in found.items()]


def replica_names(trajectory: xr.DataTree) -> list[str]:
    """Every replica as its seed and its setting: `seed 0, lr 0.03`."""
    root = trajectory.dataset
    seeds = [f"seed {seed}" for seed in root["seed"].values] if "seed" in root.coords else []
    names = seeds or [f"replica {number}" for number in range(root.sizes["replica"])]
    labels = _setting_labels(root)
    return [name if label == ALL else f"{name}, {label}" for name, label in zip(names, labels, strict=True)]


def of_replicas(trajectory: xr.DataTree, replicas: Sequence[int]) -> xr.DataTree:
    """The trajectory of these replicas alone; its arrays are still read only when used."""
    groups = {path: node.to_dataset(inherit=False) for path, node in trajectory.subtree_with_keys}
    return xr.DataTree.from_dict({path: select(group, replicas) for path, group in groups.items()})


def select(result: xr.Dataset, replicas: Sequence[int], setting: int | None = None) -> xr.Dataset:
    """A dataset of these replicas alone, and of their setting alone where it has a dimension `setting`."""
    if setting is not None and "setting" in result.dims:
        result = result.isel(setting=[setting])
    return result.isel(replica=list(replicas)) if "replica" in result.dims else result


def surviving(curves: xr.DataArray) -> int:
    """Index of the first replica whose last record is not all NaN; if none is, of the one that ends last.

    Args:
        curves: `replica`, `step` and any other dimensions.
    """
    others = [dim for dim in curves.dims if dim not in ("replica", "step")]
    finite = curves.notnull().any(others).transpose("replica", "step").values
    lengths = finite.shape[1] - finite[:, ::-1].argmax(axis=1)
    return int(np.where(finite.any(axis=1), lengths, 0).argmax()) if finite.size else 0


def _setting_labels(root: xr.Dataset) -> list[str]:
    """The label of every replica's setting."""
    count = root.sizes["replica"]
    parts: list[list[str]] = [[] for _ in range(count)]
    for name, array in root.coords.items():
        if str(array.attrs.get("long_name", "")).startswith(VARIED):
            for part, value in zip(parts, _texts(array.values.tolist()), strict=True):
                part.append(f"{name} {value}")
    for name in ("pi", "transition"):
        if name in root.coords:
            numbers = _numbers(row.tobytes() for row in root[name].transpose("replica", ...).values)
            told = [(*part, number) for part, number in zip(parts, numbers, strict=True)]
            if len(set(told)) > len(set(map(tuple, parts))):  # it tells apart what nothing before it did
                for part, number in zip(parts, numbers, strict=True):
                    part.append(f"{name} {number}")
    return [", ".join(part) or ALL for part in parts]


def _numbers(rows: Iterable[bytes]) -> list[int]:
    """Equal rows numbered alike, from 1, in the order in which they first come."""
    seen: dict[bytes, int] = {}
    return [seen.setdefault(row, len(seen) + 1) for row in rows]


def _texts(values: list[Any]) -> list[str]:
    """Values in four digits, or in all that they have where four do not tell them apart."""
    short = [f"{value:.4g}" if isinstance(value, float) else str(value) for value in values]
    return short if len(set(short)) == len(set(values)) else [str(value) for value in values]
