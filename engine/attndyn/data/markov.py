"""Contexts from a first-order Markov chain, sampled or in the population limit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attndyn import registry
from attndyn.data import philox
from attndyn.data.chain import General, Sticky
from attndyn.data.contexts import Contexts, population
from attndyn.data.options import MarkovOptions
from attndyn.data.source import DataSource
from attndyn.data.transition import Sticky as StickyOptions


@registry.data("markov")
class MarkovData(DataSource):
    """Contexts from a first-order Markov chain in its stationary state; see `DataSource`.

    A replica's contexts depend on its seed, its data options and the step only.
    """

    Options = MarkovOptions
    transition: np.ndarray

    def __init__(self, options: Sequence[MarkovOptions], seeds: Sequence[int], loss_positions: str):
        first = options[0]
        self.tokens = list(first.labels)
        self.pi = np.stack([o.pi for o in options])
        self.transition = np.stack([o.P for o in options])
        self.representations = ("population",) if first.regime == "population" else ("counts", "positions")
        self._loss_positions = loss_positions
        self._shape = first
        # replicas of equal seed and data share their contexts, which are then sampled once
        keys = [(seed, o.model_dump_json()) for o, seed in zip(options, seeds, strict=True)]
        distinct = list(dict.fromkeys(keys))
        self._group = np.array([distinct.index(key) for key in keys])
        members = [keys.index(key) for key in distinct]
        self._seeds = [seeds[m] for m in members]
        self._chains = [_chain(options[m]) for m in members]
        self._fixed = self._sample(0, first.size) if first.size is not None else None
        self._orders: dict[int, tuple[int, np.ndarray]] = {}
        self._population: Contexts | None = None

    def batch(self, step: int, representation: str) -> Contexts:
        """See `DataSource.batch`."""
        if representation == "population":
            if self._population is None:
                self._population = population(self.pi, self.transition)
            return self._population
        tokens = self._sample(step, self._shape.batch) if self._fixed is None else self._draw(step)
        return self._contexts(tokens, representation)

    def probe_contexts(self, n_contexts: int) -> Contexts:
        """See `DataSource.probe_contexts`; of a fixed set its own, none twice."""
        if self._fixed is None:
            return super().probe_contexts(n_contexts)
        size = self._fixed.shape[2]
        which = np.linspace(0, size - 1, min(n_contexts, size)).astype(int)
        return self._contexts(self._fixed[:, :, which], "positions")

    def _contexts(self, tokens: np.ndarray, representation: str) -> Contexts:
        """Of tokens `(position, group, context)`, for every replica."""
        fields = self._counts(tokens) if representation == "counts" else self._positions(tokens)
        if len(self._seeds) < len(self._group):
            fields = {k: None if v is None else v[self._group] for k, v in fields.items()}
        if self._shape.targets == "exact":
            fields["targets"] = self._exact_targets(fields["query"])
        return Contexts(representation, **fields)

    def _sample(self, step: int, n_contexts: int) -> np.ndarray:
        """Tokens `(position, group, context)`: `n_ctx` positions and the token after them."""
        shape = (self._shape.n_ctx + 1, n_contexts)
        tokens = [
            chain.tokens(philox.uniform(seed, philox.Purpose.CONTEXTS, step, shape))
            for chain, seed in zip(self._chains, self._seeds, strict=True)
        ]
        return np.stack(tokens, axis=1)

    def _draw(self, step: int) -> np.ndarray:
        """A step's contexts out of the fixed ones: the shuffled epochs, end to end, cut into batches."""
        assert self._fixed is not None
        size, batch = self._fixed.shape[2], self._shape.batch
        epoch, place = divmod(step * batch, size)
        drawn = []
        for group, seed in enumerate(self._seeds):
            which = self._order(seed, epoch)[place : place + batch]
            if len(which) < batch:  # a batch is no larger than the set: it ends in the next epoch
                which = np.append(which, self._order(seed, epoch + 1)[: batch - len(which)])
            drawn.append(self._fixed[:, group, which])
        return np.stack(drawn, axis=1)

    def _order(self, seed: int, epoch: int) -> np.ndarray:
        """The order of an epoch, kept until the next one's is asked for."""
        kept, order = self._orders.get(seed, (-1, None))
        if kept != epoch or order is None:
            order = philox.permutation(seed, epoch, self._shape.size or 0)
            self._orders[seed] = epoch, order
        return order

    def _positions(self, tokens: np.ndarray) -> dict[str, np.ndarray | None]:
        groups, n_contexts = tokens.shape[1:]
        by_group = np.ascontiguousarray(tokens.transpose(1, 0, 2))
        keys, following = by_group[:, :-1], by_group[:, 1:]
        n_queries = keys.shape[1] if self._loss_positions == "all" else 1
        return {
            "query": keys[:, -n_queries:],
            "keys": keys,
            "log_weights": np.zeros((groups, 1, 1)),
            "targets": following[:, -n_queries:],
            "sample_weights": np.full((groups, 1, 1), 1.0 / (n_queries * n_contexts)),
        }

    def _counts(self, tokens: np.ndarray) -> dict[str, np.ndarray | None]:
        n_ctx, _, n_contexts = tokens.shape[0] - 1, *tokens.shape[1:]
        with np.errstate(divide="ignore"):
            log_of = np.log(np.arange(n_ctx + 1.0))
        counts = _count(tokens[:-1], len(self.tokens))
        fields: dict[str, np.ndarray | None] = {"keys": None, "log_weights": log_of[counts]}
        if self._loss_positions == "last":
            fields["query"], fields["targets"] = tokens[-2][:, None, :], tokens[-1][:, None, :]
            fields["sample_weights"] = np.full((tokens.shape[1], 1, 1), 1.0 / n_contexts)
            return fields
        # every token is one query, as often as it occurs; its target is the mean of what followed it
        pairs = _count_pairs(tokens, len(self.tokens))
        fields["query"] = None
        fields["targets"] = pairs / np.maximum(counts, 1)[:, None]
        fields["sample_weights"] = counts / (n_ctx * n_contexts)
        return fields

    def _exact_targets(self, query: np.ndarray | None) -> np.ndarray:
        """The rows of the transition matrix for the queries, `(R, V, Q, B)`."""
        columns = self.transition.transpose(0, 2, 1)
        if query is None:
            return columns[..., None].copy()
        flat = query.reshape(len(query), 1, -1).astype(np.intp)
        rows = np.take_along_axis(columns, flat, axis=2)
        return rows.reshape(*columns.shape[:2], *query.shape[1:])


def _chain(options: MarkovOptions) -> Sticky | General:
    if isinstance(options.transition, StickyOptions):
        return Sticky(options.pi, options.transition.lam)
    return General(options.pi, options.P)


def _count(tokens: np.ndarray, d_vocab: int) -> np.ndarray:
    """Occurrences `(group, token, context)` in `tokens (position, group, context)`."""
    dtype = np.min_scalar_type(len(tokens))
    counts = np.empty((tokens.shape[1], d_vocab, tokens.shape[2]), dtype)
    for token in range(d_vocab):
        counts[:, token] = np.add.reduce((tokens == token).view(np.uint8), axis=0, dtype=dtype)
    return counts


def _count_pairs(tokens: np.ndarray, d_vocab: int) -> np.ndarray:
    """Times that a token was followed by another, `(group, next, token, context)`."""
    _, groups, n_contexts = tokens.shape
    place = np.arange(groups)[:, None] * n_contexts + np.arange(n_contexts)
    # one running number for (group, next, token, context), context fastest
    group, context = place // n_contexts, place % n_contexts
    pair = tokens[1:].astype(np.int64) * d_vocab + tokens[:-1]
    index = (group * d_vocab**2 + pair) * n_contexts + context
    counts = np.bincount(index.ravel(), minlength=groups * d_vocab**2 * n_contexts)
    return counts.reshape(groups, d_vocab, d_vocab, n_contexts)
