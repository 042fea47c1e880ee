"""The fixed contexts that probes of attention and predictions look at, all through a run."""

from __future__ import annotations

from collections.abc import Iterator

from attndyn.data.contexts import Contexts
from attndyn.errors import Problem, SpecError
from attndyn.simulation.simulation import Simulation

#: contexts of a probe batch where a probe does not say how many, unless a batch has fewer
PROBE_CONTEXTS = 64
#: entries of an array of predictions, beyond which contexts are looked at in parts
PART_ENTRIES = 2**22


def probe_batch(simulation: Simulation, n_contexts: int | None = None) -> Contexts:
    """The contexts of `DataSource.probe_contexts`, as host arrays, with keys and queries by position.

    Its targets and sample weights are not to be used.
    """
    if n_contexts is None:
        n_contexts = min(PROBE_CONTEXTS, simulation.spec.data.batch)
    contexts = simulation.data.probe_contexts(n_contexts)
    assert contexts.keys is not None
    assert contexts.query is not None
    return contexts


def require_positions(simulation: Simulation, probe: str) -> None:
    """Refuse a probe that looks at places where the architecture cannot read any.

    Raises:
        SpecError: it cannot.
    """
    spec = simulation.spec
    if "positions" not in simulation.architecture.representations(spec.training.loss_positions):
        message = f"needs contexts of positions, which '{spec.model.architecture}' does not read"
        raise SpecError([Problem(spec.where(("probes", probe)), f"probes.{probe}", message)])


def parts(n_contexts: int, entries: int, most: int) -> Iterator[slice]:
    """Contexts in parts of at most `most` entries, and of one context at least.

    Args:
        n_contexts: how many there are.
        entries: of an array of predictions, for one context of all replicas.
        most: in a part.
    """
    size = max(1, most // entries)
    return (slice(start, min(start + size, n_contexts)) for start in range(0, n_contexts, size))
