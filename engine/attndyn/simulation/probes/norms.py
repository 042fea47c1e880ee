"""The norm of every token's embedding: one number a token where the parameters are a row each."""

from __future__ import annotations

from attndyn import registry
from attndyn.backend import Array
from attndyn.simulation.probe import Declaration, Probe, State, Variable


@registry.probe("norms")
class NormsProbe(Probe):
    """`embedding_norm(replica, step, token)`, Euclidean norms of the rows of W_0.

    For falls of norms that are over in fewer steps than `parameters` can be recorded in.
    """

    def declare(self) -> Declaration:
        """See `Probe.declare`."""
        tokens = (len(self.simulation.data.tokens),)
        variable = Variable(("token",), tokens, "norm of the token's row of W_0", "1", valid_min=0.0)
        return Declaration({"embedding_norm": variable})

    def measure(self, state: State) -> dict[str, Array]:
        """See `Probe.measure`."""
        xp, w_0 = self.simulation.backend.xp, state.parameters["W_0"]
        return {"embedding_norm": xp.sqrt(xp.sum(w_0 * w_0, axis=2))}
