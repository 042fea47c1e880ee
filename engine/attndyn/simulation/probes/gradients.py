"""The gradient of the loss for every parameter, on the batch of the step."""

from __future__ import annotations

from attndyn import registry
from attndyn.backend import Array
from attndyn.simulation.probe import Declaration, Probe, State, Variable


@registry.probe("gradients")
class GradientsProbe(Probe):
    """One variable a parameter, with the parameter's name and dimensions."""

    def declare(self) -> Declaration:
        """See `Probe.declare`."""
        variables = {
            p.name: Variable(
                p.dims, p.shape, f"gradient of the loss: {p.long_name}", "nats", rf"\nabla_{{{p.symbol}}} L"
            )
            for p in self.simulation.parameters.declared
        }
        return Declaration(variables)

    def measure(self, state: State) -> dict[str, Array]:
        """See `Probe.measure`."""
        return {name: array.copy() for name, array in state.gradients.items()}
