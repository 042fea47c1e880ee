"""How far what gradient flow would conserve has drifted from its initial value.

The initial value is computed from the initial parameters, a pure function of spec and seed, and not kept: a
resumed run measures against the same start as one that never stopped.
"""

from __future__ import annotations

from attndyn import registry
from attndyn.backend import Array
from attndyn.errors import Problem, SpecError
from attndyn.layers import parameters as parameters_
from attndyn.simulation.probe import Declaration, Probe, State, Variable
from attndyn.simulation.simulation import Simulation
from attndyn.spec.base import ProbeOptions
from attndyn.theory.conservation import laws


@registry.probe("invariants")
class InvariantsProbe(Probe):
    """`drift(replica, step, law)`, and `relative_drift`, the same as a share of the initial value.

    Raises:
        SpecError: the architecture declares no conservation law, so that there is nothing to record.
    """

    def __init__(self, options: ProbeOptions, simulation: Simulation):
        super().__init__(options, simulation)
        self._laws = laws(simulation.architecture)
        if not self._laws:
            spec = simulation.spec
            message = f"'{spec.model.architecture}' declares no conservation law"
            raise SpecError([Problem(spec.where(("probes", "invariants")), "probes.invariants", message)])
        specs, seeds = simulation.replicas.specs, simulation.replicas.seeds
        start = parameters_.initial(
            simulation.parameters.declared, [spec.model for spec in specs], seeds, simulation.backend
        )
        self._initial = [law.evaluate(start) for law in self._laws]

    def declare(self) -> Declaration:
        """See `Probe.declare`."""
        n = (len(self._laws),)
        return Declaration(
            {
                "drift": Variable(
                    ("law",),
                    n,
                    "largest deviation of a conserved quantity's entries from the initial ones",
                    valid_min=0.0,
                ),
                "relative_drift": Variable(
                    ("law",),
                    n,
                    "drift divided by the largest initial entry",
                    valid_min=0.0,
                    nan_where="all initial entries are 0",
                ),
            },
            {"law": [law.name for law in self._laws]},
            {"law": "conservation law of gradient flow"},
        )

    def measure(self, state: State) -> dict[str, Array]:
        """See `Probe.measure`."""
        xp = self.simulation.backend.xp
        both = zip(self._laws, self._initial, strict=True)
        drift = xp.stack(
            [self._largest(law.evaluate(state.parameters) - start) for law, start in both], axis=1
        )
        size = xp.stack([self._largest(start) for start in self._initial], axis=1)
        return {"drift": drift, "relative_drift": drift / xp.where(size > 0, size, xp.nan)}

    def _largest(self, values: Array) -> Array:
        """Largest absolute entry of each replica's values, `(R,)`."""
        xp = self.simulation.backend.xp
        return xp.max(xp.abs(values.reshape(values.shape[0], -1)), axis=1)
