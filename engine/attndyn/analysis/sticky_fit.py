"""The sticky chain P = λ I + (1 - λ) 1 πᵀ that is nearest to a chain, and how near it is."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attndyn.analysis.series import Array


class StickyFit(NamedTuple):
    """The fit, and what it misses.

    Attributes:
        lam: λ by least squares, rows weighted by π; negative where tokens follow themselves less than others.
        explained: share of the squared distance of P from independent tokens that a sticky chain, of λ in
            [0, 1), takes away; 0 where λ by least squares is negative, NaN where P is independent tokens.
        information: KL of the rows of P from π, in nats: what the last token tells of the next.
        missed: KL of the rows of P from those of the fit with λ in [0, 1), in nats.
    """

    lam: float
    explained: float
    information: float
    missed: float


def fit_sticky(pi: Array, transition: Array) -> StickyFit:
    """The fit to `transition (token, next_token)` with its stationary `pi (token,)`, all of it positive."""
    stay, beyond = np.eye(len(pi)) - pi, transition - pi
    weight = pi[:, None]
    length = float(np.sum(weight * stay**2))
    lam = float(np.sum(weight * beyond * stay)) / length if length > 0 else 0.0
    total = float(np.sum(weight * beyond**2))
    sticky = np.clip(lam, 0.0, 1.0 - 1e-12) * stay + pi
    left = float(np.sum(weight * (transition - sticky) ** 2))
    explained = 1 - left / total if total > 0 else float("nan")
    return StickyFit(lam, explained, _kl(weight, transition, pi), _kl(weight, transition, sticky))


def lumped(pi: Array, pairs: Any, kept: NDArray[np.intp]) -> tuple[Array, Array]:
    """The chain of some tokens and of all others as one, the last.

    Args:
        pi: stationary probabilities (token,).
        pairs: probability of every pair of successive tokens `(token, next_token)`, or counts; also sparse.
        kept: indices of the tokens that stay, (n,); there are others.

    Returns:
        π `(n + 1,)` and the transition matrix `(n + 1, n + 1)`; a token that nothing follows goes to π.
    """
    new = np.full(len(pi), len(kept))
    new[kept] = np.arange(len(kept))
    member = (new[:, None] == np.arange(len(kept) + 1)).astype(float)
    joint = member.T @ (pairs @ member)
    stationary = pi @ member
    total = joint.sum(axis=1, keepdims=True)
    return stationary, np.where(total > 0, joint / np.where(total > 0, total, 1.0), stationary)


def _kl(weight: Array, rows: Array, reference: Array) -> float:
    here = rows > 0
    ratio = np.where(here, rows, 1.0) / np.where(here, reference, 1.0)
    return float(np.sum(weight * rows * np.log(ratio)))
