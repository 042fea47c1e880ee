"""Runs that are compared: what each is called, and what is known of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import xarray as xr
import yaml

from attndyn import registry
from attndyn.analysis.ngrams import NAMES
from attndyn.analysis.records import frequencies
from attndyn.errors import AttndynError, RunError
from attndyn.report import style
from attndyn.report.names import cut
from attndyn.report.writer import Reportable
from attndyn.spec import Spec
from attndyn.spec.checks import alternatives

ANALYZERS = ("stages", "retraction", "norms", "attention_maps", "entropy")
MAX_RUNS = len(style.PALETTE)
#: parts of a spec that say nothing of what is simulated
APART = ("name", "description", "probes", "analyzers", "expect")
UNSET = "–"
#: spread of predictions in nats below which they are all alike
LEAST_SPREAD = 0.01
#: differences of specs in a label, and characters of each value
MAX_DIFFERENCES, MAX_VALUE = 3, 24


@dataclass(frozen=True)
class Compared:
    """A run among those compared.

    Attributes:
        run: the run.
        label: what it is called: its spec's name, and where several have that name what sets their specs
            apart, or its directory if nothing does.
        color: in all figures.
        results: by analyzer, of `ANALYZERS` those that its records allow.
        missing: why the others are not there, one line each.
    """

    run: Reportable
    label: str
    color: str
    results: dict[str, xr.Dataset]
    missing: list[str]

    @property
    def root(self) -> xr.Dataset:
        """Coordinates of the whole trajectory: tokens, frequencies, seeds."""
        return self.run.trajectory.to_dataset()

    @cached_property
    def curves(self) -> dict[str, xr.DataArray]:
        """Curves `(replica, step)` as far as recorded, means over layers and heads.

        `loss`, `focus` and `entropy`; `focus` is the attention to the most frequent token of all queries but
        that token itself, which would outweigh them. For texts: `held_out`, `ratio`, the attention to the
        most frequent token over what uniform attention gives, if that token is named, `entropy_of_places`,
        the KL of n-grams from the predictions, and `token_share`, NaN where all predictions are alike.
        """
        found, trajectory = {}, self.run.trajectory
        if "loss" in trajectory.children:
            found["loss"] = trajectory["loss"].to_dataset()["loss"]
        if "attention_maps" in self.results:
            focus = _of_other_queries(trajectory, self.results["attention_maps"])
            found["focus"] = focus.mean(["layer", "head"], skipna=False)
        if "entropy" in self.results:
            found["entropy"] = self.results["entropy"]["mean_entropy"].mean(["layer", "head"], skipna=False)
        found |= _of_text(trajectory)
        return {name: curve for name, curve in found.items() if bool(curve.notnull().any())}


def collect(runs: Sequence[Reportable]) -> list[Compared]:
    """The runs with their labels, colours and results; see `compare.write_comparison`."""
    if not 2 <= len(runs) <= MAX_RUNS:
        raise RunError(f"a comparison is of 2 to {MAX_RUNS} runs; given: {len(runs)}")
    given = Counter(run.directory.resolve() for run in runs)
    for directory, count in given.items():
        if count > 1:
            raise RunError(f"{directory}: given {count} times; a run is compared with others")
    labels = _labels(runs)
    return [
        Compared(run, label, style.color(number), *_results(run))
        for number, (run, label) in enumerate(zip(runs, labels, strict=True))
    ]


def differences(specs: Sequence[Spec]) -> list[tuple[str, list[str]]]:
    """The places in specs whose values are not the same in all, and the value of each, `UNSET` for none."""
    flat = [dict(_leaves(yaml.safe_load(spec.to_yaml()))) for spec in specs]
    rows = [
        (path, [spec.get(path, UNSET) for spec in flat])
        for path in dict.fromkeys(path for spec in flat for path in spec)
    ]
    return [(path, values) for path, values in rows if len(set(values)) > 1]


def _labels(runs: Sequence[Reportable]) -> list[str]:
    """See `Compared.label`."""
    labels = [run.spec.name for run in runs]
    for name in [name for name, count in Counter(labels).items() if count > 1]:
        alike = [number for number, run in enumerate(runs) if run.spec.name == name]
        for number, told in zip(alike, _told_apart([runs[number].spec for number in alike]), strict=True):
            labels[number] = f"{name} ({told})" if told else name
    # equal specs: by the directory, the whole of it where its name is the same, too
    for part in (lambda run: run.directory.name, lambda run: str(run.directory)):
        count = Counter(labels)
        labels = [
            f"{run.spec.name} ({part(run)})" if count[label] > 1 else label
            for run, label in zip(runs, labels, strict=True)
        ]
    return labels


def _told_apart(specs: Sequence[Spec]) -> list[str]:
    """For each spec a few values that the others have otherwise: `lr 0.02`."""
    rows = [row for row in differences(specs) if row[0].split(".")[0] not in APART][:MAX_DIFFERENCES]
    last = Counter(path.rpartition(".")[2] for path, _ in rows)
    names = [path if last[path.rpartition(".")[2]] > 1 else path.rpartition(".")[2] for path, _ in rows]
    return [
        ", ".join(
            f"{name} {cut(values[number], MAX_VALUE)}" for name, (_, values) in zip(names, rows, strict=True)
        )
        for number in range(len(specs))
    ]


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """(path, text) of everything in a spec that is not a mapping."""
    if not isinstance(value, dict) or not value:
        yield (
            path,
            value
            if isinstance(value, str)
            else yaml.safe_dump(value, default_flow_style=True).split("\n")[0],
        )
        return
    for key, inner in value.items():
        yield from _leaves(inner, f"{path}.{key}" if path else str(key))


def _of_text(trajectory: xr.DataTree) -> dict[str, xr.DataArray]:
    """What the probes for texts recorded, `(replica, step)` each."""
    found: dict[str, xr.DataArray] = {}
    if "held_out" in trajectory.children:
        found["held_out"] = trajectory["held_out"].to_dataset()["held_out_loss"]
    if "token_classes" in trajectory.children:
        classes = trajectory["token_classes"].to_dataset()
        top = _most_frequent(trajectory)
        if top in classes["named"].values.tolist():  # which tokens are named is up to the spec
            first = classes.sel(named=top)
            uniform = first["uniform_token"]
            found["ratio"] = first["attention_token"] / uniform.where(uniform > 0)
        found["entropy_of_places"] = classes["entropy"]
    if "predictions" in trajectory.children:
        predictions = trajectory["predictions"].to_dataset()
        found |= {f"kl_{name}": predictions[f"kl_{name}"] for name in NAMES}
        told = predictions["spread"] >= LEAST_SPREAD
        found["token_share"] = predictions["token_share"].where(told)
    return {
        name: curve.mean([dim for dim in ("layer", "head") if dim in curve.dims], skipna=False)
        for name, curve in found.items()
    }


def _most_frequent(trajectory: xr.DataTree) -> str:
    """Label of the token of the largest π, mean over the replicas."""
    root = trajectory.dataset
    return str(root["token"].values[root["pi"].transpose("replica", "token").values.mean(axis=0).argmax()])


def _of_other_queries(trajectory: xr.DataTree, maps: xr.Dataset) -> xr.DataArray:
    """Attention to the most frequent token, mean over the other queries weighted by π; NaN with no other."""
    weights = frequencies(trajectory, maps["query"].values, "query")
    weights = weights.where(maps["query"] != maps["top_token"], 0.0)
    total = weights.sum("query")
    return (maps["focus"] * weights).sum("query", skipna=False) / total.where(total > 0)


def _results(run: Reportable) -> tuple[dict[str, xr.Dataset], list[str]]:
    """Results as they were kept or made now, and why some could not be made, each reason once."""
    kept, recorded = run.analysis, run.trajectory.children
    found: dict[str, xr.Dataset] = {}
    missing: list[str] = []
    lacking: dict[str, list[str]] = {}
    for name in ANALYZERS:
        if name in kept:
            found[name] = kept[name]
            continue
        choices = [alternatives(each) for each in registry.get("analyzer", name).requires]
        absent = [" or ".join(map(repr, some)) for some in choices if not set(some) & set(recorded)]
        if absent:
            lacking.setdefault(" and ".join(absent), []).append(name)
            continue
        try:
            found[name] = run.analyzer(name).analyze(run.trajectory)
        except AttndynError as error:
            missing.append(str(error))
    return found, [*missing, *(f"no {', '.join(n)} without the probe {p}" for p, n in lacking.items())]
