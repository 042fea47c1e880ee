"""All parameters, labelled as the architecture declares them."""

from __future__ import annotations

from attndyn import registry
from attndyn.backend import Array
from attndyn.simulation.probe import Declaration, Probe, State, Variable


@registry.probe("parameters")
class ParametersProbe(Probe):
    """One variable a parameter, `(replica, step, *declared dims)`."""

    def declare(self) -> Declaration:
        """See `Probe.declare`."""
        declared = self.simulation.parameters.declared
        return Declaration({p.name: Variable(p.dims, p.shape, p.long_name, "1", p.symbol) for p in declared})

    def measure(self, state: State) -> dict[str, Array]:
        """See `Probe.measure`."""
        return {name: array.copy() for name, array in state.parameters.items()}
