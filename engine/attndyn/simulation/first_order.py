"""How much of predictions hangs on the last token alone, from few queries and without their bias."""

from __future__ import annotations

import numpy as np

from attndyn.backend import Array, Backend
from attndyn.simulation.bigram_table import TooLarge

#: most entries of the weights, 0.5 GB in float64; while they are made there is some four times that
MAX_WEIGHTS = 2**26


class FirstOrderFit:
    """Predictions against their mean over the queries with the same token, and against one mean for all.

    Only tokens count that occur in `repeats` contexts, at least half of that number among the even and among
    the odd ones. In a token's mean all contexts weigh the same, since what is alike in one is no news; in
    means over tokens each has the weight of its queries.

    The mean of n contexts has less entropy than that of all there could be, by about b / n. The mean of a
    half lacks twice that, so that twice the entropy of the whole less that of the halves lacks nothing to
    that order, whether predictions in one context are alike or not.

    Args:
        queries: their tokens `(R, B, Q)`.
        repeats: see above.
        backend: where predictions are.

    Attributes:
        weights: of the queries in the mean of a half's contexts `(R, 2, token, B · Q)`, at least one token;
            R is 1 if all replicas have the same queries.
        share: of the queries whose token counts `(R,)`.

    Raises:
        TooLarge: the weights would have more than `MAX_WEIGHTS` entries; before they are made.
    """

    def __init__(self, queries: np.ndarray, repeats: int, backend: Backend):
        n_replicas = len(queries)
        if (queries == queries[:1]).all():
            queries = queries[:1]
        counted = [_repeated(tokens, repeats) for tokens in queries]
        width = max(1, *(len(found) for found, _, _ in counted))
        if (entries := len(queries) * 2 * width * queries[0].size) > MAX_WEIGHTS:
            alike = f"{width} repeated tokens × {queries[0].size} queries"
            of_all = f"{len(queries)} × " if len(queries) > 1 else ""
            raise TooLarge(f"means over {of_all}2 × {alike} are {entries} entries; at most {MAX_WEIGHTS}")
        each = [_weights(tokens, *of) for tokens, of in zip(queries, counted, strict=True)]
        weights, parts, sizes = (
            np.stack([_padded(of_replica[i], width) for of_replica in each]) for i in range(3)
        )
        total = sizes.sum(axis=1, keepdims=True)
        share = total[:, 0] / queries[0].size
        self._backend = backend
        self.share = backend.asarray(np.broadcast_to(share, n_replicas).copy())
        self.weights = backend.asarray(weights)
        self._parts = backend.asarray(parts)
        self._sizes = backend.asarray(np.where(total > 0, sizes / np.maximum(total, 1), np.nan))

    def measure(self, means: Array, entropies: Array) -> tuple[Array, Array]:
        """Residual and spread `(R,)` in nats; NaN where no token is repeated so often.

        Args:
            means: predictions, their `weights` applied, `(R, 2, token, V)`.
            entropies: of each prediction, likewise, `(R, 2, token)`.
        """
        xp, parts, sizes = self._backend.xp, self._parts, self._sizes
        own = xp.sum(sizes * xp.sum(parts * entropies, axis=1), axis=1)
        whole = xp.sum(parts[..., None] * means, axis=1)
        of_halves = xp.sum(parts * self._entropy(means), axis=1)
        of_token = xp.sum(sizes * (2 * self._entropy(whole) - of_halves), axis=1)
        of_half = sizes[:, None] * parts  # what a token's mean of a half weighs in the mean of all
        weight = xp.sum(of_half, axis=2)
        means_of_halves = xp.sum(of_half[..., None] * means, axis=2) / weight[..., None]
        of_all_halves = xp.sum(weight * self._entropy(means_of_halves), axis=1)
        of_all = 2 * self._entropy(xp.sum(sizes[..., None] * whole, axis=1)) - of_all_halves
        return of_token - own, of_all - own

    def _entropy(self, rows: Array) -> Array:
        xp = self._backend.xp
        return -xp.sum(rows * xp.log(xp.where(rows > 0, rows, 1)), axis=-1)


def _repeated(tokens: np.ndarray, repeats: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The tokens among `(B, Q)` that count, how often each is in a context, in how many of a half it is."""
    half = np.arange(len(tokens)) % 2
    found, index = np.unique(tokens, return_inverse=True)
    times = np.zeros((len(found), len(tokens)), np.intp)  # of a token in a context
    np.add.at(times, (index.reshape(tokens.shape), np.arange(len(tokens))[:, None]), 1)
    contexts = np.stack([(times[:, half == h] > 0).sum(axis=1) for h in (0, 1)])
    repeated = np.flatnonzero((2 * contexts >= repeats).all(axis=0))
    return found[repeated], times[repeated], contexts[:, repeated]


def _weights(
    tokens: np.ndarray, repeated: np.ndarray, times: np.ndarray, contexts: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of one replica's queries `(B, Q)`: weights `(2, token, B · Q)`, halves' parts `(2, token)`, sizes."""
    half = np.arange(len(tokens)) % 2
    same = repeated[:, None, None] == tokens  # (token, B, Q)
    each = same / np.maximum(times, 1)[..., None]
    of_halves = [(each * (half == h)[:, None]).reshape(len(repeated), tokens.size) for h in (0, 1)]
    return np.stack(of_halves) / contexts[..., None], contexts / contexts.sum(axis=0), times.sum(axis=1)


def _padded(array: np.ndarray, width: int) -> np.ndarray:
    """`array` with its axis of tokens, the second if it has two, as long as `width`."""
    axis = 1 if array.ndim > 1 else 0
    pad = [(0, width - array.shape[axis]) if a == axis else (0, 0) for a in range(array.ndim)]
    return np.pad(array, pad)
