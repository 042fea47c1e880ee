"""Weighted-key attention over tokens: softmax(scores + log w) over the keys of each query.

One formula for positions (w = 1), counts (w = n) and the population limit (w = π): without positions, equal
keys share a score, so n of them add log n to it. Scores depend on the pair (key token, query token) only and
are a table `(R, K, n)`. Attention over states, whatever their sites, is `heads`.
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
