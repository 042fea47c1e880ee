"""Sampling Markov chains: one 31-bit uniform number a token, all contexts of a replica at once.

Probabilities are rounded to multiples of 2**-31. Chains start in the stationary distribution.
"""

from __future__ import annotations

import numpy as np

# above this, one comparison a token costs more than a binary search
_COMPARE_LIMIT = 16


class Sticky:
    """A chain that keeps its token with probability `lam` and draws a new one from `pi` otherwise.

    One number decides both: below λ the token stays, above it the rest of the number draws from π. Only the
    copying of kept tokens runs along the positions, on bytes.
    """

    def __init__(self, pi: np.ndarray, lam: float):
        cumulative = np.cumsum(pi)[:-1]
        self._first = _thresholds(cumulative)
        self._later = _thresholds(lam + (1 - lam) * cumulative)
        self._stay = _thresholds(np.array([lam]))[0]
        self._dtype = token_dtype(len(pi))

    def tokens(self, uniform: np.ndarray) -> np.ndarray:
        """Tokens `(position, context)` from `uniform (position, context)` integers below 2**31."""
        tokens = _invert(uniform, self._later, self._dtype)
        tokens[0] = _invert(uniform[0], self._first, self._dtype)
        stays = (uniform < self._stay).astype(self._dtype)
        np.negative(stays, out=stays)  # all bits set: a mask
        stays[0] = 0
        tokens &= ~stays
        kept = np.empty_like(tokens[0])
        # rows are taken out once: indexing costs as much as an operation on a row of bytes
        rows = list(tokens)
        for before, token, stay in zip(rows, rows[1:], list(stays)[1:], strict=False):
            np.bitwise_and(before, stay, out=kept)
            np.bitwise_or(token, kept, out=token)
        return tokens


class General:
    """A chain with any transition matrix: position by position, each token by inverting its row."""

    def __init__(self, pi: np.ndarray, transition: np.ndarray):
        self._first = _thresholds(np.cumsum(pi)[:-1])
        self._dtype = token_dtype(len(pi))
        cumulative = np.cumsum(transition, axis=1)[:, :-1]
        if len(pi) <= _COMPARE_LIMIT:
            self._rows = np.ascontiguousarray(_thresholds(cumulative).T)
            self._next = self._by_comparing
        else:
            # each row moved to its own unit interval: one sorted table for all rows
            self._table = np.minimum(np.column_stack([cumulative, np.ones(len(pi))]), 1.0)
            self._table = (self._table + np.arange(len(pi))[:, None]).ravel()
            self._next = self._by_searching

    def tokens(self, uniform: np.ndarray) -> np.ndarray:
        """Tokens `(position, context)` from `uniform (position, context)` integers below 2**31."""
        tokens = np.empty(uniform.shape, self._dtype)
        tokens[0] = _invert(uniform[0], self._first, self._dtype)
        for t in range(1, len(tokens)):
            tokens[t] = self._next(tokens[t - 1], uniform[t])
        return tokens

    def _by_comparing(self, tokens: np.ndarray, uniform: np.ndarray) -> np.ndarray:
        following = np.zeros(tokens.shape, self._dtype)
        for threshold in self._rows:
            following += uniform >= threshold[tokens]
        return following

    def _by_searching(self, tokens: np.ndarray, uniform: np.ndarray) -> np.ndarray:
        d_vocab = len(self._first) + 1
        where = tokens + uniform * 2.0**-31
        following = np.searchsorted(self._table, where, side="right") - tokens.astype(np.int64) * d_vocab
        return np.minimum(following, d_vocab - 1)


def token_dtype(d_vocab: int) -> np.dtype:
    """The smallest unsigned integer type that holds the tokens."""
    return np.min_scalar_type(max(d_vocab - 1, 1))


def _thresholds(cumulative: np.ndarray) -> np.ndarray:
    return np.rint(cumulative * 2.0**31).astype(np.uint32)


def _invert(uniform: np.ndarray, thresholds: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Number of thresholds at or below each uniform number."""
    if len(thresholds) > _COMPARE_LIMIT:
        return np.searchsorted(thresholds, uniform, side="right").astype(dtype)
    tokens = np.zeros(uniform.shape, dtype)
    for threshold in thresholds:
        tokens += uniform >= threshold
    return tokens
