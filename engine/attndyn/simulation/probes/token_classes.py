"""Attention by classes of key tokens and by distance, and embedding norms: for large vocabularies."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from pydantic import Field

from attndyn import registry
from attndyn.backend import Array
from attndyn.simulation.probe import Declaration, Fixed, Probe, State, Variable
from attndyn.simulation.probe_batch import probe_batch, require_positions
from attndyn.simulation.simulation import Simulation
from attndyn.simulation.token_bands import BandShares, bands, bands_of, named
from attndyn.spec.base import ProbeOptions

EARLIER, LATER = "earlier", "later"
#: the dimension of a class of keys, and what attention to it is attention to
CLASSES = {
    "token": ("named", "a token"),
    "band": ("band", "the tokens of a band of frequency"),
    "lag": ("lag", "the place so many places back"),
}
DESCRIBED = {
    "named": "token that stands by itself, most frequent first",
    "band": "band of frequency that tokens are in",
    "lag": f"places back from the query, '{EARLIER}' all that are farther, '{LATER}' those after it",
}


class TokenClassesOptions(BandShares, ProbeOptions):
    """When to record, which tokens stand by themselves, where bands end, how much is looked at."""

    tokens: list[str] | None = Field(default=None, min_length=1, description="default: the most frequent")
    most: int = Field(default=8, ge=1, le=1024, description="without tokens: how many, at most")
    lags: int = Field(
        default=4, ge=1, le=64, description="distances that stand by themselves, 0 the query's own"
    )
    contexts: int = Field(
        default=64, ge=1, le=1024, description="contexts to look at; all of them where a text has fewer"
    )


@registry.probe("token_classes")
class TokenClassesProbe(Probe):
    """Means over the queries of a fixed probe batch, those places that the loss reads; norms of W_0.

    `attention_token`, `attention_band` (layer, head, ·): attention to all places of a token, and of a band's
    tokens; `attention_lag`: by distance back, over the queries that have all of these distances and one more;
    `entropy` of attention over places, in nats. `uniform_token` and so on: what attention that tells no place
    from another gives there, for a token how often it is among what the queries see. `norm_token`, and
    `norm_band`, the mean over the band's tokens, NaN where it has none. `token_band (replica, token)` is the
    band of every token.

    Memory, in entries: replicas × contexts × n_ctx × (layers × heads × n_ctx + classes), and replicas ×
    d_vocab × bands; never d_vocab × d_vocab.
    """

    Options = TokenClassesOptions
    options: TokenClassesOptions

    def __init__(self, options: TokenClassesOptions, simulation: Simulation):
        super().__init__(options, simulation)
        require_positions(simulation, "token_classes")
        data, backend = simulation.data, simulation.backend
        self._named = named(data.pi.mean(axis=0), data.tokens, options.tokens, options.most)
        band = bands(data.pi, data.tokens, options.high, options.medium)
        self._bands = bands_of(data.tokens)
        self._band_of_token = np.array(self._bands)[band]
        contexts = probe_batch(simulation, options.contexts)
        assert contexts.keys is not None
        assert contexts.query is not None
        self._n_queries, self._n_places = contexts.query.shape[1], contexts.keys.shape[1]
        keys = contexts.keys.swapaxes(1, 2).astype(np.intp)  # (R, B, K)
        replica = np.arange(len(keys))[:, None, None]
        of_named = keys[..., None] == self._named
        of_band = band[replica, keys][..., None] == np.arange(len(self._bands))
        classes = np.concatenate([of_named, of_band], axis=-1).astype(backend.dtype)
        self._classes = backend.asarray(classes[:, None, :, None])
        self._contexts = contexts.on(backend)
        self._lags = min(options.lags, keys.shape[2])
        self._lag = backend.asarray(_lag_classes(self._n_queries, keys.shape[2], self._lags))
        in_band = (band[..., None] == np.arange(len(self._bands))).astype(float)
        with np.errstate(invalid="ignore", divide="ignore"):  # an empty band has no mean
            self._band_mean = backend.asarray(in_band / in_band.sum(axis=1, keepdims=True))
        self._named_on_device = backend.asarray(self._named)
        # without any weights no place is told from another
        nothing = simulation.parameters.with_flat(backend.zeros(simulation.parameters.flat.shape))
        uniform = self._summary(nothing)
        n_layers, n_heads = uniform["entropy"].shape[1:]
        self._heads = (int(n_layers), int(n_heads))
        self._uniform = {name: backend.xp.mean(value, axis=(1, 2)) for name, value in uniform.items()}

    def declare(self) -> Declaration:
        """See `Probe.declare`."""
        heads = self._heads
        labels = {
            "named": [self.simulation.data.tokens[t] for t in self._named],
            "band": list(self._bands),
            "lag": [*map(str, range(self._lags)), EARLIER, LATER],
        }
        sizes = {name: len(of) for name, of in labels.items()}
        return Declaration(
            _attention_variables(heads, sizes) | self._entropies(heads) | _norm_variables(sizes),
            labels,
            DESCRIBED,
            {
                "token_band": Fixed(
                    ("replica", "token"), self._band_of_token, "band of frequency of the token"
                )
            },
        )

    def _entropies(self, heads: tuple[int, int]) -> dict[str, Variable]:
        """Entropy of attention over places, at most that of all of them alike."""
        what, most = "entropy of attention over places, mean over queries", float(np.log(self._n_places))
        return {
            "entropy": Variable(("layer", "head"), heads, what, "nats", "H(A)", 0.0, most),
            "uniform_entropy": Variable((), (), f"{what}, were it uniform", "nats", "", 0.0, most),
        }

    def measure(self, state: State) -> dict[str, Array]:
        """See `Probe.measure`."""
        xp = self.simulation.backend.xp
        w_0 = state.parameters["W_0"]
        norms = xp.sqrt(xp.sum(w_0 * w_0, axis=2))
        found = self._summary(state.parameters)
        return {
            **{name if name == "entropy" else f"attention_{name}": value for name, value in found.items()},
            **{f"uniform_{name}": value.copy() for name, value in self._uniform.items()},
            "norm_token": xp.take(norms, self._named_on_device, axis=1),
            "norm_band": (norms[:, None] @ self._band_mean)[:, 0],
        }

    def _summary(self, parameters: Mapping[str, Array]) -> dict[str, Array]:
        """Attention by token, band and distance, and its entropy, `(R, layer, head, ...)`."""
        xp, n = self.simulation.backend.xp, len(self._named)
        a = self.simulation.architecture.attention(parameters, self._contexts)[..., -self._n_queries :, :]
        by_class = xp.mean(xp.mean(a, axis=4, keepdims=True) @ self._classes, axis=(2, 4))
        places = xp.mean(a, axis=2)
        entropy = -xp.sum(a * xp.log(xp.where(a > 0, a, 1)), axis=5)
        return {
            "token": by_class[..., :n].copy(),
            "band": by_class[..., n:].copy(),
            "lag": places.reshape(*places.shape[:3], -1) @ self._lag,
            "entropy": xp.mean(entropy, axis=(2, 4)),
        }


def _attention_variables(heads: tuple[int, int], sizes: Mapping[str, int]) -> dict[str, Variable]:
    """Attention by token, band and distance, and what it would be were it uniform: shares, each."""
    variables = {}
    for name, (dim, text) in CLASSES.items():
        what, n = f"attention to {text}, mean over queries", sizes[dim]
        shape = (*heads, n)
        variables[f"attention_{name}"] = Variable(("layer", "head", dim), shape, what, "1", "A", 0.0, 1.0)
        variables[f"uniform_{name}"] = Variable((dim,), (n,), f"{what}, were it uniform", "1", "", 0.0, 1.0)
    return variables


def _norm_variables(sizes: Mapping[str, int]) -> dict[str, Variable]:
    """Norms of rows of W_0."""
    mean = "embedding norm, mean over the tokens of a band"
    empty = "the band has no token"
    return {
        "norm_token": Variable(("named",), (sizes["named"],), "embedding norm of a token", valid_min=0.0),
        "norm_band": Variable(("band",), (sizes["band"],), mean, valid_min=0.0, nan_where=empty),
    }


def _lag_classes(n_queries: int, n_ctx: int, lags: int) -> np.ndarray:
    """Weights (query · key, class): attention by distance, mean over the queries with all distances."""
    query, key = np.arange(n_ctx)[-n_queries:, None], np.arange(n_ctx)
    distance = query - key
    classes = np.where(distance < 0, lags + 1, np.minimum(distance, lags))
    reached = np.broadcast_to(query >= min(lags, n_ctx - 1), distance.shape)
    weights = (classes[..., None] == np.arange(lags + 2)) * reached[..., None]
    return weights.reshape(-1, lags + 2) / reached[:, 0].sum()
