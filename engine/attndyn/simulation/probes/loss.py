"""The loss of a step's batch: the very number whose gradient the optimizer is given."""

from __future__ import annotations

from attndyn import registry
from attndyn.backend import Array
from attndyn.simulation.probe import Declaration, Probe, State, Variable


@registry.probe("loss")
class LossProbe(Probe):
    """`loss(replica, step)` in nats."""

    def declare(self) -> Declaration:
        """See `Probe.declare`."""
        return Declaration({"loss": Variable((), (), "cross-entropy of the next token", "nats", "L", 0.0)})

    def measure(self, state: State) -> dict[str, Array]:
        """See `Probe.measure`."""
        return {"loss": state.loss.copy()}
