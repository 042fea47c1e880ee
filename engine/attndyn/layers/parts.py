"""A batch in parts. Loss and gradients are sums over contexts, and replicas do not meet: parts of a batch can
be computed forward and backward one after the other, or several at once.

A part's temporaries fit in a processor's cache, and memory holds those of a few parts only, however large the
batch. How a batch is cut depends on the sizes of one replica's contexts, never on who computes the parts, and
they are added in order: results are the same to the last bit on any number of threads, with any replicas.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attndyn.backend import Array, Backend
from attndyn.data.contexts import Contexts

Part = tuple[slice, slice]
LossAndGradients = Callable[[Mapping[str, Array], Contexts], tuple[Array, dict[str, Array]]]


def loss_and_gradients(
    backend: Backend,
    whole: LossAndGradients,
    parameters: Mapping[str, Array],
    contexts: Contexts,
    bytes_per_context: int,
) -> tuple[Array, dict[str, Array]]:
    """What `whole` returns, from parts where the backend wants such.

    Args:
        backend: says how large a part may be.
        whole: computes loss `(R,)` and gradients of contexts at once.
        parameters: of all replicas.
        contexts: the batch.
        bytes_per_context: what a context of one replica needs, roughly.
    """
    n_replicas = contexts.log_weights.shape[0]
    parts = cut(n_replicas, contexts.n_contexts, bytes_per_context, backend.part_bytes)
    if len(parts) == 1:
        return whole(parameters, contexts)

    def of_part(part: Part) -> tuple[Array, dict[str, Array]]:
        replicas, some = part
        return whole({name: p[replicas] for name, p in parameters.items()}, contexts.part(replicas, some))

    loss = backend.zeros((n_replicas,))
    gradients = {name: backend.zeros(p.shape) for name, p in parameters.items()}
    for (replicas, _), (loss_part, gradients_part) in zip(parts, backend.map(of_part, parts), strict=True):
        loss[replicas] += loss_part
        for name, gradient in gradients_part.items():
            gradients[name][replicas] += gradient
    return loss, gradients


def cut(n_replicas: int, n_contexts: int, bytes_per_context: int, part_bytes: int | None) -> list[Part]:
    """Slices of replicas and of contexts, each of at most `part_bytes` if it is more than one context.

    A part has a power of two of contexts: it divides the usual batch, so that no part is a small rest.
    """
    if part_bytes is None:
        return [(slice(0, n_replicas), slice(0, n_contexts))]
    fitting = max(1, part_bytes // bytes_per_context)
    contexts = 2 ** (fitting.bit_length() - 1)
    replicas = max(1, fitting // min(contexts, n_contexts))
    return [
        (slice(r, min(r + replicas, n_replicas)), slice(c, min(c + contexts, n_contexts)))
        for r in range(0, n_replicas, replicas)
        for c in range(0, n_contexts, contexts)
    ]
