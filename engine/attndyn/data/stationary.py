"""Stationary distributions π by name; `vector()` gives the probabilities `(token,)`, positive, float64."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from attndyn.spec.base import Flaw, Section, Varies

MAX_D_VOCAB = 16384
SUM_TOLERANCE = 1e-9

DVocab = Annotated[int, Field(ge=2, le=MAX_D_VOCAB, description="number of tokens")]
Probability = Annotated[float, Field(gt=0, lt=1)]


class ExplicitPi(Section):
    """π as a list."""

    kind: Literal["explicit"]
    pi: Annotated[tuple[Probability, ...], Varies()] = Field(
        strict=False, min_length=2, max_length=MAX_D_VOCAB, description="probabilities that sum to 1"
    )

    def flaws(self) -> Iterator[Flaw]:
        """Refuse what does not sum to 1 within 1e-9."""
        total = float(np.sum(self.pi))
        if abs(total - 1) > SUM_TOLERANCE:
            yield Flaw(("pi",), f"sums to {total:.12g}; probabilities must sum to 1 within {SUM_TOLERANCE}")

    @property
    def d_vocab(self) -> int:
        """Number of tokens."""
        return len(self.pi)

    def vector(self) -> np.ndarray:
        """Probabilities `(token,)`: the list divided by its sum."""
        return _normalized(np.array(self.pi))


class Geometric(Section):
    """π_k ∝ ratio^k, k = 0 … d_vocab − 1; the source's π is this with ratio 1/4."""

    kind: Literal["geometric"]
    d_vocab: DVocab
    ratio: Annotated[float, Varies()] = Field(gt=0, le=1, description="each token's share of the one before")

    def flaws(self) -> Iterator[Flaw]:
        """Refuse a token so rare that its probability is no number."""
        return _too_small(self.vector(), "ratio", self.ratio)

    def vector(self) -> np.ndarray:
        """Probabilities `(token,)`."""
        return _normalized(self.ratio ** np.arange(self.d_vocab))


class Symmetric(Section):
    """Token 0 has p; the others share the rest, shifted by δ times equally spaced numbers from 1 to −1.

    δ = 0 is the symmetric group of the paper's theorems, d_vocab = 3 with δ > 0 the asymmetric one of its
    Theorem 4.9.
    """

    kind: Literal["symmetric"]
    d_vocab: DVocab
    p: Annotated[float, Varies()] = Field(gt=0, lt=1, description="probability of token 0")
    delta: Annotated[float, Varies()] = Field(default=0.0, description="largest shift within the group, δ")

    def flaws(self) -> Iterator[Flaw]:
        """Refuse a shift that takes a probability out of (0, 1), or that has nowhere to go."""
        share = (1 - self.p) / (self.d_vocab - 1)
        if self.d_vocab == 2 and self.delta != 0:
            yield Flaw(("delta",), f"found {self.delta!r}; must be 0, for a group of one token has no shift")
        elif abs(self.delta) >= share:
            yield Flaw(("delta",), f"found {self.delta!r}; must lie within ±{share:.6g}, each token's share")

    def vector(self) -> np.ndarray:
        """Probabilities `(token,)`."""
        others = self.d_vocab - 1
        shifts = np.linspace(1, -1, others) if others > 1 else np.zeros(1)
        return _normalized(np.r_[self.p, (1 - self.p) / others + self.delta * shifts])


class Zipf(Section):
    """π_k ∝ (k + 1)^−exponent, k = 0 … d_vocab − 1."""

    kind: Literal["zipf"]
    d_vocab: DVocab
    exponent: Annotated[float, Varies()] = Field(
        default=1.0, ge=0, le=64, description="decay of the frequency"
    )

    def flaws(self) -> Iterator[Flaw]:
        """Refuse a token so rare that its probability is no number."""
        return _too_small(self.vector(), "exponent", self.exponent)

    def vector(self) -> np.ndarray:
        """Probabilities `(token,)`."""
        return _normalized(np.arange(1.0, self.d_vocab + 1) ** -self.exponent)


Stationary = Annotated[ExplicitPi | Geometric | Symmetric | Zipf, Field(discriminator="kind")]


def _normalized(weights: np.ndarray) -> np.ndarray:
    return weights / weights.sum()


def _too_small(pi: np.ndarray, name: str, value: float) -> Iterator[Flaw]:
    if pi.min() < np.finfo(float).tiny:
        rare = int(np.argmax(pi < np.finfo(float).tiny))
        yield Flaw((name,), f"found {value!r}; token {rare} and those after it are too rare for float64")
