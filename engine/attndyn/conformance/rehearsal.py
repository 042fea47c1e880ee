"""A rehearsal of a spec: two steps of it, on which the names that expectations use are checked.

What a probe records and an analyzer computes is known once they have run. A short run of the same plugins has
the same variables and labels as the long one, so that a misspelt one is found before anything is computed.
Other specs that expectations refer to are rehearsed, too.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path as FilePath
from typing import Any

from attndyn import registry, runs
from attndyn.conformance.measured import Measured, SelectionError
from attndyn.conformance.trial import every_step
from attndyn.errors import AttndynError, Problem, SpecError
from attndyn.spec import Spec, load_spec, parse_spec
from attndyn.spec.base import ExpectationOptions, Flaw, Path
from attndyn.spec.selection import Reference, Selection, references, selections
from attndyn.spec.words import spell

STEPS = 2
BATCH = 4


def shortened(spec: Spec, chosen: Iterable[Selection]) -> Spec:
    """The same spec with two steps of small batches, all of them recorded, for looking at selections."""
    return every_step(spec, STEPS).model_copy(
        update={
            "data": spec.data.model_copy(update={"batch": min(BATCH, spec.data.batch)}),
            "replicas": spec.replicas.model_copy(update={"seeds": _seeds(spec, chosen)}),
        }
    )


def _seeds(spec: Spec, chosen: Iterable[Selection]) -> int:
    """One is enough, unless a replica is chosen by its seed or number."""
    return spec.replicas.seeds if any({"seed", "replica"} & set(each.labels) for each in chosen) else 1


@contextmanager
def _rehearsed(spec: Spec, chosen: Iterable[Selection]) -> Iterator[Measured]:
    with tempfile.TemporaryDirectory(prefix="attndyn-") as folder:
        run = runs.run(shortened(spec, chosen), folder, backend="numpy")
        if run.status["state"] == "interrupted":  # what the run took for itself is meant for all of it
            raise KeyboardInterrupt
        try:
            yield Measured(spec, run.trajectory)
        finally:
            run.close()


def _flaws_with(spec: Spec, reference: Reference) -> Iterator[str]:
    """What is wrong with the spec once a reference's values are in it."""
    if reference.spec is None:
        try:
            parse_spec(spec.to_yaml(), spec.name, reference.overrides)
        except SpecError as error:
            yield from (f"{problem.path}: {problem.message}" for problem in error.problems)


def rehearse(spec: Spec) -> Iterator[Flaw]:
    """What is wrong with the variables, labels and boundaries that a spec's expectations name.

    And with what its analyzers read from this machine. To be given to `load_spec` as its `check`, which adds
    the places in the file. Where the data are not on this machine nothing can be told of the expectations.
    """
    if flaws := list(runs.unusable(spec)):
        yield from flaws
        return
    if not spec.expect or spec.data.absent() is not None:  # what cannot be run cannot be rehearsed
        return
    chosen = [selection for options in spec.expect for _, selection in selections(options)]
    with _rehearsed(spec, chosen) as measured:
        yield from _flaws(spec, measured)


def _flaws(spec: Spec, measured: Measured) -> Iterator[Flaw]:
    for index, options in enumerate(spec.expect):
        for path, selection in selections(options):
            for flaw in _tried(partial(measured.check, selection)):
                yield flaw._replace(path=("expect", index, *path, *flaw.path))
        for path, reference in references(options):
            for message in _flaws_with(spec, reference):
                yield Flaw(("expect", index, *path, "set"), message)
        expectation: Any = registry.get("expectation", options.kind)(options)
        for flaw in _tried(partial(_all, expectation, measured)):
            yield flaw._replace(path=("expect", index, *flaw.path))


def _all(expectation: Any, measured: Measured) -> list[Flaw]:
    return list(expectation.flaws(measured))


def _tried(check: Callable[[], Iterable[Flaw] | None]) -> Iterator[Flaw]:
    """What a check finds; nothing where an analyzer cannot make anything of so short a run."""
    try:
        yield from check() or ()
    except SelectionError as error:
        yield Flaw(error.path, str(error))
    except AttndynError as error:
        yield Flaw((), " ".join(str(error).split()))
    except Exception:  # an analyzer may raise anything; what it says of the whole run is seen then
        return


def referred(
    path: FilePath, reference: Reference, overrides: Sequence[str], plugins: Sequence[FilePath]
) -> Spec:
    """The spec that a reference in the spec at `path` means."""
    file = path if reference.spec is None else path.parent / reference.spec
    before = overrides if reference.spec is None else ()
    return load_spec(file, [*before, *reference.overrides], plugins)


def check_references(
    spec: Spec, path: FilePath, overrides: Sequence[str] = (), plugins: Sequence[FilePath] = ()
) -> None:
    """Look for what is wrong with other specs that expectations refer to, and with what is read there.

    References to the same spec with other values are part of the rehearsal.

    Raises:
        SpecError: with the place of each reference, and what is wrong there.
    """
    others = _Others(path, overrides, plugins)
    problems = [
        Problem(spec.where(place), spell(place), line)
        for index, options in enumerate(spec.expect)
        for within, reference in references(options)
        if reference.spec is not None
        for place in [("expect", index, *within)]
        for line in others.wrong(options, reference)
    ]
    if problems:
        raise SpecError(problems)


class _Others:
    """Other specs, each rehearsed once for what is read in its run."""

    def __init__(self, path: FilePath, overrides: Sequence[str], plugins: Sequence[FilePath]):
        self._given = path, overrides, plugins
        self._found: dict[tuple[str, str], list[str]] = {}

    def wrong(self, options: ExpectationOptions, reference: Reference) -> list[str]:
        """What is wrong with the spec that a reference means, or with what is read in its run, in lines."""
        path, overrides, plugins = self._given
        read = registry.get("expectation", options.kind).read_elsewhere
        chosen = [(where, each) for where, each in selections(options) if where[0] in read]
        try:
            other = referred(path, reference, overrides, plugins)
            if not chosen or other.data.absent() is not None:
                return []
            # the optimizer changes numbers, and no names
            key = other.model_dump_json(exclude={"expect", "optimizer"}), str(chosen)
            if key not in self._found:
                self._found[key] = list(_misread(other, chosen))
            return [f"{reference}: {said}" for said in self._found[key]]
        except AttndynError as error:
            return str(error).splitlines()


def _misread(spec: Spec, chosen: Sequence[tuple[Path, Selection]]) -> Iterator[str]:
    """What a run of the spec does not have of what is read in it."""
    with _rehearsed(spec, [selection for _, selection in chosen]) as measured:
        for where, selection in chosen:
            for flaw in _tried(partial(measured.check, selection)):
                yield f"{spell((*where, *flaw.path))}: {flaw.message}"
