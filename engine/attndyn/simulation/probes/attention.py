"""The attention map from token to token, and its entropy."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from attndyn import registry
from attndyn.backend import Array
from attndyn.data.labels import REST
from attndyn.simulation.probe import Declaration, Probe, State, Variable
from attndyn.simulation.simulation import Simulation
from attndyn.simulation.token_map import population_is_exact, token_map, token_rows
from attndyn.spec.base import ProbeOptions


class AttentionOptions(ProbeOptions):
    """When to record, and which tokens stand by themselves in the map; the others are one, `<rest>`."""

    tokens: list[str] | None = Field(default=None, min_length=1, description="default: the most frequent")
    most: int = Field(default=32, ge=1, le=1024, description="without tokens: how many, at most")


@registry.probe("attention")
class AttentionProbe(Probe):
    """`attention(replica, step, layer, head, query, key)`, and `entropy` of its full rows in nats.

    The row `<rest>` is the mean over its tokens weighted by π, the column `<rest>` their sum: rows sum to 1.
    Where the population limit is not exact for the architecture, rows are means over the places of a token in
    a fixed batch of contexts, NaN for a token that it lacks; the row `<rest>` is the mean over the places of
    all of its tokens that are there, and its entropy that of this row. So it is too where the vocabulary is
    too large for a map of all tokens: memory as `token_map.token_rows` has it.
    """

    Options = AttentionOptions

    def __init__(self, options: AttentionOptions, simulation: Simulation):
        super().__init__(options, simulation)
        backend, data = simulation.backend, simulation.data
        self._shown = _shown(options, data.tokens, data.pi.mean(axis=0))
        self._rest = np.setdiff1d(np.arange(len(data.tokens)), self._shown)
        exact = population_is_exact(simulation)
        # whoever did not make a table of pairs of tokens has too many of them for a map
        self._by_rows = len(self._rest) > 0 and (data.transition is None or not exact)
        self._at_pi = exact and not self._by_rows
        self._map = token_rows(simulation, self._shown) if self._by_rows else token_map(simulation)
        self._shown_on_device, self._rest_on_device = (
            backend.asarray(index) for index in (self._shown, self._rest)
        )
        rest_pi = data.pi[:, self._rest]
        self._rest_share = backend.asarray(rest_pi / np.maximum(rest_pi.sum(axis=1, keepdims=True), 1e-300))

    def declare(self) -> Declaration:
        """See `Probe.declare`."""
        n_layers, n_heads = self._map(self.simulation.parameters).shape[1:3]
        labels = [self.simulation.data.tokens[t] for t in self._shown] + ([REST] if len(self._rest) else [])
        n = len(labels)
        where = "at the stationary weights" if self._at_pi else "mean over a batch of contexts"
        nan_where = "" if self._at_pi else "the contexts lack the query token"
        return Declaration(
            {
                "attention": Variable(
                    ("layer", "head", "query", "key"),
                    (n_layers, n_heads, n, n),
                    f"attention from query token to key token, {where}",
                    symbol="A",
                    valid_min=0.0,
                    valid_max=1.0,
                    nan_where=nan_where,
                ),
                "entropy": Variable(
                    ("layer", "head", "query"),
                    (n_layers, n_heads, n),
                    f"entropy of the attention to tokens, {where}",
                    "nats",
                    "H(A)",
                    valid_min=0.0,
                    valid_max=float(np.log(len(self.simulation.data.tokens))),
                    nan_where=nan_where,
                ),
            },
            {"query": labels, "key": labels},
        )

    def measure(self, state: State) -> dict[str, Array]:
        """See `Probe.measure`."""
        xp = self.simulation.backend.xp
        a = self._map(state.parameters)
        entropy = -xp.sum(a * xp.log(xp.where(a > 0, a, 1)), axis=-1)
        if self._by_rows:
            return {"attention": self._condense(a, 4), "entropy": entropy}
        return {
            "attention": self._condense(self._condense(a, 3, mean=True), 4),
            "entropy": self._condense(entropy, 3, mean=True),
        }

    def _condense(self, array: Array, axis: int, mean: bool = False) -> Array:
        """The shown tokens along an axis, and behind them the rest's mean weighted by π, or its sum."""
        xp = self.simulation.backend.xp
        shown = xp.take(array, self._shown_on_device, axis=axis)
        if not len(self._rest):
            return shown
        rest = xp.take(array, self._rest_on_device, axis=axis)
        if mean:
            share = self._rest_share.reshape(
                -1, *(len(self._rest) if a == axis else 1 for a in range(1, array.ndim))
            )
            rest = rest * share
        return xp.concatenate([shown, xp.sum(rest, axis=axis, keepdims=True)], axis=axis)


def _shown(options: AttentionOptions, tokens: list[str], pi: np.ndarray) -> np.ndarray:
    """Indices of the tokens that stand by themselves, in the order of the vocabulary."""
    if options.tokens is not None:
        return np.sort([tokens.index(t) for t in dict.fromkeys(options.tokens)])
    # one more than `most` would leave a single token as the rest
    if len(tokens) <= options.most + 1:
        return np.arange(len(tokens))
    return np.sort(np.argsort(-pi, kind="stable")[: options.most])
