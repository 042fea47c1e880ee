"""Gradient flow on the rank-one manifold: the whole model with one direction of the embedding space.

Where all rows of W_0, all columns of W_1 and the row spaces of W_Q and W_K lie along one unit vector ŵ,

    W_0 = u ŵᵀ    W_1 = ŵ vᵀ    W_Q = ŵ aᵀ    W_K = ŵ bᵀ    [W_V = c ŵ ŵᵀ]

they stay so under gradient flow, for every chain. With a = ±b of length α (any other part of them dies out
beside the one that grows) what is left is a flow in 2d + 2 dimensions, `(u, v, c, α)`, that starts where the
linear theory of the origin ends and knows nothing of the width m but the scale of the scores.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from attndyn.theory.setting import Setting


@dataclass(frozen=True, eq=False)
class RankOne:
    """The reduced flow of a setting.

    Attributes:
        setting: the chain and the model.
        sign: of b against a: +1 where attention grows towards frequent tokens, -1 where it grows away.
    """

    setting: Setting
    sign: float = 1.0

    def pack(self, u: np.ndarray, v: np.ndarray, c: float = 1.0, alpha: float = 0.0) -> np.ndarray:
        """A state `(2 token + 2,)`; without W_V, c is 1 and stays."""
        return np.r_[u, v, c, alpha]

    def unpack(self, state: np.ndarray) -> tuple[np.ndarray, np.ndarray, float, float]:
        """u `(token,)`, v `(next_token,)`, c and α of a state."""
        d = self.setting.d_vocab
        return state[:d], state[d : 2 * d], float(state[-2]), float(state[-1])

    def scores(self, state: np.ndarray) -> np.ndarray:
        """Z `(query, key)`, the scores of attention before their softmax."""
        u, _, _, alpha = self.unpack(state)
        return self.sign * self.setting.score_scale * alpha**2 * np.outer(u, u)

    def attention(self, state: np.ndarray) -> np.ndarray:
        """A `(query, key)` at the stationary weights."""
        return softmax(np.log(self.setting.pi) + self.scores(state), axis=1)

    def loss(self, state: np.ndarray) -> float:
        """Cross-entropy of the population in nats."""
        logits = self._logits(state)[2]
        logits = logits - logits.max(axis=1, keepdims=True)
        log_predicted = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        return float(-self.setting.pi @ (self.setting.transition * log_predicted).sum(axis=1))

    def velocity(self, state: np.ndarray) -> np.ndarray:
        """Time derivative of a state: minus the gradient, but for the sign and the length of α."""
        du, dv, dc, dq = self.gradient(state)
        alpha = state[-1]
        return -np.r_[du, dv, dc if self.setting.value_projection else 0.0, self.sign * dq * alpha]

    def gradient(self, state: np.ndarray) -> tuple[np.ndarray, np.ndarray, float, float]:
        """Derivatives of the loss by u, v, c and q = aᵀb."""
        u, v, c, alpha = self.unpack(state)
        setting, scale = self.setting, self.setting.score_scale
        attention, mixed, logits = self._logits(state)
        d_logits = setting.pi[:, None] * (softmax(logits, axis=1) - setting.transition)
        d_read = d_logits @ v  # of what each query reads, c · mixed [+ u]
        d_mixed = c * d_read
        d_attention = np.outer(d_mixed, u)
        d_scores = attention * (d_attention - (attention * d_attention).sum(axis=1, keepdims=True))
        q = self.sign * alpha**2
        d_u = attention.T @ d_mixed + scale * q * (d_scores + d_scores.T) @ u
        if setting.residual:
            d_u = d_u + d_read
        read = c * mixed + (u if setting.residual else 0.0)
        return d_u, d_logits.T @ read, float(mixed @ d_read), float(scale * u @ d_scores @ u)

    def _logits(self, state: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Attention `(query, key)`, the mixed embedding `(query,)`, logits `(query, next_token)`."""
        u, v, c, _ = self.unpack(state)
        attention = self.attention(state)
        mixed = attention @ u
        read = c * mixed + (u if self.setting.residual else 0.0)
        return attention, mixed, np.outer(read, v)
