"""A spec cut down to what can be checked in a second: few steps, small batches, everything recorded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from attndyn.backend import Array
from attndyn.runs import SPEC, Run, StatusSink
from attndyn.simulation import Outcome, Simulation
from attndyn.simulation.sink import Sink
from attndyn.spec import Spec, parse_spec
from attndyn.spec.base import DataOptions, NormalInit, ProbeOptions
from attndyn.spec.sections import ReplicaOptions
from attndyn.trajectory import TrajectoryWriter

#: an even number, so that a run can stop half-way
STEPS = 6
#: sizes that differ from each other and from the usual numbers of tokens
BATCH, N_CTX = 7, 6
#: what is always recorded
PROBES = ("loss", "attention", "parameters", "gradients")


def shortened(spec: Spec) -> Spec:
    """The same experiment with few steps, contexts and replicas, every step recorded, nothing expected of it.

    Architecture, widths, chain, optimizer and arithmetic are the spec's. A flow keeps its output interval.

    Raises:
        SpecError: what is left is no valid spec.
    """
    brief = every_step(spec, min(spec.training.steps, STEPS))
    probes = {name: ProbeOptions(every=1) for name in PROBES if name not in brief.probes}
    short = brief.model_copy(
        update={
            "data": _small(spec.data),
            "replicas": _few(spec.replicas),
            "probes": {**brief.probes, **probes},
        }
    )
    return parse_spec(short.to_yaml(), spec.name)


def every_step(spec: Spec, steps: int) -> Spec:
    """The same spec with so many steps, all of them recorded, and nothing expected of it.

    A flow keeps its output interval.
    """
    training = spec.training
    time = None if training.time is None else training.time * steps / training.steps
    always = {"every": 1, "steps": None, "count": None}
    return spec.model_copy(
        update={
            "training": training.model_copy(update={"steps": steps, "time": time}),
            "probes": {name: options.model_copy(update=always) for name, options in spec.probes.items()},
            "expect": [],
        }
    )


def _small(data: DataOptions) -> DataOptions:
    """Fewer and shorter contexts, if the data source has no objection."""
    changes = {"batch": min(data.batch, BATCH), "n_ctx": min(data.n_ctx, N_CTX)}
    size = getattr(data, "size", None)
    if size is not None:
        changes["size"] = min(size, 2 * BATCH + 1)
    try:
        return type(data).model_validate({**data.model_dump(), **changes})
    except ValueError:  # pydantic's is one
        return data


def _few(replicas: ReplicaOptions) -> ReplicaOptions:
    """At least two replicas, so that there is one beside another, and not many more."""
    vary = {path: values[:2] for path, values in replicas.vary.items()}
    return replicas.model_copy(update={"vary": vary, "seeds": 2})


def exact(simulation: Simulation) -> list[str]:
    """All representations that are exact for a spec."""
    claimed = simulation.architecture.representations(simulation.spec.training.loss_positions)
    return [r for r in simulation.data.representations if r in claimed]


class Records:
    """A sink that keeps all records on the host: `arrays` `(R, step, *shape)` by `probe/variable`."""

    def __init__(self) -> None:
        self._lists: dict[str, list[np.ndarray]] = {}

    def start(self, simulation: Simulation) -> None:
        """See `Sink.start`."""
        self._to_host = simulation.backend.to_host

    def record(self, probe: str, step: int, values: Mapping[str, Array]) -> None:
        """See `Sink.record`."""
        for name, array in values.items():
            self._lists.setdefault(f"{probe}/{name}", []).append(np.array(self._to_host(array)))

    def advance(self, simulation: Simulation) -> None:
        """See `Sink.advance`."""

    def finish(self, simulation: Simulation, outcome: Outcome) -> None:
        """See `Sink.finish`."""

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """All that was recorded."""
        return {name: np.stack(found, axis=1) for name, found in self._lists.items()}


def records(spec: Spec) -> dict[str, np.ndarray]:
    """What a run of a spec records, `(R, step, *shape)` by `probe/variable`."""
    kept = Records()
    Simulation(spec, "numpy").run([kept])
    return kept.arrays


@dataclass(frozen=True)
class Trial:
    """What the checks of a spec are given.

    Attributes:
        spec: the shortened spec.
        folder: an empty folder for its files.
    """

    spec: Spec
    folder: Path

    @cached_property
    def run(self) -> Run:
        """The whole run in a directory of its own."""
        return self.carried_out("whole", Simulation(self.spec, "numpy"))

    def carried_out(self, name: str, simulation: Simulation, *sinks: Sink, stop: int = -1) -> Run:
        """A run in the folder `name` that is interrupted before update `stop`."""
        directory = self.folder / name
        directory.mkdir()
        (directory / SPEC).write_text(self.spec.to_yaml(), "utf-8")
        files = TrajectoryWriter(directory), StatusSink(directory)
        simulation.run([*files, *sinks], lambda: simulation.step == stop)
        return Run(directory)

    @cached_property
    def precise(self) -> Spec:
        """The spec in float64, where it is checked to rounding."""
        return with_dtype(self.spec, "float64")

    @cached_property
    def alone(self) -> Simulation:
        """The first replica by itself, in float64."""
        return Simulation(self.precise.replicas_expanded().specs[0], "numpy")


def with_dtype(spec: Spec, dtype: str) -> Spec:
    """The spec in another arithmetic."""
    return spec.model_copy(update={"training": spec.training.model_copy(update={"dtype": dtype})})


def lively(spec: Spec, std: float) -> Spec:
    """The spec from initial weights of a standard deviation at which every parameter moves at once."""
    model = spec.model.model_copy(update={"init": NormalInit(std=std)})
    vary = {path: v for path, v in spec.replicas.vary.items() if not path.startswith("model.init.")}
    replicas = spec.replicas.model_copy(update={"vary": vary})
    return spec.model_copy(update={"model": model, "replicas": replicas})
