"""Gradient flow on the rank-one manifold: the whole model with one direction of the embedding space.

Where all rows of W_0, all columns of W_1 and the row spaces of W_Q and W_K lie along one unit vector ŵ,

    W_0 = u ŵᵀ    W_1 = ŵ vᵀ    W_Q = ŵ aᵀ    W_K = ŵ bᵀ    [W_V = c ŵ ŵᵀ]

they stay so under gradient flow, for every chain. Attention knows of a and b only q = aᵀb = ±(α² − β²), with
the lengths α of (a ± b)/2 and β of (a ∓ b)/2: one grows and the other decays at the same rate, so that αβ is
constant. What is left is a flow in 2d + 2 dimensions, `(u, v, c, α)`, that starts where the linear theory of
the origin ends and knows nothing of the width m but the scale of the scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from attndyn.theory.analytic import softmax
from attndyn.theory.setting import Setting


class Parts(NamedTuple):
    """What loss and gradient are made of, at one state."""

    attention: np.ndarray  # A (query, key)
    mixed: np.ndarray  # A u (query,)
    read: np.ndarray  # c A u [+ u], which the logits are v times (query,)
    predicted: np.ndarray  # (query, next_token)
    d_logits: np.ndarray  # dL = π (predicted − P) (query, next_token)


@dataclass(frozen=True, eq=False)
class RankOne:
    """The reduced flow of a setting. States may be complex, but for `loss`; so are c, α and q then.

    Attributes:
        setting: the chain and the model.
        sign: of q: +1 where attention grows towards frequent tokens, -1 where it grows away.
        product: α β, which the flow keeps; 0 if a and b are as long as each other and parallel.
    """

    setting: Setting
    sign: float = 1.0
    product: float = 0.0

    def pack(self, u: np.ndarray, v: np.ndarray, c: float = 1.0, alpha: float = 0.0) -> np.ndarray:
        """A state `(2 token + 2,)`; without W_V, c is 1 and stays."""
        return np.r_[u, v, c, alpha]

    def unpack(self, state: np.ndarray) -> tuple[np.ndarray, np.ndarray, Any, Any]:
        """u `(token,)`, v `(next_token,)`, c and α of a state."""
        d = self.setting.d_vocab
        return state[:d], state[d : 2 * d], state[-2], state[-1]

    def strength(self, state: np.ndarray) -> Any:
        """q = aᵀb."""
        alpha = state[-1]
        beta = self.product / alpha if self.product else 0.0
        return self.sign * (alpha * alpha - beta * beta)

    def scores(self, state: np.ndarray) -> np.ndarray:
        """Z `(query, key)`, the scores of attention before their softmax."""
        u = self.unpack(state)[0]
        return self.setting.score_scale * self.strength(state) * np.outer(u, u)

    def parts(self, state: np.ndarray) -> Parts:
        """Attention, what each query reads, predictions and dL."""
        setting, (u, v, c, _) = self.setting, self.unpack(state)
        attention = softmax(self.scores(state) + np.log(setting.pi))
        mixed = attention @ u
        read = c * mixed + u if setting.residual else c * mixed
        predicted = softmax(np.outer(read, v))
        return Parts(
            attention, mixed, read, predicted, setting.pi[:, None] * (predicted - setting.transition)
        )

    def loss(self, state: np.ndarray) -> float:
        """Cross-entropy of the population in nats."""
        logits = np.outer(self.parts(state).read, self.unpack(state)[1])
        logits = logits - logits.max(axis=1, keepdims=True)
        log_predicted = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        return float(-self.setting.pi @ (self.setting.transition * log_predicted).sum(axis=1))

    def velocity(self, state: np.ndarray) -> np.ndarray:
        """Time derivative of a state: minus the gradient, but for the sign and the length of α."""
        du, dv, dc, dq = self.gradient(state)
        alpha = state[-1]
        return -np.r_[du, dv, dc if self.setting.value_projection else 0.0, self.sign * dq * alpha]

    def gradient(self, state: np.ndarray) -> tuple[np.ndarray, np.ndarray, Any, Any]:
        """Derivatives of the loss by u, v, c and q."""
        setting, (u, v, c, _) = self.setting, self.unpack(state)
        attention, mixed, read, _, d_logits = self.parts(state)
        d_read = d_logits @ v
        d_mixed = c * d_read
        d_scores = setting.score_scale * d_mixed[:, None] * attention * (u - mixed[:, None])
        d_u = attention.T @ d_mixed + self.strength(state) * (d_scores + d_scores.T) @ u
        if setting.residual:
            d_u = d_u + d_read
        return d_u, d_logits.T @ read, mixed @ d_read, u @ d_scores @ u
