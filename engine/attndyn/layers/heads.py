"""Multi-head attention over states.

States are `(R, B, n, model)`: replica, context, site, model. B is 1 where all contexts have the same states,
as tokens have before the first attention over counts: what depends on the states only is then computed
once, and broadcasts over the contexts' log-weights.

Per head: queries x W_Q, keys x W_K, values x W_V, attention softmax(scale · q kᵀ + bias), and the heads'
outputs side by side, times W_O. Without W_V a head's values are its own d_head columns of x; without W_O
the heads' outputs are the output.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from attndyn.backend import Array, Backend


@dataclass(frozen=True)
class Cache:
    """What the backward pass needs of a forward pass; heads are `(R, B, head, n, d_head)`.

    Queries are scaled, and keys turned, `(R, B, head, d_head, n)`.
    """

    x_query: Array
    x: Array
    queries: Array
    keys: Array
    values: Array
    attention: Array
    mixed: Array


def bias(backend: Backend, log_weights: Array, n_sites: int, causal: bool) -> Array:
    """What is added to the scores: log-weights `(R, K, B)`, and -inf where a query may not look.

    Returns:
        `(R, B, 1, 1, K)`, or `(R, B, 1, query, K)` if causal, all sites being queries.
    """
    xp = backend.xp
    weights = log_weights.swapaxes(1, 2)[:, :, None, None, :]
    if not causal:
        return weights
    later = xp.arange(n_sites)[None, :] > xp.arange(n_sites)[:, None]
    return weights + xp.where(later, -xp.inf, 0.0).astype(backend.dtype)


def forward(
    backend: Backend,
    x_query: Array,
    x: Array,
    weights: Mapping[str, Array],
    scores_bias: Array,
    scale: float,
) -> tuple[Array, Cache]:
    """Attention of the sites `x_query (R, B, q, model)` to the sites `x (R, B, n, model)`.

    Args:
        backend: where the arrays live.
        x_query: states of the queries.
        x: states of the keys.
        weights: `W_Q`, `W_K` and, where there are such, `W_V` `(R, head, model, d_head)`, `W_O`
            `(R, head, d_head, model)`.
        scores_bias: added to the scores, see `bias`.
        scale: factor on the scores.

    Returns:
        The output `(R, B, q, model)`, and what `backward` needs.
    """
    n_heads = weights["W_Q"].shape[1]
    queries = _project(x_query, weights["W_Q"]) * scale
    keys = _turned(backend, _project(x, weights["W_K"]))
    values = _project(x, weights["W_V"]) if "W_V" in weights else split(x, n_heads)
    attention = backend.weighted_softmax(queries @ keys, scores_bias, axis=4)
    mixed = join(attention @ values)
    output = mixed @ _rows(weights["W_O"])[:, None] if "W_O" in weights else mixed
    return output, Cache(x_query, x, queries, keys, values, attention, mixed)


def backward(
    backend: Backend, d_output: Array, cache: Cache, weights: Mapping[str, Array], scale: float
) -> tuple[Array, Array, dict[str, Array]]:
    """Gradients of `x_query`, of `x` and of the weights."""
    gradients = {}
    n_heads = weights["W_Q"].shape[1]
    if "W_O" in weights:
        w_o = _rows(weights["W_O"])
        gradients["W_O"] = _weight_gradient(cache.mixed, d_output).reshape(weights["W_O"].shape)
        d_output = d_output @ w_o.swapaxes(1, 2)[:, None]
    d_mixed = split(d_output, n_heads)
    shared = cache.x.shape[1]
    d_attention = d_mixed @ _turned(backend, cache.values)
    d_values = fold(backend, cache.attention.swapaxes(-1, -2) @ d_mixed, shared)
    d_scores = backend.softmax_backward(cache.attention, d_attention, axis=4)
    d_scores = fold(backend, d_scores, cache.queries.shape[1])
    d_queries = (d_scores @ cache.keys.swapaxes(-1, -2)) * scale
    d_keys = fold(backend, d_scores.swapaxes(-1, -2) @ cache.queries, shared)
    d_x_query, gradients["W_Q"] = _project_backward(d_queries, cache.x_query, weights["W_Q"])
    d_x, gradients["W_K"] = _project_backward(d_keys, cache.x, weights["W_K"])
    if "W_V" in weights:
        d_x_values, gradients["W_V"] = _project_backward(d_values, cache.x, weights["W_V"])
    else:
        d_x_values = join(d_values)
    return d_x_query, d_x + d_x_values, gradients


def split(x: Array, n_heads: int) -> Array:
    """`(R, B, n, head · d_head)` as `(R, B, head, n, d_head)`."""
    return x.reshape(*x.shape[:3], n_heads, -1).swapaxes(2, 3)


def join(heads: Array) -> Array:
    """`(R, B, head, n, d_head)` as `(R, B, n, head · d_head)`."""
    swapped = heads.swapaxes(2, 3)
    return swapped.reshape(*swapped.shape[:3], -1)


def fold(backend: Backend, d: Array, n_contexts: int) -> Array:
    """Sum over the contexts of what was computed once for all of them."""
    return backend.xp.sum(d, axis=1, keepdims=True) if n_contexts == 1 < d.shape[1] else d


def _turned(backend: Backend, heads: Array) -> Array:
    """`(R, B, head, n, d_head)` as `(R, B, head, d_head, n)`, in this order in memory.

    Products with narrow heads spend most of their time on a right operand that is a turned view (measured
    with OpenBLAS, d_head 8: three times that of a copy).
    """
    return backend.xp.ascontiguousarray(heads.swapaxes(-1, -2))


def _columns(w: Array) -> Array:
    """`(R, head, model, d_head)` as `(R, model, head · d_head)`."""
    return w.swapaxes(1, 2).reshape(w.shape[0], w.shape[2], -1)


def _rows(w: Array) -> Array:
    """`(R, head, d_head, model)` as `(R, head · d_head, model)`."""
    return w.reshape(w.shape[0], -1, w.shape[3])


def _project(x: Array, w: Array) -> Array:
    n_replicas, _, _, width = x.shape
    flat = x.reshape(n_replicas, -1, width) @ _columns(w)
    return split(flat.reshape(*x.shape[:3], -1), w.shape[1])


def _project_backward(d_heads: Array, x: Array, w: Array) -> tuple[Array, Array]:
    d = join(d_heads)
    n_replicas, n_heads, width, d_head = w.shape
    d_flat = d.reshape(n_replicas, -1, d.shape[3])
    d_x = (d_flat @ _columns(w).swapaxes(1, 2)).reshape(x.shape)
    d_w = _weight_gradient(x, d).reshape(n_replicas, width, n_heads, d_head).swapaxes(1, 2)
    return d_x, d_w


def _weight_gradient(x: Array, d: Array) -> Array:
    """`Σ xᵀ d` over contexts and sites, `(R, i, o)`, for `x (R, B, n, i)` and `d (R, B, n, o)`."""
    n_replicas = x.shape[0]
    return x.reshape(n_replicas, -1, x.shape[3]).swapaxes(1, 2) @ d.reshape(n_replicas, -1, d.shape[3])
