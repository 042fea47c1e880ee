"""Exact Hessian-vector products of the one-layer models in the population limit.

The gradient is written out in pairs of a value and its rate of change along a direction; the product rule
and the rates of the two softmaxes are all that is needed.
No differences are taken, so a product is exact to rounding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from attndyn.theory.setting import Setting


class Pair(NamedTuple):
    """A matrix `value (i, j)` and its rates of change along n directions, `rate (n, i, j)`."""

    value: np.ndarray
    rate: np.ndarray

    def times(self, other: Pair) -> Pair:
        """The matrix product."""
        return Pair(self.value @ other.value, self.rate @ other.value + self.value @ other.rate)

    def entrywise(self, other: Pair) -> Pair:
        """The entrywise product."""
        return Pair(self.value * other.value, self.rate * other.value + self.value * other.rate)

    def plus(self, other: Pair) -> Pair:
        """The sum."""
        return Pair(self.value + other.value, self.rate + other.rate)

    def minus(self, other: Pair) -> Pair:
        """The difference."""
        return Pair(self.value - other.value, self.rate - other.rate)

    def scaled(self, factor: float | np.ndarray) -> Pair:
        """The product with what does not change."""
        return Pair(factor * self.value, factor * self.rate)

    def sum_of_rows(self) -> Pair:
        """The sum over j, `(i, 1)`."""
        return Pair(self.value.sum(axis=-1, keepdims=True), self.rate.sum(axis=-1, keepdims=True))

    def softmax_of_rows(self) -> Pair:
        """The softmax over j; its rate is p (ẋ − Σ p ẋ)."""
        p = np.exp(self.value - self.value.max(axis=-1, keepdims=True))
        p /= p.sum(axis=-1, keepdims=True)
        return Pair(p, p * (self.rate - (p * self.rate).sum(axis=-1, keepdims=True)))

    @property
    def turned(self) -> Pair:
        """The transpose."""
        return Pair(self.value.swapaxes(-1, -2), self.rate.swapaxes(-1, -2))


@dataclass(frozen=True)
class Tangents:
    """What a direction changes: attention, logits and gradients, each with its rate.

    Attributes:
        attention: A `(query token, key token)`.
        logits: `(query token, next_token)`.
        gradients: of every parameter, by name.
    """

    attention: Pair
    logits: Pair
    gradients: dict[str, Pair]

    @classmethod
    def of(
        cls, setting: Setting, matrices: Mapping[str, np.ndarray], directions: Mapping[str, np.ndarray]
    ) -> Self:
        """At `matrices (*shape)` along n directions `(n, *shape)`, both by the parameters' names."""
        w = {name: Pair(matrices[name], directions[name]) for name in matrices}
        w_0, w_q, w_k, w_1, s = w["W_0"], w["W_Q"], w["W_K"], w["W_1"], setting.score_scale
        queries, keys = w_0.times(w_q), w_0.times(w_k)
        scores = queries.times(keys.turned).scaled(s)
        log_pi = np.log(setting.pi)
        attention = Pair(scores.value + log_pi, scores.rate).softmax_of_rows()
        values = w_0.times(w["W_V"]) if setting.value_projection else w_0
        predictions = values.times(w_1)
        logits = attention.times(predictions)
        if setting.residual:
            logits = logits.plus(w_0.times(w_1))

        p = logits.softmax_of_rows()
        d_logits = Pair(p.value - setting.transition, p.rate).scaled(setting.pi[:, None])
        d_attention = d_logits.times(predictions.turned)
        mean = attention.entrywise(d_attention).sum_of_rows()
        d_scores = attention.entrywise(d_attention.minus(mean)).scaled(s)
        d_queries, d_keys = d_scores.times(keys), d_scores.turned.times(queries)
        d_predictions = attention.turned.times(d_logits)
        d_values = d_predictions.times(w_1.turned)
        gradients = {
            "W_Q": w_0.turned.times(d_queries),
            "W_K": w_0.turned.times(d_keys),
            "W_1": values.turned.times(d_predictions),
            "W_0": d_queries.times(w_q.turned).plus(d_keys.times(w_k.turned)),
        }
        if setting.value_projection:
            gradients["W_V"] = w_0.turned.times(d_values)
            d_values = d_values.times(w["W_V"].turned)
        gradients["W_0"] = gradients["W_0"].plus(d_values)
        if setting.residual:
            gradients["W_0"] = gradients["W_0"].plus(d_logits.times(w_1.turned))
            gradients["W_1"] = gradients["W_1"].plus(w_0.turned.times(d_logits))
        return cls(attention, logits, gradients)
