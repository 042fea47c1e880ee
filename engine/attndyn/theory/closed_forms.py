"""Rates and plateaus of pure attention without W_V on a sticky chain, under population gradient flow.

Throughout, `pi (token,)` is the stationary distribution and ℓ = log π − mean(log π).
"""

from __future__ import annotations

import numpy as np
from scipy.special import entr


def condensation_rate(pi: np.ndarray) -> float:
    """Growth rate σ = ‖π‖ ‖π − 1/d‖ of (W_0, W_1) at the origin, per unit of time.

    There dW_0/dt = π (π − 1/d)ᵀ W_1ᵀ and dW_1/dt = W_0ᵀ π (π − 1/d)ᵀ: one pair of directions, in which the
    two grow at the product of the norms.
    """
    return float(np.linalg.norm(pi) * np.linalg.norm(pi - 1 / len(pi)))


def embedding_scale(pi: np.ndarray) -> float:
    """|w| at the first critical point, where W_0 = π wᵀ: row i of the embedding has norm |w| π_i.

    The model predicts π there, so πᵀ W_0 W_1 = ℓᵀ; gradient flow from the origin keeps W_0 and W_1 balanced,
    ‖W_0‖ = ‖W_1‖, whence |w|² = ‖ℓ‖ / ‖π‖³.
    """
    return float(np.sqrt(np.linalg.norm(_centred_log(pi)) / np.linalg.norm(pi) ** 3))


def focus_rate(pi: np.ndarray, lam: float, d_head: int) -> float:
    """Growth rate κ of (W_Q, W_K) along w at the first critical point, per unit of time.

    κ = (λ/√m) |w|² (Σπ³ − ‖π‖⁴) (Σπ²ℓ/‖π‖² − Σπℓ), from the attention block of the linearisation there.

    Args:
        pi: stationary distribution.
        lam: the chain's probability λ to keep its token.
        d_head: m in the scale 1/√m of the scores.
    """
    centred, squares = _centred_log(pi), pi @ pi
    spread = np.sum(pi**3) - squares**2
    pull = (pi**2 @ centred) / squares - pi @ centred
    return float(lam / np.sqrt(d_head) * embedding_scale(pi) ** 2 * spread * pull)


def value_embedding_scale(pi: np.ndarray) -> float:
    """|w| at the first critical point of a model with W_V: |w|³ = ‖ℓ‖ / ‖π‖⁴.

    As without, W_0 = π wᵀ and πᵀ W_0 W_V W_1 = ℓᵀ; balance makes the three norms equal, to |w| ‖π‖.
    """
    return float(np.cbrt(np.linalg.norm(_centred_log(pi)) / np.linalg.norm(pi) ** 4))


def coupling(pi: np.ndarray, transition: np.ndarray) -> float:
    """How far attention to frequent tokens helps on the first plateau: κ over |w|² and the scores' scale.

    (Σπ³ − ‖π‖⁴) (Σ_i π_i² (Pℓ)_i / ‖π‖² − Σπℓ) for any chain. The first factor is never negative; the second
    is how much more often frequent tokens follow frequent tokens than π has it, and may be. A sticky chain
    has λ (Σπ²ℓ/‖π‖² − Σπℓ) there.

    Args:
        pi: stationary distribution `(token,)`.
        transition: P `(token, next_token)`.
    """
    centred, squares = _centred_log(pi), pi @ pi
    pull = pi**2 @ transition @ centred / squares - pi @ centred
    return float((np.sum(pi**3) - squares**2) * pull)


def entropy(pi: np.ndarray) -> float:
    """Entropy of π in nats, the loss of predicting π; terms of probability 0 count nothing."""
    return float(entr(pi).sum())


def entropy_rate(pi: np.ndarray, transition: np.ndarray) -> float:
    """Mean entropy of the rows of P under π in nats: the loss of predicting the chain itself."""
    return float(pi @ entr(transition).sum(axis=1))


def _centred_log(pi: np.ndarray) -> np.ndarray:
    return np.log(pi) - np.log(pi).mean()
