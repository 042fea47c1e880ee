"""How far the predictions are from those of n-grams, and how much they hang on the last token alone."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from pydantic import Field

from attndyn import registry
from attndyn.backend import Array
from attndyn.errors import Problem, SpecError
from attndyn.simulation.bigram_table import BigramTable, TooLarge
from attndyn.simulation.first_order import FirstOrderFit
from attndyn.simulation.probe import Declaration, Probe, State, Variable
from attndyn.simulation.probe_batch import PART_ENTRIES, parts, probe_batch, require_positions
from attndyn.simulation.simulation import Simulation
from attndyn.spec.base import ProbeOptions


class PredictionsOptions(ProbeOptions):
    """When to record, and how much is looked at."""

    contexts: int = Field(
        default=64, ge=1, le=1024, description="contexts to look at; all of them where a text has fewer"
    )
    repeats: int = Field(
        default=8,
        ge=2,
        le=1024,
        description="contexts in which a token must be a query for its own mean, half of them in each half",
    )


#: nothing is repeated that predictions could be compared with
SELDOM = "no token is a query in `repeats` contexts"
#: long_name, units, symbol, bounds, where it is NaN; without their bias, residual and spread may be below 0
SCALARS: dict[str, tuple[Any, ...]] = {
    "shrinkage": ("part of the bigram that is the frequencies, its counts being few", "1", "", 0.0, 1.0),
    "residual": (
        "KL of the predictions from their mean over queries with the same token",
        *("nats", "", None, None, SELDOM),
    ),
    "spread": ("KL of the same predictions from their mean", "nats", "", None, None, SELDOM),
    "token_share": (
        "share of the spread of predictions that the last token explains",
        *("1", "", None, None, f"{SELDOM}, or `spread` is not above 0"),
    ),
    "fit_share": ("share of the queries that residual and spread are taken from", "1", "", 0.0, 1.0),
}


class _Part(NamedTuple):
    """Some of the contexts: which, and where their tokens are in the table of bigrams."""

    contexts: slice
    place: Array


@registry.probe("predictions")
class PredictionsProbe(Probe):
    """Means over the queries of a fixed probe batch, those places that the loss reads; in nats.

    Of the predictions p: `kl_unigram`, the mean of KL(π ‖ p) from the frequencies; `kl_bigram`, that of
    KL(P(· | x_i) ‖ p), x_i being the query's token and P its bigram, see `attndyn.data.bigram`;
    `kl_pseudo_bigram` (layer, head), that of KL(Σ_j A_ij P(· | x_j) ‖ p), the bigram averaged over what the
    query attends to. The reference comes first: it has zeros where a softmax has none.

    `information_unigram` and so on is what the reference itself tells, the mean of its KL from the simpler
    one: of π from equal probabilities, of the bigrams from π. 1 - KL / information is the share of it that
    the predictions have. `shrinkage` is the part of P(· | x_i) that is π since the counts are few: 0 for a
    known chain, 1 where pairs tell nothing.

    `residual` is the mean of KL(p_i ‖ mean of p over the queries with the same token), over tokens that
    are queries in `repeats` contexts; `spread` the same with one mean for all of them, both as
    `attndyn.simulation.first_order` has it; `token_share` = 1 - residual / spread. Predictions of first order
    have residual 0. `fit_share` is the share of the queries that enter; where none does, these are NaN.

    Memory, in entries: min(d_vocab, contexts × n_ctx) × d_vocab for each distinct bigram, one for all
    replicas of a text, refused beyond `bigram_table.MAX_TABLE`; predictions of a part of the contexts, some
    `PART_ENTRIES` or one context's; replicas × 2 × tokens repeated × d_vocab; and 2 × tokens repeated ×
    queries, of each replica unless all have the same queries, refused beyond `first_order.MAX_WEIGHTS`, and
    some four times that while they are made.

    Raises:
        SpecError: a table would be too large, or the architecture reads no positions.
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
        self._n_queries = queries.shape[2]
        try:
            self._bigram = BigramTable(data, keys, self._n_queries, backend)
            self._fit = FirstOrderFit(queries, options.repeats, backend)
        except TooLarge as error:
            path = ("probes", "predictions", "contexts")
            message = f"is {options.contexts}; {error}"
            raise SpecError([Problem(simulation.spec.where(path), ".".join(path), message)]) from error
        pi = data.pi
        entropy = -np.sum(pi * np.log(np.where(pi > 0, pi, 1)), axis=1)
        self._unigram_entropy = backend.asarray(entropy)
        self._constant = {
            "information_unigram": backend.asarray(np.log(pi.shape[1]) - entropy),
            "information_bigram": self._bigram.information,
            "shrinkage": self._bigram.shrinkage,
            "fit_share": self._fit.share,
        }
        self._pi = backend.asarray(pi[:, None])
        self._log_pi = _log(backend.xp, self._pi)
        self._contexts = contexts.on(backend)
        size = len(keys) * keys.shape[2] * len(data.tokens)
        self._parts = [
            _Part(part, self._bigram.place(part)) for part in parts(keys.shape[1], size, PART_ENTRIES)
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
                dims, shape, f"KL divergence of {text} from the predictions", "nats", r"KL(q \| p)", 0.0
            )
            variables[f"information_{name}"] = Variable(
                dims, shape, f"KL divergence of {text} from what is simpler", "nats", valid_min=0.0
            )
        return Declaration(variables | {name: Variable((), (), *about) for name, about in SCALARS.items()})

    def measure(self, state: State) -> dict[str, Array]:
        """See `Probe.measure`."""
        xp, weights = self.simulation.backend.xp, self._fit.weights
        means: Array = 0.0
        own_entropy: list[Array] = []
        kl: list[tuple[tuple[Array, ...], int]] = []
        start = 0
        for part in self._parts:
            log_p, a = self._look(state, part)
            n = log_p.shape[1]
            kl.append((self._divergences(log_p, a, part), n))
            p = xp.exp(log_p)
            own_entropy.append(-xp.sum(p * log_p, axis=2))
            means = means + weights[..., start : start + n] @ p[:, None]
            start += n
        unigram, bigram, pseudo, told = (sum(part[i] * n for part, n in kl) / start for i in range(4))
        entropies = xp.concatenate(own_entropy, axis=1)[:, None, :, None]
        residual, spread = self._fit.measure(means, (weights @ entropies)[..., 0])
        return {
            "kl_unigram": unigram - self._unigram_entropy,
            "kl_bigram": bigram - self._bigram.entropy,
            "kl_pseudo_bigram": pseudo,
            "information_pseudo_bigram": told,
            **{name: value.copy() for name, value in self._constant.items()},
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
        unigram = -xp.mean(xp.sum(self._pi * log_p, axis=2), axis=1)
        following = self._bigram.following(part.place)  # (R or 1, B, K, V), less π
        at_query = following[:, :, -self._n_queries :].reshape(len(following), *log_p.shape[1:])
        bigram = unigram - xp.mean(xp.sum(at_query * log_p, axis=2), axis=1)
        pseudo, told = [], []
        for layer in range(a.shape[1]):
            for head in range(a.shape[3]):
                # attention sums to 1: where nothing is known but π, this is π to the last bit
                mixed = xp.maximum(self._pi + (a[:, layer, :, head] @ following).reshape(log_p.shape), 0)
                log_mixed = _log(xp, mixed)
                pseudo.append(xp.mean(xp.sum(mixed * (log_mixed - log_p), axis=2), axis=1))
                told.append(xp.mean(xp.sum(mixed * (log_mixed - self._log_pi), axis=2), axis=1))
        heads = (len(log_p), a.shape[1], a.shape[3])
        return unigram, bigram, *(xp.stack(values, axis=1).reshape(heads) for values in (pseudo, told))


def _log(xp: Array, values: Array) -> Array:
    """The logarithm, and 0 of 0: what never occurs follows nothing either."""
    return xp.log(xp.where(values > 0, values, 1))
