"""Attention from token to token: at the stationary weights where these say all, else over a probe batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from attndyn.backend import Array, Backend
from attndyn.data.contexts import Contexts, population
from attndyn.simulation.simulation import Simulation

#: contexts of a probe batch, and the step whose number they have: none that is ever trained on
PROBE_CONTEXTS, PROBE_STEP = 64, 2**62

TokenMap = Callable[[Mapping[str, Array]], Array]


def token_map(simulation: Simulation) -> TokenMap:
    """The function from parameters to the map `(R, layer, head, query token, key token)`; rows sum to 1.

    Where the population limit is exact for the architecture, the map is that of one context with weights π.
    Elsewhere it is the mean over a fixed batch of contexts: of the attention that the places of a query token
    give to all places of a key token. A token that the batch lacks has a row of NaN.
    """
    architecture, data, backend = simulation.architecture, simulation.data, simulation.backend
    positions = simulation.spec.training.loss_positions
    if "population" in architecture.representations(positions):
        limit = population(data.pi, data.transition).on(backend)
        return lambda parameters: architecture.attention(parameters, limit)[:, :, 0]
    batch = _first(data.batch(PROBE_STEP, "positions"), PROBE_CONTEXTS).on(backend)
    occurs = _one_hot(backend, batch.keys, len(data.tokens))
    return lambda parameters: _mean_over_places(backend, architecture.attention(parameters, batch), occurs)


def _first(contexts: Contexts, n: int) -> Contexts:
    """The first `n` contexts of a batch of positions."""
    assert contexts.keys is not None
    return replace(contexts, keys=contexts.keys[..., :n])


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
