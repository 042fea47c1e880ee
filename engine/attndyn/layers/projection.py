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
