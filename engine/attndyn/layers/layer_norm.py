"""Layer normalisation over the model axis: gain · (x − mean) / √(variance + 1e-5) + shift.

`x (R, B, n, model)`, `gain (R, model)`, `shift (R, model)`.
"""

from __future__ import annotations

from attndyn.backend import Array, Backend

EPS = 1e-5

Cache = tuple[Array, Array]


def forward(backend: Backend, x: Array, gain: Array, shift: Array) -> tuple[Array, Cache]:
    """The normalised states, and what `backward` needs."""
    xp = backend.xp
    centred = x - xp.mean(x, axis=-1, keepdims=True)
    inverse = 1 / xp.sqrt(xp.mean(centred * centred, axis=-1, keepdims=True) + EPS)
    unit = centred * inverse
    return unit * gain[:, None, None] + shift[:, None, None], (unit, inverse)


def backward(backend: Backend, d_y: Array, cache: Cache, gain: Array) -> tuple[Array, Array, Array]:
    """Gradients of `x`, of the gain and of the shift."""
    xp = backend.xp
    unit, inverse = cache
    d_gain, d_shift = xp.sum(d_y * unit, axis=(1, 2)), xp.sum(d_y, axis=(1, 2))
    d_unit = d_y * gain[:, None, None]
    mean = xp.mean(d_unit, axis=-1, keepdims=True)
    along = xp.mean(d_unit * unit, axis=-1, keepdims=True)
    return (d_unit - mean - unit * along) * inverse, d_gain, d_shift
