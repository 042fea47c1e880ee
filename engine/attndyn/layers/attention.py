"""Weighted-key attention: softmax(scores + log w) over the keys of each query.

One formula for positions (w = 1), counts (w = n) and the population limit (w = π): without positions, equal
keys share a score, so n of them add log n to it. Two forms of the same layer:

- *over tokens*: scores depend on the (key token, query token) pair only and are a table `(R, K, n)`;
- *over positions*: every key of every context has its own score `(R, B, Q, K)`.
"""

from __future__ import annotations

from attndyn.backend import Array, Backend


def over_tokens(backend: Backend, table: Array, query: Array | None, log_weights: Array) -> Array:
    """Attention of each query to each token.

    Args:
        backend: where the arrays live.
        table: scores `(R, K, n)` of key token against query token, K = n = d_vocab.
        query: query tokens `(R, Q, B)`, or None for all tokens in order.
        log_weights: `(R, K, B)`.

    Returns:
        Probabilities `(R, K, Q, B)`, summing to 1 over K.
    """
    if query is None:
        scores = table[..., None]
    else:
        n_replicas, n_keys, _ = table.shape
        columns = backend.take_columns(table, query.reshape(n_replicas, -1))
        scores = columns.reshape(n_replicas, n_keys, *query.shape[1:])
    return backend.weighted_softmax(scores, log_weights[:, :, None, :], axis=1)


def over_tokens_backward(
    backend: Backend, d_attention: Array, attention: Array, query: Array | None, n_tokens: int
) -> Array:
    """Gradient of the score table `(R, K, n_tokens)`, given that of the probabilities `(R, K, Q, B)`."""
    d_scores = backend.softmax_backward(attention, d_attention, axis=1)
    if query is None:
        return backend.xp.sum(d_scores, axis=3)
    flat = d_scores.reshape(*d_scores.shape[:2], -1)
    return backend.add_columns(flat, query.reshape(query.shape[0], -1), n_tokens)


def over_positions(backend: Backend, queries: Array, keys: Array, log_weights: Array, scale: float) -> Array:
    """Attention of each query to each position.

    Args:
        backend: where the arrays live.
        queries: `(R, B, Q, d_head)`.
        keys: `(R, B, K, d_head)`.
        log_weights: `(R, K, B)`, or broadcastable to it.
        scale: factor on the scores.

    Returns:
        Probabilities `(R, B, Q, K)`, summing to 1 over K.
    """
    scores = queries @ keys.swapaxes(-1, -2)
    scores *= scale
    return backend.weighted_softmax(scores, log_weights.transpose(0, 2, 1)[:, :, None, :], axis=3)


def over_positions_backward(
    backend: Backend, d_attention: Array, attention: Array, queries: Array, keys: Array, scale: float
) -> tuple[Array, Array]:
    """Gradients of queries and keys, given that of the probabilities `(R, B, Q, K)`."""
    d_scores = backend.softmax_backward(attention, d_attention, axis=3)
    d_scores *= scale
    return d_scores @ keys, d_scores.swapaxes(-1, -2) @ queries
