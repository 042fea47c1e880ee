"""What follows the tokens of fixed contexts, on the device: one table for all replicas that share it."""

from __future__ import annotations

import numpy as np

from attndyn.backend import Array, Backend
from attndyn.data.bigram import Bigram, bigrams
from attndyn.data.source import DataSource

#: most entries of a table, 1 GB in float64
MAX_TABLE = 2**27
_ROWS = 512  # made at once, in float64


class TooLarge(Exception):
    """A table would have too many entries; says of what, and how many."""


class BigramTable:
    """P(· | x) - π for every token x of some contexts.

    Args:
        data: whose bigram it is.
        keys: tokens of the contexts `(R, B, K)`, of which the last `n_queries` places are queries.
        n_queries: how many they are.
        backend: where the table lives.

    Attributes:
        entropy: of P(· | x) for a query's token x, mean over the queries, `(R,)`, in nats.
        information: its KL from π, likewise.
        shrinkage: the part of it that is π because counts are few, likewise.

    Raises:
        TooLarge: before anything is made.
    """

    def __init__(self, data: DataSource, keys: np.ndarray, n_queries: int, backend: Backend):
        found, own = bigrams(data)
        n_replicas = len(keys)
        if len(found) == 1 and (keys == keys[:1]).all():
            keys, own = keys[:1], own[:1]  # broadcast over the replicas
        tokens = [np.unique(keys[own == number]) for number in range(len(found))]
        self._place = np.empty(keys.shape, np.intp)
        for replica, number in enumerate(own):
            self._place[replica] = np.searchsorted(tokens[number], keys[replica])
        width, d_vocab = max(len(some) for some in tokens), data.pi.shape[1]
        if (entries := len(found) * width * d_vocab) > MAX_TABLE:
            raise TooLarge(
                f"bigrams of {width} tokens × {d_vocab} are {entries} entries; at most {MAX_TABLE}"
            )
        rows = np.zeros((len(found), width, d_vocab), backend.dtype)
        for number, bigram in enumerate(found):
            _fill(rows[number], bigram, tokens[number])
        self._own = backend.asarray(own[:, None, None])
        self._rows, self._backend = backend.asarray(rows), backend
        summaries = [bigram.summary(some) for bigram, some in zip(found, tokens, strict=True)]
        queries = self._place[..., -n_queries:]
        means = [[v[q].mean() for v in summaries[number]] for number, q in zip(own, queries, strict=True)]
        self.entropy, self.information, self.shrinkage = (
            backend.asarray(np.broadcast_to(values, n_replicas).copy()) for values in np.array(means).T
        )

    def place(self, contexts: slice) -> Array:
        """Where the keys of some contexts are among the rows, `(R, B, K)`; R is 1 if all have the same."""
        return self._backend.asarray(self._place[:, contexts])

    def following(self, place: Array) -> Array:
        """P(· | x) - π at `place (R, B, K)`, `(R, B, K, V)`."""
        return self._rows[self._own, place]


def _fill(rows: np.ndarray, bigram: Bigram, tokens: np.ndarray) -> None:
    for start in range(0, len(tokens), _ROWS):
        some = tokens[start : start + _ROWS]
        rows[start : start + len(some)] = bigram.deviations(some)
