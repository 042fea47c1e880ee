"""The fixed contexts that probes of attention and predictions look at: those of a step that never comes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from attndyn.data.contexts import Contexts
from attndyn.errors import Problem, SpecError
from attndyn.simulation.simulation import Simulation

#: contexts of a probe batch, and the step whose number they have: none that is ever trained on
PROBE_CONTEXTS, PROBE_STEP = 64, 2**62
#: entries of an array of predictions, beyond which contexts are looked at in parts
PART_ENTRIES = 2**22


def probe_batch(simulation: Simulation, n_contexts: int = PROBE_CONTEXTS) -> Contexts:
    """The first contexts of positions of the probes' step, as host arrays; at most a batch's.

    Its targets and sample weights are those of the whole batch, and are not to be used.
    """
    batch = simulation.data.batch(PROBE_STEP, "positions")
    assert batch.keys is not None
    assert batch.query is not None
    return replace(batch, keys=batch.keys[..., :n_contexts], query=batch.query[..., :n_contexts])


def require_positions(simulation: Simulation, probe: str) -> None:
    """Refuse a probe that looks at places where the architecture cannot read any.

    Raises:
        SpecError: it cannot.
    """
    spec = simulation.spec
    if "positions" not in simulation.architecture.representations(spec.training.loss_positions):
        message = f"needs contexts of positions, which '{spec.model.architecture}' does not read"
        raise SpecError([Problem(spec.name, f"probes.{probe}", message)])


def parts(n_contexts: int, entries: int, most: int) -> Iterator[slice]:
    """Contexts in parts of at most `most` entries, and of one context at least.

    Args:
        n_contexts: how many there are.
        entries: of an array of predictions, for one context of all replicas.
        most: in a part.
    """
    size = max(1, most // entries)
    return (slice(start, min(start + size, n_contexts)) for start in range(0, n_contexts, size))
