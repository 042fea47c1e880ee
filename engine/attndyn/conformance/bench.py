"""What architectures are checked on: small contexts of every form, parameters, and evaluations of both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from attndyn.backend import Array, Backend
from attndyn.backend.numpy_backend import NumpyBackend
from attndyn.data.contexts import Contexts, population
from attndyn.data.markov import MarkovData
from attndyn.data.options import MarkovOptions
from attndyn.layers.architecture import Architecture
from attndyn.layers.parameters import Parameter, Parameters
from attndyn.spec.base import ModelOptions

D_MODEL = 6


class Sizes(NamedTuple):
    """Sizes that differ from each other, from `D_MODEL`, and from small numbers of layers and heads."""

    d_vocab: int = 4
    n_ctx: int = 5
    n_contexts: int = 7
    n_replicas: int = 8


SIZES = Sizes()


class Setting(NamedTuple):
    """A form of contexts: their representation, where the loss is, and what the targets are."""

    representation: str
    loss_positions: str
    targets: str

    def __str__(self) -> str:
        return f"{self.representation}, loss at {self.loss_positions}, {self.targets} targets"


SETTINGS = (
    Setting("population", "last", "exact"),
    Setting("counts", "last", "sampled"),
    Setting("counts", "all", "sampled"),
    Setting("positions", "last", "sampled"),
    Setting("positions", "all", "sampled"),
    Setting("positions", "all", "exact"),
)


@dataclass(frozen=True)
class Evaluation:
    """Copies, on the host, of a loss `(R,)` and its gradients by name, `(R, *shape)`."""

    loss: np.ndarray
    gradients: dict[str, np.ndarray]

    def parts(self) -> dict[str, np.ndarray]:
        """All arrays by what they are called in messages."""
        return {"loss": self.loss} | {f"gradient of {name}": g for name, g in self.gradients.items()}


@dataclass(frozen=True)
class Bench:
    """An architecture with one option set, at given sizes.

    Attributes:
        cls: the architecture.
        options: its options.
        source: the file it is in.
        sizes: of the vocabulary, the contexts and the batch.
    """

    cls: type[Architecture]
    options: ModelOptions
    source: str
    sizes: Sizes = SIZES

    def build(self, backend: Backend) -> Architecture:
        """A fresh instance."""
        return self.cls(self.options, self.sizes.d_vocab, self.sizes.n_ctx, backend)

    def resized(self, **sizes: int) -> Bench:
        """The same at other sizes."""
        return replace(self, sizes=self.sizes._replace(**sizes))

    @cached_property
    def reference(self) -> Architecture:
        """An instance on NumPy."""
        return self.build(NumpyBackend())

    @cached_property
    def declared(self) -> tuple[Parameter, ...]:
        """The parameters."""
        return self.reference.parameters

    @cached_property
    def flat(self) -> np.ndarray:
        """Parameters `(R, P)`, far enough from the origin for every term of a gradient to count."""
        n = sum(parameter.size for parameter in self.declared)
        return np.random.default_rng(0).normal(scale=0.5, size=(self.sizes.n_replicas, n))

    @cached_property
    def settings(self) -> list[Setting]:
        """Every form of contexts that the architecture claims."""
        claimed = {positions: self.reference.representations(positions) for positions in ("last", "all")}
        return [setting for setting in SETTINGS if setting.representation in claimed[setting.loss_positions]]

    def contexts(self, setting: Setting, step: int = 0) -> Contexts:
        """Contexts of a form, the caller's own; every replica has others, drawn from another chain."""
        return each_array(_contexts(self.sizes, setting, step), np.array)

    def evaluate(
        self, flat: np.ndarray, contexts: Contexts, architecture: Architecture | None = None
    ) -> Evaluation:
        """Loss and gradients at parameters `(R, P)`, by an instance on any backend (NumPy by default)."""
        architecture = architecture or self.reference
        backend = architecture.backend
        parameters = Parameters(self.declared, backend.asarray(flat.copy()))
        loss, gradients = architecture.loss_and_gradients(parameters, contexts.on(backend))
        copies = {name: np.array(backend.to_host(g)) for name, g in gradients.items()}
        return Evaluation(np.array(backend.to_host(loss)), copies)

    def attention(
        self, flat: np.ndarray, contexts: Contexts, architecture: Architecture | None = None
    ) -> np.ndarray:
        """A copy of the attention, `(R, layer, B, head, query, key)`."""
        architecture = architecture or self.reference
        backend = architecture.backend
        parameters = Parameters(self.declared, backend.asarray(flat.copy()))
        return np.array(backend.to_host(architecture.attention(parameters, contexts.on(backend))))


@lru_cache(maxsize=128)
def _contexts(sizes: Sizes, setting: Setting, step: int) -> Contexts:
    options = [
        MarkovOptions.model_validate(
            {
                "kind": "markov",
                "regime": "population" if setting.representation == "population" else "sampled",
                "stationary": {"kind": "geometric", "d_vocab": sizes.d_vocab, "ratio": 0.5 + 0.05 * replica},
                "transition": {"kind": "random", "seed": 1, "concentration": 1.0},
                "n_ctx": sizes.n_ctx,
                "batch": sizes.n_contexts,
                "targets": setting.targets,
            }
        )
        for replica in range(sizes.n_replicas)
    ]
    source = MarkovData(options, range(sizes.n_replicas), setting.loss_positions)
    return source.batch(step, setting.representation)


def each_array(contexts: Contexts, function: Callable[[Array], Array]) -> Contexts:
    """The contexts with `function` applied to every array."""
    return replace(contexts, **{name: function(array) for name, array in arrays(contexts).items()})


def arrays(contexts: Contexts) -> dict[str, Any]:
    """The arrays of contexts by name, without those that are None."""
    found = {f.name: getattr(contexts, f.name) for f in fields(contexts)}
    return {name: a for name, a in found.items() if a is not None and not isinstance(a, str)}


#: occurrences of each token in a context whose counts are in the very proportions of π
COUNTS = (4, 3, 2, 1)


def proportional(loss_positions: str) -> dict[str, Contexts]:
    """One batch in all three representations, with counts proportional to π: all of them say the same.

    For the loss at the last position there is a context for each token at its end, weighted by π; for the
    loss at all of them one context. Targets are the rows of the transition matrix. One replica; the contexts
    are of `sum(COUNTS)` positions.
    """
    d_vocab, n_ctx = len(COUNTS), sum(COUNTS)
    pi = np.array(COUNTS) / n_ctx
    rows = np.random.default_rng(1).dirichlet(np.ones(d_vocab), size=d_vocab)
    limit = population(pi[None], rows[None])
    tokens = np.random.default_rng(2).permutation(np.repeat(np.arange(d_vocab), COUNTS))
    log_counts = np.log(np.array(COUNTS, dtype=float))[None, :, None]
    if loss_positions == "all":
        counts = replace(limit, representation="counts", log_weights=log_counts)
        keys, query = tokens[None, :, None], tokens[None, :, None]
        weights = np.full((1, 1, 1), 1 / n_ctx)
    else:
        # the contexts differ in what comes last only
        ends = [np.append(np.delete(tokens, at), t) for t in range(d_vocab) for at in [_first(tokens, t)]]
        keys, query = np.stack(ends, axis=1)[None], np.arange(d_vocab)[None, None, :]
        weights = pi[None, None, :]
        counts = Contexts(
            "counts", query, None, np.repeat(log_counts, d_vocab, axis=2), _rows(rows, query), weights
        )
    positions = Contexts("positions", query, keys, np.zeros((1, 1, 1)), _rows(rows, query), weights)
    return {"population": limit, "counts": counts, "positions": positions}


def _first(tokens: np.ndarray, token: int) -> int:
    return int(np.flatnonzero(tokens == token)[0])


def _rows(transition: np.ndarray, query: np.ndarray) -> np.ndarray:
    """Rows of the transition matrix for queries `(1, Q, B)`, as targets `(1, V, Q, B)`."""
    return transition[query[0]].transpose(2, 0, 1)[None]
