"""Projection: `y = x W`, the product behind embedding, queries, keys, values and unembedding.

`x (..., n, i)`, `W (..., i, o)`; leading axes broadcast, the replica axis first.
"""

from __future__ import annotations

from attndyn.backend import Array


def forward(x: Array, w: Array) -> Array:
    """`x W`, shape `(..., n, o)`."""
    return x @ w


def backward(d_y: Array, x: Array, w: Array) -> tuple[Array, Array]:
    """Gradients of `x` and of `W`, for inputs whose leading axes are equal."""
    return d_y @ w.swapaxes(-1, -2), x.swapaxes(-1, -2) @ d_y


def backward_shared(d_y: Array, x: Array, w: Array) -> tuple[Array, Array]:
    """`backward` for `x (R, B, n, i)` and a weight `(R, i, o)` that all contexts share."""
    flat_d_y, flat_x = (array.reshape(array.shape[0], -1, array.shape[-1]) for array in (d_y, x))
    d_x, d_w = backward(flat_d_y, flat_x, w)
    return d_x.reshape(x.shape), d_w
