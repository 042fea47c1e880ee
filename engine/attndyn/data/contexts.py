"""Weighted contexts: what every data source yields and every architecture takes.

A context is a set of weighted keys. Positions are keys of weight 1, counts are every token once with its
number of occurrences, the population limit is every token once with its stationary probability: one type,
one formula, `softmax(scores + log w)`.

Arrays have the long context axis last, so that a reduction over the few keys runs along it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from attndyn.backend import Array, Backend

REPRESENTATIONS = ("population", "counts", "positions")


@dataclass(frozen=True)
class Contexts:
    """A batch of weighted contexts for all replicas (R replica, B context, Q query, K key, V next token).

    Attributes:
        representation: `positions`, `counts` or `population`.
        query: query tokens `(R, Q, B)`; `None` where the queries are all tokens in order (Q = d_vocab).
        keys: key tokens `(R, K, B)`; `None` where the keys are all tokens in order (K = d_vocab).
        log_weights: log of the keys' weights `(R, K, B)`; 0 for positions, -inf for an absent token.
        targets: next tokens `(R, Q, B)`, or distributions over them `(R, V, Q, B)` (B may be 1).
        sample_weights: weight of each query in the loss `(R, Q, B)` (B may be 1); they sum to 1 over all
            Q x B queries of a replica.
    """

    representation: str
    query: Array | None
    keys: Array | None
    log_weights: Array
    targets: Array
    sample_weights: Array

    def on(self, backend: Backend) -> Contexts:
        """The same contexts as arrays of a backend."""
        return self._map(backend.asarray)

    def of(self, replica: int) -> Contexts:
        """The contexts of one replica, with a replica axis of length 1."""
        return self._map(lambda array: array[replica : replica + 1])

    @property
    def n_contexts(self) -> int:
        """How many contexts there are, B."""
        arrays = (self.query, self.keys, self.log_weights)
        return max(array.shape[-1] for array in arrays if array is not None)

    def part(self, replicas: slice, contexts: slice) -> Contexts:
        """Some of the contexts of some replicas; what is the same for all contexts stays as it is."""
        return self._map(lambda array: array[replicas, ..., contexts if array.shape[-1] > 1 else slice(None)])

    def _map(self, function: Callable[[Array], Array]) -> Contexts:
        fields = ("query", "keys", "log_weights", "targets", "sample_weights")
        arrays = {f: getattr(self, f) for f in fields}
        return replace(self, **{f: function(a) for f, a in arrays.items() if a is not None})


def population(pi: np.ndarray, transition: np.ndarray | None) -> Contexts:
    """The limit of infinitely many infinitely long contexts (Prop. 3.3).

    Args:
        pi: stationary distribution `(R, d_vocab)`.
        transition: `(R, d_vocab, d_vocab)`, rows sum to 1; None leaves the targets empty, for attention only.

    Returns:
        One context whose keys are all tokens with weight π, every token as a query of weight π, and its row
        of the transition matrix as target.
    """
    with np.errstate(divide="ignore"):
        log_pi = np.log(pi)
    if transition is None:
        transition = np.empty((*pi.shape, 0))
    return Contexts(
        representation="population",
        query=None,
        keys=None,
        log_weights=log_pi[:, :, None],
        targets=transition.transpose(0, 2, 1)[..., None].copy(),
        sample_weights=pi[:, :, None].copy(),
    )
