"""A rehearsal of a spec: two steps of it, on which the names that its expectations use are checked.

What a probe records and an analyzer computes is known once they have run. A short run of the same plugins has
the same variables and labels as the long one, so that a misspelt one is found before anything is computed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from attndyn import registry, runs
from attndyn.conformance.measured import Measured, SelectionError
from attndyn.conformance.trial import every_step
from attndyn.errors import AttndynError, SpecError
from attndyn.spec import Spec, parse_spec
from attndyn.spec.base import Flaw
from attndyn.spec.selection import Reference, references, selections

STEPS = 2
BATCH = 4


def shortened(spec: Spec) -> Spec:
    """The same spec with two steps of small batches, all of them recorded."""
    return every_step(spec, STEPS).model_copy(
        update={
            "data": spec.data.model_copy(update={"batch": min(BATCH, spec.data.batch)}),
            "replicas": spec.replicas.model_copy(update={"seeds": _seeds(spec)}),
        }
    )


def _seeds(spec: Spec) -> int:
    """One is enough, unless a replica is chosen by its seed or number."""
    chosen = (each.labels for options in spec.expect for _, each in selections(options))
    return spec.replicas.seeds if any({"seed", "replica"} & set(labels) for labels in chosen) else 1


def _flaws_with(spec: Spec, reference: Reference) -> Iterator[str]:
    """What is wrong with the spec once a reference's values are in it."""
    if reference.spec is None:
        try:
            parse_spec(spec.to_yaml(), spec.name, reference.overrides)
        except SpecError as error:
            yield from (f"{problem.path}: {problem.message}" for problem in error.problems)


def rehearse(spec: Spec) -> Iterator[Flaw]:
    """What is wrong with the variables, labels and boundaries that a spec's expectations name.

    To be given to `load_spec` as its `check`, which adds the places in the file. Where the data are not on
    this machine nothing can be told.
    """
    if not spec.expect or spec.data.absent() is not None:  # what cannot be run cannot be rehearsed
        return
    with tempfile.TemporaryDirectory(prefix="attndyn-") as folder:
        run = runs.run(shortened(spec), folder, backend="numpy")
        if run.status["state"] == "interrupted":  # what the run took for itself is meant for all of it
            raise KeyboardInterrupt
        try:
            yield from _flaws(spec, Measured(spec, run.trajectory))
        finally:
            run.close()


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
