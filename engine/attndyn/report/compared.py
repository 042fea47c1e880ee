"""Runs that are compared: what each is called, and what is known of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import xarray as xr

from attndyn.analysis.records import frequencies
from attndyn.errors import AttndynError, RunError
from attndyn.report import style
from attndyn.report.writer import Reportable

ANALYZERS = ("stages", "retraction", "norms", "attention_maps", "entropy")
MAX_RUNS = len(style.PALETTE)


@dataclass(frozen=True)
class Compared:
    """A run among those compared.

    Attributes:
        run: the run.
        label: what it is called: its spec's name, and its directory's where several have that name.
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
        """`loss`, `focus` and `entropy` (replica, step) as far as recorded, means over layers and heads.

        `focus` is the attention to the most frequent token of all queries but that token itself, which would
        outweigh them.
        """
        found, trajectory = {}, self.run.trajectory
        if "loss" in trajectory.children:
            found["loss"] = trajectory["loss"].to_dataset()["loss"]
        if "attention_maps" in self.results:
            focus = _of_other_queries(trajectory, self.results["attention_maps"])
            found["focus"] = focus.mean(["layer", "head"], skipna=False)
        if "entropy" in self.results:
            found["entropy"] = self.results["entropy"]["mean_entropy"].mean(["layer", "head"], skipna=False)
        return {name: curve for name, curve in found.items() if curve.sizes["step"]}


def collect(runs: Sequence[Reportable]) -> list[Compared]:
    """The runs with their labels, colours and results; see `compare.write_comparison`."""
    if not 2 <= len(runs) <= MAX_RUNS:
        raise RunError(f"a comparison is of 2 to {MAX_RUNS} runs; given: {len(runs)}")
    given = Counter(run.directory.resolve() for run in runs)
    for directory, count in given.items():
        if count > 1:
            raise RunError(f"{directory}: given {count} times; a run is compared with others")
    names = Counter(run.spec.name for run in runs)
    compared = []
    for number, run in enumerate(runs):
        name = run.spec.name
        # the whole directory where names of directories are the same, too
        alike = [
            other for other in runs if (other.spec.name, other.directory.name) == (name, run.directory.name)
        ]
        place = str(run.directory) if len(alike) > 1 else run.directory.name
        label = name if names[name] == 1 else f"{name} ({place})"
        compared.append(Compared(run, label, style.color(number), *_results(run)))
    return compared


def _of_other_queries(trajectory: xr.DataTree, maps: xr.Dataset) -> xr.DataArray:
    """Attention to the most frequent token, mean over the other queries weighted by π; NaN with no other."""
    weights = frequencies(trajectory, maps["query"].values, "query")
    weights = weights.where(maps["query"] != maps["top_token"], 0.0)
    total = weights.sum("query")
    return (maps["focus"] * weights).sum("query", skipna=False) / total.where(total > 0)


def _results(run: Reportable) -> tuple[dict[str, xr.Dataset], list[str]]:
    """Results as they were kept or made now, and why some could not be made."""
    kept = run.analysis
    found, missing = {}, []
    for name in ANALYZERS:
        try:
            found[name] = kept[name] if name in kept else run.analyzer(name).analyze(run.trajectory)
        except AttndynError as error:
            missing.append(str(error))
    return found, missing
