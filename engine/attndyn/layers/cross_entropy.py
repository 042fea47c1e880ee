"""Cross-entropy of the next token, in nats: the loss, and the gradient of its logits."""

from __future__ import annotations

from attndyn.backend import Array, Backend


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
