"""Tokens by how often they occur: the most frequent by name, all of them in bands of frequency."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from pydantic import Field

from attndyn.data.labels import UNKNOWN
from attndyn.spec.base import Flaw, Section

BANDS = ("high", "medium", "low", UNKNOWN)


class BandShares(Section):
    """Where bands end: options of whatever goes by band."""

    high: float = Field(default=0.5, gt=0, lt=1, description="share of the text that the high band makes up")
    medium: float = Field(default=0.9, gt=0, lt=1, description="share that it and the medium band make up")

    def flaws(self) -> Iterator[Flaw]:
        """The medium band comes after the high one."""
        yield from super().flaws()
        if self.medium <= self.high:
            yield Flaw(("medium",), f"is {self.medium}; must be more than high, {self.high}")


def bands_of(tokens: Sequence[str]) -> tuple[str, ...]:
    """The bands that a vocabulary has: that of `<unk>` where there is one, the others always."""
    return BANDS if UNKNOWN in tokens else BANDS[:-1]


def bands(pi: np.ndarray, tokens: Sequence[str], high: float, medium: float) -> np.ndarray:
    """The band of every token, `(R, token)`, as an index into `BANDS`.

    In the order of their frequency, tokens are `high` until those before them make up the share `high` of the
    text, then `medium` until the share `medium`, then `low`. `<unk>` is a band of its own, and takes no part.
    Ties are in the order of the vocabulary. A band may be empty.

    Args:
        pi: frequencies `(R, token)`.
        tokens: labels, (token,).
        high: share of the text that ends the first band.
        medium: share that ends the second one.
    """
    known = np.array([token != UNKNOWN for token in tokens])
    order = np.argsort(-np.where(known, pi, -1.0), axis=1, kind="stable")
    ranked = np.take_along_axis(np.where(known, pi, 0.0), order, axis=1)
    total = np.maximum(ranked.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    before = (np.cumsum(ranked, axis=1) - ranked) / total
    found = np.empty(pi.shape, dtype=np.intp)
    # the last bits of a sum do not move a token whose share ends exactly at a bound
    np.put_along_axis(found, order, np.searchsorted([high, medium], before + 1e-12, side="right"), axis=1)
    found[:, ~known] = BANDS.index(UNKNOWN)
    return found


def named(pi: np.ndarray, tokens: Sequence[str], wanted: Sequence[str] | None, most: int) -> np.ndarray:
    """Indices of the tokens that stand by themselves, most frequent first.

    Args:
        pi: frequencies (token,).
        tokens: labels, (token,).
        wanted: labels of these tokens; None for the most frequent.
        most: how many of them, without `wanted`.
    """
    order = np.argsort(-pi, kind="stable")
    if wanted is None:
        return order[:most]
    chosen = {tokens.index(token) for token in wanted}
    return np.array([token for token in order.tolist() if token in chosen], dtype=np.intp)
