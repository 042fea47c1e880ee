"""The cheapest exact representation of contexts for a spec."""

from __future__ import annotations

from attndyn.data.source import DataSource
from attndyn.errors import Problem, SpecError
from attndyn.layers.architecture import Architecture
from attndyn.spec import Spec
from attndyn.spec.checks import MAX_ENTRIES


def choose(spec: Spec, data: DataSource, architecture: Architecture) -> str:
    """The representation to use: the one the spec forces, or the cheapest exact one.

    Raises:
        SpecError: the forced one is not exact for this data and architecture, or none is.
    """
    exact = [
        r for r in data.representations if r in architecture.representations(spec.training.loss_positions)
    ]
    wanted: str = spec.representation
    if wanted != "auto" and wanted not in exact:
        allowed = f"exact here: {', '.join(exact)}" if exact else "none is exact here"
        message = f"'{wanted}' is not exact for this data and architecture; {allowed}"
        raise SpecError([Problem(spec.where(("representation",)), "representation", message)])
    if not exact:
        able = ", ".join(architecture.representations(spec.training.loss_positions))
        message = (
            f"'{spec.model.architecture}' has no exact representation for this data: of regime "
            f"'{spec.data.regime}' are {', '.join(data.representations)}, and exact for these options: {able}"
        )
        raise SpecError([Problem(spec.where(("model", "architecture")), "model.architecture", message)])
    n_ctx, n_contexts = spec.data.n_ctx, spec.data.batch
    n_queries = n_ctx if spec.training.loss_positions == "all" else 1
    if wanted == "auto":
        wanted = min(exact, key=lambda r: architecture.cost(r, n_ctx, n_contexts, n_queries))
    if wanted == "positions":
        _check_size(spec, n_contexts * n_ctx * max(n_queries, spec.model.d_model))
    return wanted


def _check_size(spec: Spec, size: int) -> None:
    """Refuse positions whose states or scores would not fit: `size` entries a replica."""
    n_replicas = spec.replicas.count()
    if size * n_replicas > MAX_ENTRIES:
        message = (
            f"positions need batch × n_ctx × (queries or d_model) × {n_replicas} replicas = "
            f"{size * n_replicas:.3g} entries; at most {MAX_ENTRIES:.0e}"
        )
        raise SpecError([Problem(spec.where(("data", "batch")), "data.batch", message)])
