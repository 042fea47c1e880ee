"""The cheapest exact representation of contexts for a spec."""

from __future__ import annotations

from attndyn.data.source import DataSource
from attndyn.errors import Problem, SpecError
from attndyn.layers.architecture import Architecture
from attndyn.spec import Spec


def choose(spec: Spec, data: DataSource, architecture: Architecture) -> str:
    """The representation to use: the one the spec forces, or the cheapest exact one.

    Raises:
        SpecError: the forced one is not exact for this data and architecture, or none is.
    """
    exact = [r for r in data.representations if r in architecture.representations]
    wanted = spec.representation
    if wanted != "auto" and wanted not in exact:
        allowed = f"exact here: {', '.join(exact)}" if exact else "none is exact here"
        message = f"'{wanted}' is not exact for this data and architecture; {allowed}"
        raise SpecError([Problem(spec.name, "representation", message)])
    if not exact:
        message = f"architecture '{spec.model.architecture}' has no exact representation for this data"
        raise SpecError([Problem(spec.name, "model.architecture", message)])
    if wanted != "auto":
        return wanted
    n_ctx = getattr(spec.data, "n_ctx", len(data.tokens))
    n_contexts = getattr(spec.data, "batch", 1)
    n_queries = n_ctx if spec.training.loss_positions == "all" else 1
    return min(exact, key=lambda r: architecture.cost(r, n_ctx, n_contexts, n_queries))
