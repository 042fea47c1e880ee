"""How far the predictions are from those of n-grams, and how much they hang on the last token alone."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from pydantic import Field

from attndyn import registry
from attndyn.backend import Array
from attndyn.data.source import DataSource
from attndyn.simulation.probe import Declaration, Probe, State, Variable
from attndyn.simulation.probe_batch import PART_ENTRIES, parts, probe_batch, require_positions
from attndyn.simulation.simulation import Simulation
from attndyn.spec.base import ProbeOptions


class PredictionsOptions(ProbeOptions):
    """When to record, and how much is looked at."""

    contexts: int = Field(default=16, ge=1, le=1024, description="contexts to look at; at most a batch")
    repeats: int = Field(
        default=8,
        ge=2,
        le=1024,
        description="occurrences among the queries from which a token's own mean is taken",
    )


class _Part(NamedTuple):
    """Some of the contexts: which, and where their tokens are among the rows of successors."""

    contexts: slice
    keys: Array
    queries: Array


@registry.probe("predictions")
class PredictionsProbe(Probe):
    """Means over the queries of a fixed probe batch, those places that the loss reads; in nats.

    Of the predictions p: `kl_unigram`, the mean of KL(π ‖ p) from the frequencies; `kl_bigram`, that of
    KL(P(· | x_i) ‖ p), x_i being the query's token and P how often one token follows another;
    `kl_pseudo_bigram` (layer, head), that of KL(Σ_j A_ij P(· | x_j) ‖ p), the bigram averaged over what the
    query attends to. The reference comes first: it has zeros where a softmax has none.

    `information_unigram` and so on is what the reference itself tells, the mean of its KL from the simpler
    one: of π from equal probabilities, of the bigrams from π. 1 - KL / information is the share of it that
    the predictions have.

    `residual` is the mean of KL(p_i ‖ mean of p over the queries with the same token), over tokens with at
    least `repeats` queries, times n / (n - 1) for the mean's own fit; `spread` the same with one mean for all
    of them; `token_share` = 1 - residual / spread. Predictions of first order have residual 0. NaN where no
    token is repeated so often.

    Memory, in entries: the successors of the tokens that occur in the batch, replicas × min(d_vocab, contexts
    × n_ctx) × d_vocab, and predictions of a part of the contexts, some `PART_ENTRIES` or one context's.
    """

    Options = PredictionsOptions
    options: PredictionsOptions

    def __init__(self, options: PredictionsOptions, simulation: Simulation):
        super().__init__(options, simulation)
        require_positions(simulation, "predictions")
        data, backend = simulation.data, simulation.backend
        contexts = probe_batch(simulation, options.contexts)
        assert contexts.keys is not None
        assert contexts.query is not None
        keys, queries = (tokens.swapaxes(1, 2).astype(np.intp) for tokens in (contexts.keys, contexts.query))
        rows, place = _successors(data, keys)
        self._n_queries = queries.shape[2]
        at_query = place[..., -self._n_queries :]
        self._bigram_entropy = backend.asarray(_mean_over(_entropy(rows), at_query))
        self._unigram_entropy = backend.asarray(_entropy(data.pi))
        self._information = {
            "information_unigram": backend.asarray(np.log(data.pi.shape[1]) - _entropy(data.pi)),
            "information_bigram": backend.asarray(_mean_over(_from_unigram(rows, data.pi), at_query)),
        }
        with np.errstate(divide="ignore"):
            log_pi = np.log(data.pi)[:, :, None]
        # what never occurs follows nothing either
        self._log_pi = backend.asarray(np.where(np.isfinite(log_pi), log_pi, 0.0))
        self._rows, self._pi = backend.asarray(rows), backend.asarray(data.pi[:, :, None])
        self._replica = backend.asarray(np.arange(len(keys))[:, None, None])
        self._groups = backend.asarray(_groups(queries, options.repeats).astype(backend.dtype))
        self._contexts = contexts.on(backend)
        size = len(keys) * keys.shape[2] * len(data.tokens)
        self._parts = [
            _Part(part, backend.asarray(place[:, part]), backend.asarray(at_query[:, part]))
            for part in parts(keys.shape[1], size, PART_ENTRIES)
        ]

    def declare(self) -> Declaration:
        """See `Probe.declare`."""
        heads = self.simulation.architecture.attention(
            self.simulation.parameters, self._contexts.part(slice(None), slice(0, 1))
        )
        n_layers, n_heads = heads.shape[1], heads.shape[3]
        references = {
            "unigram": ("the frequencies", (), ()),
            "bigram": ("the bigram of the last token", (), ()),
            "pseudo_bigram": (
                "the bigram averaged with the weights of attention",
                ("layer", "head"),
                (n_layers, n_heads),
            ),
        }
        variables = {}
        for name, (text, dims, shape) in references.items():
            variables[f"kl_{name}"] = Variable(
                dims, shape, f"KL divergence of the predictions from {text}", "nats", r"KL(q \| p)"
            )
            variables[f"information_{name}"] = Variable(
                dims, shape, f"KL divergence of {text} from what is simpler", "nats"
            )
        return Declaration(
            variables
            | {
                "residual": Variable(
                    (), (), "KL of the predictions from their mean over queries with the same token", "nats"
                ),
                "spread": Variable((), (), "KL of the same predictions from their mean", "nats"),
                "token_share": Variable(
                    (), (), "share of the spread of predictions that the last token explains"
                ),
            }
        )

    def measure(self, state: State) -> dict[str, Array]:
        """See `Probe.measure`."""
        xp = self.simulation.backend.xp
        n_replicas, n_groups = self._groups.shape[:2]
        of_groups = self.simulation.backend.zeros((n_replicas, n_groups, self._pi.shape[1]))
        own_entropy: list[Array] = []
        kl: list[tuple[tuple[Array, ...], int]] = []
        start = 0
        for part in self._parts:
            log_p, a = self._look(state, part)
            n = log_p.shape[1]
            kl.append((self._divergences(log_p, a, part), n))
            p = xp.exp(log_p)
            own_entropy.append(-xp.sum(p * log_p, axis=2))
            of_groups += self._groups[:, :, start : start + n] @ p
            start += n
        unigram, bigram, pseudo, told = (sum(part[i] * n for part, n in kl) / start for i in range(4))
        residual, spread = self._fits(of_groups, xp.concatenate(own_entropy, axis=1))
        return {
            "kl_unigram": unigram - self._unigram_entropy,
            "kl_bigram": bigram - self._bigram_entropy,
            "kl_pseudo_bigram": pseudo,
            "information_pseudo_bigram": told,
            **{name: value.copy() for name, value in self._information.items()},
            "residual": residual,
            "spread": spread,
            "token_share": 1 - residual / xp.where(spread > 0, spread, xp.nan),
        }

    def _look(self, state: State, part: _Part) -> tuple[Array, Array]:
        """Log-predictions `(R, B · Q, V)` and attention of the queries `(R, layer, B, head, Q, K)`."""
        xp, architecture = self.simulation.backend.xp, self.simulation.architecture
        contexts = self._contexts.part(slice(None), part.contexts)
        logits = architecture.logits(state.parameters, contexts)
        logits = logits - xp.max(logits, axis=-1, keepdims=True)
        log_p = logits - xp.log(xp.sum(xp.exp(logits), axis=-1, keepdims=True))
        attention = architecture.attention(state.parameters, contexts)
        return log_p.reshape(len(log_p), -1, log_p.shape[-1]), attention[..., -self._n_queries :, :]

    def _divergences(self, log_p: Array, a: Array, part: _Part) -> tuple[Array, ...]:
        """Cross-entropy of unigram and bigram `(R,)`; KL of and from the pseudo-2-gram `(R, layer, head)`."""
        xp = self.simulation.backend.xp
        unigram = -xp.mean((log_p @ self._pi)[..., 0], axis=1)
        by_query = self._rows[self._replica, part.queries].reshape(log_p.shape)
        bigram = -xp.mean(xp.sum(by_query * log_p, axis=2), axis=1)
        following = self._rows[self._replica, part.keys]  # (R, B, K, V)
        pseudo, told = [], []
        for layer in range(a.shape[1]):
            for head in range(a.shape[3]):
                mixed = (a[:, layer, :, head] @ following).reshape(log_p.shape)
                entropy = xp.mean(_entropy_of(xp, mixed), axis=1)
                pseudo.append(-xp.mean(xp.sum(mixed * log_p, axis=2), axis=1) - entropy)
                told.append(-xp.mean((mixed @ self._log_pi)[..., 0], axis=1) - entropy)
        heads = (len(log_p), a.shape[1], a.shape[3])
        return unigram, bigram, *(xp.stack(values, axis=1).reshape(heads) for values in (pseudo, told))

    def _fits(self, of_groups: Array, own_entropy: Array) -> tuple[Array, Array]:
        """Residual and spread `(R,)`, from sums of predictions by token and each query's entropy `(R, N)`."""
        xp = self.simulation.backend.xp
        n = xp.sum(self._groups, axis=2)  # (R, group)
        mean_own = (self._groups @ own_entropy[..., None])[..., 0]
        sizes = xp.where(n > 0, n, 1)
        of_tokens = _entropy_of(xp, of_groups / sizes[..., None]) * n - mean_own
        corrected = of_tokens * sizes / xp.where(sizes > 1, sizes - 1, 1)
        total = xp.sum(n, axis=1)
        some = xp.where(total > 0, total, xp.nan)
        whole = _entropy_of(xp, xp.sum(of_groups, axis=1) / some[:, None])
        return xp.sum(corrected, axis=1) / some, whole - xp.sum(mean_own, axis=1) / some


def _successors(data: DataSource, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What follows the tokens of a batch: rows of P `(R, n, V)`, and their places for `keys (R, B, K)`.

    A token that nothing follows is followed by the frequencies.
    """
    present = [np.unique(of_replica) for of_replica in keys]
    width = max(len(tokens) for tokens in present)
    rows = np.zeros((len(keys), width, data.pi.shape[1]))
    place = np.empty(keys.shape, dtype=np.intp)
    for replica, tokens in enumerate(present):
        place[replica] = np.searchsorted(tokens, keys[replica])
        if data.transition is not None:
            rows[replica, : len(tokens)] = data.transition[replica, tokens]
            continue
        assert data.pairs is not None
        found = data.pairs[tokens].toarray().astype(float)
        total = found.sum(axis=1, keepdims=True)
        rows[replica, : len(tokens)] = np.where(total > 0, found / np.maximum(total, 1), data.pi[replica])
    return rows, place


def _groups(queries: np.ndarray, repeats: int) -> np.ndarray:
    """Which queries have a token that is repeated often enough, `(R, group, B · Q)`; at least one group."""
    flat = queries.reshape(len(queries), -1)
    repeated = []
    for tokens in flat:
        found, count = np.unique(tokens, return_counts=True)
        repeated.append(found[count >= repeats])
    width = max(1, *(len(tokens) for tokens in repeated))
    padded = np.stack([np.pad(tokens, (0, width - len(tokens)), constant_values=-1) for tokens in repeated])
    return padded[..., None] == flat[:, None]


def _entropy(rows: np.ndarray) -> np.ndarray:
    return -np.sum(rows * np.log(np.where(rows > 0, rows, 1)), axis=-1)


def _entropy_of(xp: Array, rows: Array) -> Array:
    return -xp.sum(rows * xp.log(xp.where(rows > 0, rows, 1)), axis=-1)


def _mean_over(values: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Mean of `values (R, n)` at `place (R, B, Q)`, `(R,)`."""
    return np.take_along_axis(values, place.reshape(len(place), -1), axis=1).mean(axis=1)


def _from_unigram(rows: np.ndarray, pi: np.ndarray) -> np.ndarray:
    """KL of every row `(R, n, V)` from the frequencies, `(R, n)`."""
    here = rows > 0
    ratio = np.where(here, rows, 1.0) / np.where(here, pi[:, None], 1.0)
    return np.sum(rows * np.log(ratio), axis=-1)
