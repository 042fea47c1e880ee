"""One block of a transformer: attention and, if there is one, an MLP, each added to the stream it reads.

    x ← x + attention(norm(x));  x ← x + mlp(norm(x))        normalised before
    x ← norm(x + attention(x));  x ← norm(x + mlp(x))        normalised after

States are `(R, B, n, model)` as in `heads`; weights are one layer's, `(R, ...)`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from attndyn.backend import Array, Backend
from attndyn.layers import heads, layer_norm, mlp

Norm = Literal["none", "pre", "post"]


@dataclass(frozen=True)
class Block:
    """What is the same in all layers.

    Attributes:
        backend: where the arrays live.
        scale: factor on the scores of attention.
        norm: where states are normalised; the weights are then `gain` and `shift`, `(R, block, model)`.
        activation: of the MLP, whose weights are `W_in` and `W_out`; None if there is none.
        residual: the block's output is added to what it reads; without, it takes its place.
    """

    backend: Backend
    scale: float
    norm: Norm = "none"
    activation: mlp.Activation | None = None
    residual: bool = True

    def forward(
        self, x: Array, weights: Mapping[str, Array], scores_bias: Array, last_only: bool = False
    ) -> tuple[Array, Any]:
        """The stream after the block, of all sites or of the last one only; and what `backward` needs."""

        def attend(h: Array) -> tuple[Array, Any]:
            if last_only:
                return heads.forward(
                    self.backend, h[:, :, -1:], h, weights, scores_bias[..., -1:, :], self.scale
                )
            return heads.forward(self.backend, h, h, weights, scores_bias, self.scale)

        x, attention_cache = self._add(x, weights, 0, attend, last_only)
        if self.activation is None:
            return x, (attention_cache, None)
        activation = self.activation

        def perceive(h: Array) -> tuple[Array, Any]:
            return mlp.forward(self.backend, h, weights["W_in"], weights["W_out"], activation)

        x, mlp_cache = self._add(x, weights, 1, perceive)
        return x, (attention_cache, mlp_cache)

    def backward(
        self, d_x: Array, cache: Any, weights: Mapping[str, Array]
    ) -> tuple[Array, dict[str, Array]]:
        """Gradients of the stream before the block, and of the weights."""
        attention_cache, mlp_cache = cache
        gradients: dict[str, Array] = {}
        norms: list[tuple[Array, Array]] = []
        if self.activation is not None:
            activation = self.activation

            def unperceive(d: Array, inner: Any) -> Array:
                d_h, gradients["W_in"], gradients["W_out"] = mlp.backward(
                    self.backend, d, inner, weights["W_in"], weights["W_out"], activation
                )
                return d_h

            d_x = self._add_backward(d_x, mlp_cache, weights, 1, unperceive, norms)

        def unattend(d: Array, inner: heads.Cache) -> Array:
            d_query, d_h, found = heads.backward(self.backend, d, inner, weights, self.scale)
            gradients.update(found)
            return add_to_last(d_h, d_query)

        d_x = self._add_backward(d_x, attention_cache, weights, 0, unattend, norms)
        if self.norm != "none":
            for name, parts in zip(("gain", "shift"), zip(*reversed(norms), strict=True), strict=True):
                gradients[name] = self.backend.xp.stack(parts, axis=1)
        return d_x, gradients

    def _add(
        self,
        x: Array,
        weights: Mapping[str, Array],
        place: int,
        inner: Callable[[Array], tuple[Array, Any]],
        last_only: bool = False,
    ) -> tuple[Array, Any]:
        """`x + inner(x)`, normalised before or after."""
        norm_cache = None
        h = x
        if self.norm == "pre":
            h, norm_cache = self._norm(x, weights, place)
        added, inner_cache = inner(h)
        x = (x[:, :, -1:] if last_only else x) + added if self.residual else added
        if self.norm == "post":
            x, norm_cache = self._norm(x, weights, place)
        return x, (inner_cache, norm_cache)

    def _add_backward(
        self,
        d_x: Array,
        cache: Any,
        weights: Mapping[str, Array],
        place: int,
        inner: Callable[[Array, Any], Array],
        norms: list[tuple[Array, Array]],
    ) -> Array:
        inner_cache, norm_cache = cache
        if self.norm == "post":
            d_x = self._norm_backward(d_x, norm_cache, weights, place, norms)
        d_h = inner(d_x, inner_cache)
        if self.norm == "pre":
            d_h = self._norm_backward(d_h, norm_cache, weights, place, norms)
        return add_to_last(d_h, heads.fold(self.backend, d_x, d_h.shape[1])) if self.residual else d_h

    def _norm(self, x: Array, weights: Mapping[str, Array], place: int) -> tuple[Array, layer_norm.Cache]:
        return layer_norm.forward(self.backend, x, weights["gain"][:, place], weights["shift"][:, place])

    def _norm_backward(
        self,
        d_x: Array,
        cache: layer_norm.Cache,
        weights: Mapping[str, Array],
        place: int,
        norms: list[tuple[Array, Array]],
    ) -> Array:
        d_h, d_gain, d_shift = layer_norm.backward(self.backend, d_x, cache, weights["gain"][:, place])
        norms.append((d_gain, d_shift))
        return d_h


def add_to_last(d_all: Array, d_some: Array) -> Array:
    """Add a gradient of all sites, or of the last one, to a gradient of all sites."""
    if d_some.shape[2] == d_all.shape[2]:
        return d_all + d_some
    d_all[:, :, -1:] += d_some
    return d_all
