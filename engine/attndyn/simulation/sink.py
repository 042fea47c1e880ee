"""Where records go: a simulation is followed by sinks, and knows nothing else of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from attndyn.backend import Array

if TYPE_CHECKING:
    from attndyn.simulation.simulation import Outcome, Simulation


class Sink(Protocol):
    """Follows a run. Records come in ascending order of steps, those of one step in the spec's order."""

    def start(self, simulation: Simulation) -> None:
        """The run begins, or goes on, at `simulation.step`."""

    def record(self, probe: str, step: int, values: Mapping[str, Array]) -> None:
        """A probe's variables `(R, *shape)` at a step, device arrays that nobody changes any more."""

    def advance(self, simulation: Simulation) -> None:
        """The state before update `simulation.step` is reached and all earlier records were handed out."""

    def finish(self, simulation: Simulation, outcome: Outcome) -> None:
        """The run has ended; the last call."""


@runtime_checkable
class Onlooker(Protocol):
    """What a sink also has that wants to be asked while an update is under way, where one takes long."""

    def during(self, simulation: Simulation) -> None:
        """An integrator asks for a gradient; of the run, `simulation.progress` updates are done."""
