"""The checks of a kind of expectation: it can hold and fail, and it refuses what could not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import xarray as xr
from pydantic import ValidationError

from attndyn.conformance import example_runs
from attndyn.conformance.expectation import Evidence, Expectation, Judgement, VacuousError
from attndyn.conformance.faults import Check, Failure, Fault
from attndyn.conformance.measured import Measured
from attndyn.conformance.verdicts import finding
from attndyn.errors import AttndynError, PluginError
from attndyn.spec import Spec
from attndyn.spec.selection import Reference

#: the run that examples speak of, beside what `example_runs` has: three learning rates in two seeds
CHANGES = (
    "data.batch=300",
    "replicas={seeds: 2, vary: {optimizer.lr: [1.0, 0.3, 0.1]}}",
    "analyzers=[stages]",
)
FORM = "two layers of three heads"
PROBES = ("loss", "attention", "parameters")
COMMON = {"id": "example", "claim": "an example", "source": "the plugin"}
REFUSED = "refused"

Change = Callable[[xr.DataTree], xr.DataTree]


@dataclass(frozen=True)
class Examples:
    """A kind of expectation, with the examples that it declares."""

    cls: type[Expectation]

    def declared(self) -> Iterator[tuple[str, dict[str, Any], str]]:
        """A name, the options and the verdict of each example."""
        for number, example in enumerate(self.cls.examples):
            yield f"example {number} ({example.verdict})", dict(example.options), example.verdict

    def judged(self) -> Iterator[tuple[str, Any]]:
        """A name and the options of each example that is not refused."""
        for name, options, verdict in self.declared():
            if verdict != REFUSED:
                yield name, self.valid(options)

    def valid(self, options: dict[str, Any]) -> Any:
        """Options as a spec would have them."""
        return self.cls.Options.model_validate({**COMMON, "kind": self.cls.name, **options})

    def judge(self, options: Any, change: Change = lambda tree: tree) -> Judgement:
        """What a fresh one says of the example run, changed."""
        return self.cls(options).judge(evidence(change))


def fixed(cls: type[Expectation]) -> dict[str, Any]:
    """Options of the first example.

    Raises:
        PluginError: it declares none.
    """
    if not cls.examples:
        raise PluginError("it declares no examples, so that nothing shows that it can hold and fail")
    return {**COMMON, "kind": cls.name, **cls.examples[0].options}


def evidence(change: Change = lambda tree: tree) -> Evidence:
    """The example run and those that differ from it, each changed."""

    def measured(*changes: str) -> Measured:
        spec, tree = _run(changes)
        return Measured(spec, change(tree.copy(deep=True)))

    def other(reference: Reference) -> Measured:
        return measured(*reference.overrides)

    return Evidence(measured(), other)


@cache
def _run(changes: tuple[str, ...]) -> tuple[Spec, xr.DataTree]:
    spec = example_runs.spec(FORM, PROBES, *CHANGES, *changes)
    return spec, example_runs.recorded(spec)


def holds_and_fails(case: Examples) -> Iterator[Failure]:
    """Every example gets the verdict that it declares, and each of the three there is gets one."""
    declared = {verdict for _, _, verdict in case.declared()}
    for verdict in ("holds", "does not hold", REFUSED):
        if verdict not in declared:
            yield Failure(Fault.DECLARATION, "examples", f"have none with the verdict '{verdict}'")
    for name, options, verdict in case.declared():
        found = _outcome(case, options)
        if found != verdict:
            fault = Fault.CANNOT_FAIL if verdict != "holds" and found == "holds" else Fault.DECLARATION
            yield Failure(fault, name, f"gets '{found}'")


def _outcome(case: Examples, options: dict[str, Any]) -> str:
    try:
        valid = case.valid(options)
        return str(finding(valid, case.judge(valid)).verdict)
    except (ValidationError, VacuousError):
        return REFUSED


def shapes(case: Examples) -> Iterator[Failure]:
    """Figures are numbers and verdicts are booleans, one a trial; the criterion is in words."""
    for name, options in case.judged():
        found = case.judge(options)
        trials = np.shape(found.figures)
        if len(trials) != 1 or np.asarray(found.figures).dtype.kind != "f":
            yield Failure(Fault.SHAPE, "figures", f"are no numbers of shape (trial,): {trials}", name)
        for what in ("holds", "nearly"):
            given = getattr(found, what)
            if given is not None and (np.shape(given) != trials or np.asarray(given).dtype != bool):
                yield Failure(Fault.SHAPE, what, f"are no booleans of shape {trials}", name)
        if not found.criterion or not found.units:
            yield Failure(Fault.UNLABELLED, "judgement", "has no criterion, or no units", name)


def nothing_never_holds(case: Examples) -> Iterator[Failure]:
    """Of a run that is NaN throughout, and of a replica that is, nothing is said."""
    for name, options in case.judged():
        try:
            lost = case.judge(options, _all_lost)
        except AttndynError:
            continue
        if not np.isnan(lost.figures).all():
            yield Failure(Fault.CANNOT_FAIL, name, "gets a verdict from a run that is NaN throughout")


def by_name(case: Examples) -> Iterator[Failure]:
    """Nothing depends on the order of a trajectory's axes."""
    for name, options in case.judged():
        if not _same(case.judge(options), case.judge(options, example_runs.with_axes_reversed)):
            yield Failure(Fault.SWAPPED_AXES, name, "changes with the order of the trajectory's axes")


def repeatable(case: Examples) -> Iterator[Failure]:
    """The same run is judged alike twice, and left as it was."""
    for name, options in case.judged():
        given = evidence()
        before = given.own.trajectory.copy(deep=True)
        expectation = case.cls(options)
        first, again, fresh = expectation.judge(given), expectation.judge(given), case.judge(options)
        if not _same(first, fresh):
            yield Failure(Fault.RANDOM, name, "differs between two judgements of the same run")
        elif not _same(first, again):
            yield Failure(Fault.HIDDEN_STATE, name, "depends on what was judged before")
        if not given.own.trajectory.identical(before):
            yield Failure(Fault.INPUT_MODIFIED, "trajectory", "is changed by judge", name)


def _same(one: Judgement, two: Judgement) -> bool:
    near = np.shape(one.figures) == np.shape(two.figures) and np.allclose(
        one.figures, two.figures, rtol=1e-9, atol=1e-12, equal_nan=True
    )
    return bool(near and np.array_equal(one.holds, two.holds))


def _all_lost(tree: xr.DataTree) -> xr.DataTree:
    return example_runs.changed(tree, lambda array: array.where(False) if array.dtype.kind == "f" else array)


CHECKS: dict[str, Check] = {
    "can hold and fail": holds_and_fails,
    "shapes and types": shapes,
    "NaN never holds": nothing_never_holds,
    "axes by name": by_name,
    "repeatable, run untouched": repeatable,
}
