"""Cross-entropy of the next token, in nats: the loss, and the gradient of its logits."""

from __future__ import annotations

from attndyn.backend import Array, Backend

#: more tokens than these are a long axis; reductions along a shorter one cost more than turning the logits
WIDE = 32


def forward_backward(
    backend: Backend, logits: Array, targets: Array, sample_weights: Array
) -> tuple[Array, Array]:
    """The loss of every replica, and its gradient.

    Args:
        backend: where the arrays live.
        logits: `(R, V, Q, B)`.
        targets: next tokens `(R, Q, B)`, or distributions over them `(R, V, Q, B)`; B may be 1.
        sample_weights: `(R, Q, B)`; Q and B may be 1 where all weights are equal.

    Returns:
        The loss `(R,)` and the gradient of the logits `(R, V, Q, B)`.
    """
    n_replicas, d_vocab, n_queries, n_contexts = logits.shape
    xp = backend.xp
    if targets.shape[-1] < n_contexts:
        targets = xp.broadcast_to(targets, (*targets.shape[:-1], n_contexts))
    if sample_weights.shape[1:] != (1, 1):
        sample_weights = xp.broadcast_to(sample_weights, (n_replicas, n_queries, n_contexts))
    sites = (*targets.shape[1:-2], -1)
    loss, d_logits = backend.cross_entropy(
        logits.reshape(n_replicas, d_vocab, -1),
        targets.reshape(n_replicas, *sites),
        sample_weights.reshape(n_replicas, -1),
    )
    return loss, d_logits.reshape(logits.shape)


def of_states(backend: Backend, logits: Array, targets: Array, sample_weights: Array) -> tuple[Array, Array]:
    """The same for logits as states have them, `(R, B, Q, V)`, and so is their gradient.

    For a large vocabulary and targets that are tokens, the next tokens of a query stay side by side in memory
    and nothing is copied to turn it round; for a small one reductions run along the contexts.
    """
    n_replicas, n_contexts, n_queries, d_vocab = logits.shape
    if d_vocab <= WIDE or targets.ndim == 4 or targets.shape[-1] < n_contexts:
        turned = logits.transpose(0, 3, 2, 1)
        loss, d_logits = forward_backward(backend, turned, targets, sample_weights)
        return loss, d_logits.transpose(0, 3, 2, 1)
    if sample_weights.shape[1:] != (1, 1):
        full = (n_replicas, n_queries, n_contexts)
        sample_weights = backend.xp.broadcast_to(sample_weights, full).swapaxes(1, 2)
    loss, d_logits = backend.cross_entropy(
        logits.reshape(n_replicas, -1, d_vocab).swapaxes(1, 2),
        targets.swapaxes(1, 2).reshape(n_replicas, -1),
        sample_weights.reshape(n_replicas, -1),
    )
    return loss, d_logits.swapaxes(1, 2).reshape(logits.shape)
