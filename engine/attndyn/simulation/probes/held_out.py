"""The loss on what is held out: does the model know the text, or the chain behind it?"""

from __future__ import annotations

from pydantic import Field

from attndyn import registry
from attndyn.backend import Array
from attndyn.data.contexts import Contexts
from attndyn.errors import Problem, SpecError
from attndyn.simulation.probe import Declaration, Probe, State, Variable
from attndyn.simulation.probe_batch import PART_ENTRIES, parts, require_positions
from attndyn.simulation.simulation import Simulation
from attndyn.spec import Spec
from attndyn.spec.base import ProbeOptions


class HeldOutOptions(ProbeOptions):
    """When to record, and how much is looked at."""

    contexts: int = Field(default=64, ge=1, le=2**16, description="held-out contexts to look at, at most")


@registry.probe("held_out")
class HeldOutProbe(Probe):
    """`held_out_loss(replica, step)` in nats, over fixed contexts that are never trained on.

    The contexts are those of `DataSource.held_out`, for a text spread evenly over its held-out part; the mean
    is over the places that the loss reads, as for the probe `loss`. Nothing but a forward pass is done.

    Memory, in entries: the forward pass, logits and their exponentials of some of the contexts, replicas ×
    contexts × places × d_vocab, some `PART_ENTRIES` of each or one context's.

    Raises:
        SpecError: nothing is held out, or the architecture reads no positions.
    """

    Options = HeldOutOptions
    options: HeldOutOptions

    def __init__(self, options: HeldOutOptions, simulation: Simulation):
        super().__init__(options, simulation)
        require_positions(simulation, "held_out")
        contexts = simulation.data.held_out(options.contexts)
        if contexts is None:
            spec = simulation.spec
            raise SpecError([Problem(spec.where(("probes", "held_out")), "probes.held_out", _why(spec))])
        n_replicas, n_queries, n_contexts = contexts.targets.shape
        entries = n_replicas * n_queries * len(simulation.data.tokens)
        on_device = contexts.on(simulation.backend)
        self._parts = [on_device.part(slice(None), part) for part in parts(n_contexts, entries, PART_ENTRIES)]

    def declare(self) -> Declaration:
        """See `Probe.declare`."""
        long_name = "cross-entropy of the next token in held-out contexts"
        return Declaration(
            {"held_out_loss": Variable((), (), long_name, "nats", r"L_\mathrm{held\ out}", 0.0)}
        )

    def measure(self, state: State) -> dict[str, Array]:
        """See `Probe.measure`."""
        # the weights of all parts together sum to 1
        return {"held_out_loss": sum(self._loss(state, part) for part in self._parts)}

    def _loss(self, state: State, contexts: Contexts) -> Array:
        """The part `(R,)` of the loss that is due to some of the contexts."""
        xp = self.simulation.backend.xp
        logits = self.simulation.architecture.logits(state.parameters, contexts)  # (R, B, Q, V)
        logits = logits - xp.max(logits, axis=-1, keepdims=True)
        targets = contexts.targets.swapaxes(1, 2)[..., None]
        at_target = xp.take_along_axis(logits, targets, axis=-1)[..., 0]
        surprise = xp.log(xp.sum(xp.exp(logits), axis=-1)) - at_target
        return xp.sum(contexts.sample_weights * surprise.swapaxes(1, 2), axis=(1, 2))


def _why(spec: Spec) -> str:
    """Why nothing is held out."""
    share = getattr(spec.data, "held_out", None)
    if share is None:
        return f"needs data of which a part is held out; '{spec.data.kind}' has none"
    return f"no context of the text is held out: data.held_out is {share:g}"
