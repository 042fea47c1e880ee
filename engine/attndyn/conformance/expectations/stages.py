"""`stages`: which boundaries between stages are there, in which order, and which are absent."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import xarray as xr
from pydantic import Field

from attndyn import registry
from attndyn.conformance.expectation import Evidence, Example, Expectation, Judgement
from attndyn.conformance.measured import Measured, SelectionError
from attndyn.registry import nearest
from attndyn.spec.base import ExpectationOptions, Flaw

#: what a label may be beside a boundary: `focus_onset of token 1`, `dilution_end of query 2`
OF = {" of token ": ("token_boundary", "rank"), " of query ": ("query_boundary", "query")}


class StagesOptions(ExpectationOptions):
    """Boundaries of the `stages` analyzer: those that follow one another, and those that must not be there.

    A boundary is one of docs/stages.md (`focus_onset`, `direction_1`), or one of another cycle, as
    `focus_peak of token 1` (the token of rank 1) or `dilution_end of query 2` (the query labelled 2).
    """

    kind: Literal["stages"] = "stages"
    order: list[str] = Field(default=[], description="boundaries that are there, each before the next")
    present: list[str] = Field(default=[], description="boundaries that are there, whenever")
    absent: list[str] = Field(default=[], description="boundaries that are not there")
    heads: Literal["all", "any"] = Field(default="all", description="in all heads of all layers, or in any")

    def flaws(self) -> Iterator[Flaw]:
        """Refuse what cannot fail, and what cannot hold."""
        yield from super().flaws()
        if not (self.order or self.present or self.absent):
            yield Flaw((), "cannot fail: give order, present or absent")
        seen: set[str] = set()
        for name in ("order", "present", "absent"):
            for index, label in enumerate(getattr(self, name)):
                if label in seen:
                    yield Flaw((name, index), f"'{label}' is named twice")
                seen.add(label)


@registry.expectation("stages")
class Stages(Expectation):
    """The figure is how many of the conditions are met, the mean over heads."""

    Options = StagesOptions
    options: StagesOptions
    examples = (
        Example("holds", {"absent": ["dilution_end"]}),
        Example("does not hold", {"order": ["focus_onset", "focus_peak"]}),
        Example("refused", {}),
    )

    def flaws(self, measured: Measured) -> Iterator[Flaw]:
        """The boundaries must be among those that the analyzer knows."""
        if all(options.kind != "stages" for options in measured.spec.analyzers):
            yield Flaw((), "needs the analyzer stages, which is not among analyzers")
            return
        for name in ("order", "present", "absent"):
            for index, label in enumerate(getattr(self.options, name)):
                try:
                    _steps(measured.result("stages"), label, (name, index))
                except SelectionError as error:
                    yield Flaw(error.path, str(error))

    def judge(self, evidence: Evidence) -> Judgement:
        """See `Expectation.judge`."""
        options, found = self.options, evidence.own.result("stages")
        order, present, absent = (
            [_steps(found, label, (name, i)) for i, label in enumerate(getattr(options, name))]
            for name in ("order", "present", "absent")
        )
        met = np.array(
            [
                *(~np.isnan(steps) for steps in (*order, *present)),
                *(before < after for before, after in pairwise(order)),
                *(np.isnan(steps) for steps in absent),
            ]
        )
        heads = met.all(axis=0).reshape(met.shape[1], -1)
        holds = np.asarray(heads.all(axis=1) if options.heads == "all" else heads.any(axis=1))
        figures = met.sum(axis=0).reshape(met.shape[1], -1).mean(axis=1)
        # what a replica that diverged lacks is not absent: it has no figure, and does not hold
        lost = evidence.own.lost
        figures = np.where(lost, np.nan, figures)
        steps = dict(zip((*options.order, *options.present), (*order, *present), strict=True))
        return Judgement(
            figures,
            holds,
            self._criterion(),
            f"of {len(met)} conditions",
            detail=_medians(steps),
            lost=lost,
            settings=evidence.own.settings_of(np.arange(len(figures))),
        )

    def _criterion(self) -> str:
        options = self.options
        parts = [
            " < ".join(options.order),
            ", ".join(options.present),
            ", ".join(f"no {b}" for b in options.absent),
        ]
        return "; ".join(part for part in parts if part)


def _medians(steps: dict[str, Any]) -> str:
    """Median step of each boundary, over the replicas and heads that have it."""
    there = {label: found[~np.isnan(found)] for label, found in steps.items()}
    return ", ".join(
        f"{label} {np.median(f):.0f}" if f.size else f"{label} absent" for label, f in there.items()
    )


def _steps(found: xr.Dataset, label: str, path: tuple[str, int]) -> Any:
    """Steps of a boundary, shape (replica, layer, head)."""
    for word, (variable, dim) in OF.items():
        event, of, which = label.partition(word)
        if of:
            array = _at(_at(found[variable], "event", event, path), dim, which, path)
            return array.transpose("replica", "layer", "head").values
    return _at(found["boundary_step"], "boundary", label, path).transpose("replica", "layer", "head").values


def _at(array: xr.DataArray, dim: str, label: str, path: tuple[str, int]) -> xr.DataArray:
    labels = [str(value) for value in array[dim].values]
    if label not in labels:
        raise SelectionError(path, f"no such {dim}: '{label}'; {nearest(label, labels)}")
    return array.isel({dim: labels.index(label)})
