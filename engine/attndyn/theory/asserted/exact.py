"""The exact population gradient of pure attention, written so that complex parameters may enter.

An analytic continuation (no absolute values, no conjugates) is what complex steps and Cauchy's formula need.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from attndyn.theory.analytic import softmax

SHORT_NAMES = ("W_0", "W_1", "W_Q", "W_K")


@dataclass(frozen=True, eq=False)
class Exact:
    """Pure attention without W_V in the population limit: A_ij ∝ π_j exp(Z_ij), logits = A W_0 W_1.

    Attributes:
        pi: stationary distribution π `(token,)`.
        transition: P `(token, next_token)`, rows sum to one.
        width: d_model m.
        score_scale: s in Z = s W_0 W_Q W_Kᵀ W_0ᵀ; 1/√m unless given.
    """

    pi: np.ndarray
    transition: np.ndarray
    width: int
    score_scale: float | None = None

    @classmethod
    def sticky(cls, pi: np.ndarray, lam: float, width: int) -> Exact:
        """On the sticky chain P = λ I + (1 − λ) 1 πᵀ."""
        return cls(pi, lam * np.eye(len(pi)) + (1 - lam) * pi, width)

    @property
    def scale(self) -> float:
        """s, the factor of the scores."""
        return self.width**-0.5 if self.score_scale is None else self.score_scale

    @property
    def shapes(self) -> dict[str, tuple[int, int]]:
        """Shapes of the weights by short name, in the order of the flat vector."""
        d, m = len(self.pi), self.width
        return {"W_0": (d, m), "W_1": (m, d), "W_Q": (m, m), "W_K": (m, m)}

    @property
    def size(self) -> int:
        """Length of the flat vector."""
        return sum(rows * columns for rows, columns in self.shapes.values())

    def pack(self, weights: Mapping[str, np.ndarray]) -> np.ndarray:
        """The weights as one flat vector."""
        return np.concatenate([np.ravel(weights[name]) for name in SHORT_NAMES])

    def unpack(self, flat: np.ndarray) -> dict[str, np.ndarray]:
        """The weights of a flat vector by short name."""
        ends = np.cumsum([rows * columns for rows, columns in self.shapes.values()])
        parts = np.split(flat, ends[:-1])
        return {name: part.reshape(self.shapes[name]) for name, part in zip(self.shapes, parts, strict=True)}

    def initial(self, std: float, seed: int) -> np.ndarray:
        """Independent normals of standard deviation `std`, flat."""
        return std * np.random.default_rng(seed).standard_normal(self.size)

    def loss(self, flat: np.ndarray) -> float:
        """Σ_i π_i CE(P_i, softmax(A_i M)), in nats."""
        w_0, w_1, *_ = self.unpack(flat).values()
        logits = self.attention(flat) @ w_0 @ w_1
        return float(-np.sum(self.pi[:, None] * self.transition * np.log(softmax(logits))))

    def scores(self, flat: np.ndarray) -> np.ndarray:
        """Z `(query, key)`."""
        w_0, _, w_q, w_k = self.unpack(flat).values()
        return self.scale * (w_0 @ w_q) @ (w_0 @ w_k).T

    def attention(self, flat: np.ndarray) -> np.ndarray:
        """A `(query, key)`, attention over tokens."""
        return softmax(self.scores(flat) + np.log(self.pi))

    def residuals(self, flat: np.ndarray) -> np.ndarray:
        """D `(token, next_token)`, the gradient in the logits: D_i = π_i (softmax(A_i M) − P_i)."""
        w_0, w_1, *_ = self.unpack(flat).values()
        return self.pi[:, None] * (softmax(self.attention(flat) @ w_0 @ w_1) - self.transition)

    def pull(self, flat: np.ndarray) -> np.ndarray:
        """G = −Aᵀ D `(token, next_token)`: new directions x of W_0 and y of W_1 obey ẋ = G y, ẏ = Gᵀ x."""
        return np.asarray(-self.attention(flat).T @ self.residuals(flat))

    def gradient(self, flat: np.ndarray) -> np.ndarray:
        """∇L, flat; complex where `flat` is."""
        w_0, w_1, w_q, w_k = self.unpack(flat).values()
        attention = self.attention(flat)
        residuals = self.pi[:, None] * (softmax(attention @ w_0 @ w_1) - self.transition)
        d_table = attention.T @ residuals
        d_attention = residuals @ (w_0 @ w_1).T
        mean = np.sum(attention * d_attention, axis=1, keepdims=True)
        d_scores = self.scale * attention * (d_attention - mean)
        queries, keys = w_0 @ w_q, w_0 @ w_k
        gradients = {
            "W_0": d_table @ w_1.T + d_scores @ keys @ w_q.T + d_scores.T @ queries @ w_k.T,
            "W_1": w_0.T @ d_table,
            "W_Q": w_0.T @ d_scores @ keys,
            "W_K": w_0.T @ d_scores.T @ queries,
        }
        return self.pack(gradients)
