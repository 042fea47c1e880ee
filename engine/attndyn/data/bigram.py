"""What follows a token: the rows of a known chain, or counts of a text's pairs shrunk to its frequencies."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.sparse import csr_array
from scipy.special import entr, rel_entr

from attndyn.data.source import DataSource

#: weights of the frequencies that are looked at: from the first up to the second for every pair of the text
WEIGHTS = (1e-6, 10.0)


class Bigram(Protocol):
    """P(y | x), how likely token y follows token x, and π, how frequent tokens are; V tokens, in nats."""

    def deviations(self, tokens: np.ndarray) -> np.ndarray:
        """P(y | x) - π(y) for some x, `(n, V)`."""

    def summary(self, tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of some x: entropy of P(· | x), its KL from π, and the part of it that is π, `(n,)` each."""


def bigrams(data: DataSource) -> tuple[list[Bigram], np.ndarray]:
    """Those that differ, and of every replica which is its own `(R,)`.

    A text has one for all replicas, from its pairs however small its vocabulary is; chains that are known
    are left as they are.
    """
    if data.pairs is not None:
        return [Counted(data.pairs, data.pi[0])], np.zeros(len(data.pi), np.intp)
    assert data.transition is not None
    numbers: dict[bytes, int] = {}
    found: list[Bigram] = []
    own = np.empty(len(data.pi), np.intp)
    for replica, (pi, matrix) in enumerate(zip(data.pi, data.transition, strict=True)):
        own[replica] = numbers.setdefault(pi.tobytes() + matrix.tobytes(), len(found))
        if own[replica] == len(found):
            found.append(Known(matrix, pi))
    return found, own


class Known:
    """The rows of a chain `matrix (V, V)` with the stationary distribution `pi (V,)`."""

    def __init__(self, matrix: np.ndarray, pi: np.ndarray):
        self._matrix, self._pi = matrix, pi

    def deviations(self, tokens: np.ndarray) -> np.ndarray:
        """See `Bigram.deviations`."""
        return self._matrix[tokens] - self._pi

    def summary(self, tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """See `Bigram.summary`."""
        rows = self._matrix[tokens]
        return entr(rows).sum(axis=1), rel_entr(rows, self._pi).sum(axis=1), np.zeros(len(rows))


class Counted:
    """(c(x, y) + α π(y)) / (c(x) + α), from the counts c of a text; α by `weight_of_frequencies`.

    Args:
        pairs: how often a token is followed by another one `(V, V)`, sparse.
        pi: frequencies of the tokens `(V,)`, not 0 where a token follows another.

    Attributes:
        alpha: so many observed successors weigh as much as π; infinite where P(· | x) = π is likelier.
    """

    def __init__(self, pairs: csr_array, pi: np.ndarray):
        self._pairs, self._pi = csr_array(pairs, dtype=np.float64), pi
        self._total = self._pairs.sum(axis=1)
        self.alpha = weight_of_frequencies(self._pairs, pi)
        # the part of P(· | x) that is counted: 0 where nothing follows x
        self._counted = self._total / (self._total + self.alpha)

    def deviations(self, tokens: np.ndarray) -> np.ndarray:
        """See `Bigram.deviations`."""
        counted = self._counted[tokens, None]
        return (
            self._pairs[tokens].toarray() * (counted / self._total_of(tokens)[:, None]) - counted * self._pi
        )

    def summary(self, tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """See `Bigram.summary`; from the pairs that occur, no row of V entries is made."""
        rows, counted = self._pairs[tokens], self._counted[tokens]
        left = 1 - counted
        place = np.repeat(np.arange(len(tokens)), np.diff(rows.indptr))
        pi = self._pi[rows.indices]
        seen = rows.data * (counted / self._total_of(tokens))[place] + left[place] * pi
        unseen = left[place] * pi  # what P would be there, and is wherever a pair does not occur

        def over_pairs(values: np.ndarray) -> np.ndarray:
            return np.bincount(place, values, len(tokens))

        entropy = left * entr(self._pi).sum() + entr(left) + over_pairs(entr(seen) - entr(unseen))
        information = rel_entr(left, 1) + over_pairs(rel_entr(seen, pi) - rel_entr(unseen, pi))
        return entropy, information, left

    def _total_of(self, tokens: np.ndarray) -> np.ndarray:
        return np.maximum(self._total[tokens], 1)


def weight_of_frequencies(pairs: csr_array, pi: np.ndarray) -> float:
    """α of the greatest leave-one-out likelihood Σ c(x, y) log P₋(y | x), P₋ from all pairs but that one.

    Derived in docs/corpora.md. Infinite where no α explains the pairs better than the frequencies alone.
    """
    count, total = pairs.data, pairs.sum(axis=1)
    of_y, total = pi[pairs.indices], total[total > 0]

    def likelihood(log_alpha: float) -> float:
        alpha = np.exp(log_alpha)
        # each term divided by α, lest the sum be a difference of two large ones
        return float(count @ np.log((count - 1) / alpha + of_y) - total @ np.log((total - 1) / alpha + 1))

    bounds = np.log(WEIGHTS[0]), np.log(WEIGHTS[1] * max(count.sum(), 1))
    found = minimize_scalar(lambda log_alpha: -likelihood(log_alpha), bounds=bounds, method="bounded")
    return float(np.exp(found.x)) if -found.fun > likelihood(np.inf) else np.inf
