"""A rehearsal of a spec: two steps of it, on which the names that its expectations use are checked.

What a probe records and an analyzer computes is known once they have run. A short run of the same plugins has
the same variables and labels as the long one, so that a misspelt one is found before anything is computed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import Any

from attndyn import registry, runs
from attndyn.conformance.measured import Measured, SelectionError
from attndyn.spec import Spec
from attndyn.spec.base import Flaw
from attndyn.spec.selection import selections

STEPS = 2
BATCH = 4


def shortened(spec: Spec) -> Spec:
    """The same spec with two steps of small batches, all of them recorded."""
    time = spec.training.time
    training = {"steps": STEPS, "time": None if time is None else time * STEPS / spec.training.steps}
    every = {"every": 1, "steps": None, "count": None}
    return spec.model_copy(
        update={
            "training": spec.training.model_copy(update=training),
            "data": spec.data.model_copy(update={"batch": min(BATCH, spec.data.batch)}),
            "replicas": spec.replicas.model_copy(update={"seeds": 1}),
            "probes": {name: options.model_copy(update=every) for name, options in spec.probes.items()},
            "expect": [],
        }
    )


def rehearse(spec: Spec) -> Iterator[Flaw]:
    """What is wrong with the variables, labels and boundaries that a spec's expectations name.

    To be given to `load_spec` as its `check`, which adds the places in the file.
    """
    if not spec.expect:
        return
    with tempfile.TemporaryDirectory(prefix="attndyn-") as folder:
        run = runs.run(shortened(spec), folder, backend="numpy")
        try:
            yield from _flaws(spec, Measured(spec, run.trajectory))
        finally:
            run.close()


def _flaws(spec: Spec, measured: Measured) -> Iterator[Flaw]:
    for index, options in enumerate(spec.expect):
        for path, selection in selections(options):
            try:
                measured.check(selection)
            except SelectionError as error:
                yield Flaw(("expect", index, *path, *error.path), str(error))
        expectation: Any = registry.get("expectation", options.kind)(options)
        for flaw in expectation.flaws(measured):
            yield flaw._replace(path=("expect", index, *flaw.path))
