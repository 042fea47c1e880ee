"""A two-layer perceptron without biases at every site: y = f(x W_in) W_out, f ReLU or GELU.

`x (R, B, n, model)`, `W_in (R, model, hidden)`, `W_out (R, hidden, model)`. GELU is the one by the error
function's tanh approximation (arXiv:1606.08415, section 2).
"""

from __future__ import annotations

import math
from typing import Literal

from attndyn.backend import Array, Backend

Activation = Literal["relu", "gelu"]
Cache = tuple[Array, Array, Array]

_SLOPE, _CUBIC = math.sqrt(2 / math.pi), 0.044715


def forward(
    backend: Backend, x: Array, w_in: Array, w_out: Array, activation: Activation
) -> tuple[Array, Cache]:
    """The output `(R, B, n, model)`, and what `backward` needs."""
    flat = x.reshape(x.shape[0], -1, x.shape[3])
    before = flat @ w_in
    after = _value(backend, before, activation)
    return (after @ w_out).reshape(x.shape), (flat, before, after)


def backward(
    backend: Backend, d_y: Array, cache: Cache, w_in: Array, w_out: Array, activation: Activation
) -> tuple[Array, Array, Array]:
    """Gradients of `x`, `W_in` and `W_out`."""
    flat, before, after = cache
    d_flat = d_y.reshape(flat.shape)
    d_before = (d_flat @ w_out.swapaxes(1, 2)) * _slope(backend, before, activation)
    d_x = (d_before @ w_in.swapaxes(1, 2)).reshape(d_y.shape)
    return d_x, flat.swapaxes(1, 2) @ d_before, after.swapaxes(1, 2) @ d_flat


def _value(backend: Backend, x: Array, activation: Activation) -> Array:
    xp = backend.xp
    if activation == "relu":
        return xp.maximum(x, 0)
    return 0.5 * x * (1 + xp.tanh(_SLOPE * (x + _CUBIC * x * x * x)))


def _slope(backend: Backend, x: Array, activation: Activation) -> Array:
    xp = backend.xp
    if activation == "relu":
        return (x > 0).astype(x.dtype)
    tanh = xp.tanh(_SLOPE * (x + _CUBIC * x * x * x))
    return 0.5 * (1 + tanh) + 0.5 * x * (1 - tanh * tanh) * _SLOPE * (1 + 3 * _CUBIC * x * x)
