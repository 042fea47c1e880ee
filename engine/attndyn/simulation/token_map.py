"""Attention from token to token: at the stationary weights where these say all, else over a probe batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from attndyn.backend import Array, Backend
from attndyn.data.contexts import population
from attndyn.simulation.probe_batch import probe_batch
from attndyn.simulation.simulation import Simulation

TokenMap = Callable[[Mapping[str, Array]], Array]


def population_is_exact(simulation: Simulation) -> bool:
    """Whether attention at the stationary weights says all, for the architecture, whatever the data."""
    return "population" in simulation.architecture.representations(simulation.spec.training.loss_positions)


def token_map(simulation: Simulation) -> TokenMap:
    """The function from parameters to the map `(R, layer, head, query token, key token)`; rows sum to 1.

    Where the population limit is exact for the architecture, the map is that of one context with weights π.
    Elsewhere it is the mean over a fixed batch of contexts: of the attention that the places of a query token
    give to all places of a key token. A token that the batch lacks has a row of NaN.
    """
    architecture, data, backend = simulation.architecture, simulation.data, simulation.backend
    if population_is_exact(simulation):
        limit = population(data.pi, data.transition).on(backend)
        return lambda parameters: architecture.attention(parameters, limit)[:, :, 0]
    batch = probe_batch(simulation).on(backend)
    occurs = _one_hot(backend, batch.keys, len(data.tokens))
    return lambda parameters: _mean_over_places(backend, architecture.attention(parameters, batch), occurs)


def token_rows(simulation: Simulation, shown: np.ndarray) -> TokenMap:
    """The same over a batch of contexts without a map: the rows of the shown tokens, and one of all others.

    Args:
        simulation: what is run; its contexts are positions.
        shown: indices of these tokens (n,); there are others.

    Returns:
        A function from parameters to `(R, layer, head, n + 1, key token)`, rows summing to 1: each the mean
        over the places of a token in the fixed batch, the last one over those of all tokens not shown. Its
        memory is that of the batch's attention, and replicas × layers × heads × n × d_vocab.
    """
    architecture, backend, d_vocab = simulation.architecture, simulation.backend, len(simulation.data.tokens)
    contexts = probe_batch(simulation)
    assert contexts.keys is not None
    keys = contexts.keys.swapaxes(1, 2).astype(np.intp)  # (R, B, K)
    of_class = np.concatenate([keys[:, :, None] == shown[:, None], ~np.isin(keys, shown)[:, :, None]], axis=2)
    count = of_class.sum(axis=(1, 3)).astype(backend.dtype)[:, None, None, :, None]
    places = backend.asarray(of_class.astype(backend.dtype)[:, None, :, None])  # (R, 1, B, 1, class, place)
    index, n_places = backend.asarray(keys.reshape(len(keys), -1)), backend.asarray(count)
    batch = contexts.on(backend)

    def rows(parameters: Mapping[str, Array]) -> Array:
        given = places @ architecture.attention(parameters, batch)  # (R, layer, B, head, class, key place)
        by_class = given.transpose(0, 1, 3, 4, 2, 5)
        heads = by_class.shape[1:4]
        flat = by_class.reshape(len(given), -1, index.shape[1])
        summed = backend.add_columns(flat, index, d_vocab).reshape(len(given), *heads, d_vocab)
        return summed / backend.xp.where(n_places > 0, n_places, backend.xp.nan)

    return rows


def _one_hot(backend: Backend, keys: Array, d_vocab: int) -> Array:
    """`keys (R, K, B)` as `(R, 1, B, 1, K, token)`, to be multiplied with attention of any layer and head."""
    every = backend.xp.arange(d_vocab)
    return (keys.swapaxes(1, 2)[:, None, :, None, :, None] == every).astype(backend.dtype)


def _mean_over_places(backend: Backend, attention: Array, occurs: Array) -> Array:
    """The map, from `attention (R, layer, B, head, query place, key place)`."""
    by_key = (attention @ occurs).swapaxes(2, 3)  # (R, layer, head, B, query place, key token)
    flat = by_key.reshape(*by_key.shape[:3], -1, by_key.shape[-1])
    # all places of all contexts at once: no map of a context is ever formed
    places = occurs.reshape(len(occurs), 1, 1, -1, occurs.shape[-1])
    by_token = places.swapaxes(-1, -2) @ flat
    n_places = backend.xp.sum(places, axis=3)[..., None]
    return by_token / backend.xp.where(n_places > 0, n_places, backend.xp.nan)
