"""Embedding: a row of W_0 for every token of every context."""

from __future__ import annotations

from attndyn.backend import Array, Backend


def forward(backend: Backend, w_0: Array, tokens: Array) -> Array:
    """States `(R, B, n, model)` of `tokens (R, n, B)`, from `W_0 (R, token, model)`."""
    replica = backend.xp.arange(w_0.shape[0])[:, None, None]
    return w_0[replica, tokens.swapaxes(1, 2)]


def backward(backend: Backend, d_states: Array, tokens: Array, d_vocab: int) -> Array:
    """Gradient of W_0 `(R, token, model)`, given that of the states `(R, B, n, model)`."""
    n_replicas, width = d_states.shape[0], d_states.shape[-1]
    values = d_states.reshape(n_replicas, -1, width).swapaxes(1, 2)
    index = tokens.swapaxes(1, 2).reshape(n_replicas, -1)
    return backend.add_columns(values, index, d_vocab).swapaxes(1, 2)
