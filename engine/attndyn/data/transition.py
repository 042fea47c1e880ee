"""Transition matrices P by name, each with a given π as its stationary distribution."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

import numpy as np
from pydantic import Field
from scipy.sparse.csgraph import connected_components

from attndyn.data.stationary import MAX_D_VOCAB, SUM_TOLERANCE
from attndyn.spec.base import Flaw, Section, Varies

SINKHORN_ROUNDS = 1000

NonNegative = Annotated[float, Field(ge=0)]
Row = Annotated[tuple[NonNegative, ...], Field(strict=False)]


class Sticky(Section):
    """P = λ I + (1 − λ) 1 πᵀ: a token stays with probability λ and is drawn anew from π otherwise."""

    kind: Literal["sticky"]
    lam: Annotated[float, Varies()] = Field(ge=0, lt=1, description="probability λ of staying")

    def probabilities(self, pi: np.ndarray) -> np.ndarray:
        """P `(token, next_token)`."""
        return self.lam * np.eye(len(pi)) + (1 - self.lam) * pi


class Explicit(Section):
    """P as a list of rows."""

    kind: Literal["explicit"]
    matrix: tuple[Row, ...] = Field(
        strict=False,
        min_length=2,
        max_length=MAX_D_VOCAB,
        description="row i, column j: the probability of token j after token i; each row sums to 1",
    )

    def flaws(self) -> Iterator[Flaw]:
        """Refuse what is not square, and rows that do not sum to 1 within 1e-9."""
        for index, row in enumerate(self.matrix):
            total = float(np.sum(row))
            if len(row) != len(self.matrix):
                message = (
                    f"row {index} has {len(row)} entries; a matrix of {len(self.matrix)} rows needs as many"
                )
                yield Flaw(("matrix", index), message)
            elif abs(total - 1) > SUM_TOLERANCE:
                message = f"row {index} sums to {total:.12g}; each must sum to 1 within {SUM_TOLERANCE}"
                yield Flaw(("matrix", index), message)

    def probabilities(self, pi: np.ndarray | None = None) -> np.ndarray:
        """P `(token, next_token)`: each row divided by its sum."""
        matrix = np.array(self.matrix)
        return matrix / matrix.sum(axis=1, keepdims=True)


class Random(Section):
    """A random P with positive entries and exactly the given π.

    Draw positive numbers K (gamma distributed: its rows, each divided by its sum, would be Dirichlet) and
    look for the joint distribution J = D₁ K D₂ of a token and the next, both marginals of which are π; then
    P = D_π⁻¹ J is row-stochastic and π P = 1ᵀJ = πᵀ. By Sinkhorn's theorem such diagonal D₁, D₂ exist for
    every positive K, and dividing rows and columns in turn by their excess leads there. Where that is slow,
    a last step makes it exact: shrink the rows and columns that exceed π, then add the outer product of what
    the rows and the columns still lack (Altschuler, Weed and Rigollet 2017, algorithm 2).
    """

    kind: Literal["random"]
    seed: Annotated[int, Varies()] = Field(ge=0, lt=2**32, description="seed of the draw")
    concentration: Annotated[float, Varies()] = Field(
        default=1.0,
        ge=0.1,
        le=1e6,
        description="large: near independent tokens; small: few likely successors",
    )

    def probabilities(self, pi: np.ndarray) -> np.ndarray:
        """P `(token, next_token)`."""
        generator = np.random.Generator(np.random.Philox(key=self.seed))
        joint = generator.gamma(self.concentration, size=(len(pi), len(pi)))
        for _ in range(SINKHORN_ROUNDS):
            joint *= (pi / joint.sum(axis=1))[:, None]
            excess = joint.sum(axis=0) / pi
            joint /= excess
            if np.max(np.abs(excess - 1)) < 1e-13:
                break
        joint = _with_marginals(joint, pi)
        return joint / joint.sum(axis=1, keepdims=True)


Transition = Annotated[Sticky | Explicit | Random, Field(discriminator="kind")]


def stationary_of(matrix: np.ndarray) -> np.ndarray:
    """The stationary distribution π `(token,)` of a row-stochastic matrix `(token, next_token)`.

    By the elimination of Grassmann, Taksar and Heyman (1985): token k is taken out of the chain by sending
    what went into it straight to where it leads. Nothing is subtracted, so every entry is accurate to
    rounding.

    Raises:
        ValueError: not every token can be reached from every other, so π is not unique or has zeros.
    """
    n_classes, class_of = connected_components(matrix > 0, connection="strong")
    if n_classes > 1:
        other = int(np.argmax(class_of != class_of[0]))
        raise ValueError(
            f"tokens 0 and {other} are not reachable from each other, so π is not unique or not positive"
        )
    reduced = np.array(matrix, dtype=float)
    for k in range(len(reduced) - 1, 0, -1):
        reduced[:k, k] /= reduced[k, :k].sum()
        reduced[:k, :k] += np.outer(reduced[:k, k], reduced[k, :k])
    pi = np.ones(len(reduced))
    for k in range(1, len(reduced)):
        pi[k] = pi[:k] @ reduced[:k, k]
    return pi / pi.sum()


def _with_marginals(joint: np.ndarray, pi: np.ndarray) -> np.ndarray:
    """The nearby joint distribution with both marginals π."""
    joint = joint * np.minimum(pi / joint.sum(axis=1), 1)[:, None]
    joint *= np.minimum(pi / joint.sum(axis=0), 1)
    rows = np.maximum(pi - joint.sum(axis=1), 0)
    columns = np.maximum(pi - joint.sum(axis=0), 0)
    lack = max(rows.sum(), columns.sum())
    return joint + np.outer(rows, columns) / lack if lack else joint
