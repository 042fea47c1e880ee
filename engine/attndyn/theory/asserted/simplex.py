"""The two identities of softmax probabilities that the paper's Lemma B.1 calls directly verifiable."""

from __future__ import annotations

import numpy as np


def symmetric_probabilities(d: int, gap: float) -> np.ndarray:
    """p_sym `(token,)`: softmax of logits that are (gap, 0, …, 0) up to a constant, a symmetric group's."""
    powers = np.array([np.exp(gap)] + [1.0] * (d - 1))
    return powers / powers.sum()


def variance(probabilities: np.ndarray) -> np.ndarray:
    """Var(p) = diag(p) − p pᵀ `(token, token)`, the Jacobian of softmax."""
    return np.diag(probabilities) - np.outer(probabilities, probabilities)


def identity_errors(probabilities: np.ndarray, direction: np.ndarray) -> dict[str, float]:
    """How far Var(p) u = p_i u and Var(p) 1 = 0 are from holding, largest entry.

    The first holds for every u that sums to zero and lives on tokens of one and the same probability p_i:
    there pᵀu = p_i Σu = 0. p_i is read off the last token. The second holds for every p.
    """
    matrix = variance(probabilities)
    return {
        "eigenvector": float(np.abs(matrix @ direction - probabilities[-1] * direction).max()),
        "constants": float(np.abs(matrix.sum(axis=1)).max()),
    }
