"""The stream of states from tokens through blocks to logits, and back: what the architectures share.

Sites are places, where positions matter or attention is causal, and tokens elsewhere: a token's state then
stands for all its places, and its weight in attention is how often it occurs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from attndyn.backend import Array, Backend
from attndyn.data.contexts import Contexts
from attndyn.layers import cross_entropy, embedding, heads, layer_norm, parts, position, projection
from attndyn.layers.block import Block

_PER_LAYER = ("W_Q", "W_K", "W_V", "W_O", "W_in", "W_out", "gain", "shift")


@dataclass(frozen=True)
class Stream:
    """A model without parameters of its own: these come by name, W_0, W_1 and those of the blocks.

    Attributes:
        backend: where the arrays live.
        block: the blocks, all alike.
        n_layers: how many there are.
        d_vocab: number of tokens.
        d_model: width of the states.
        n_ctx: number of positions in a context.
        causal: a site sees those before it and itself only.
        positions: what is added to embeddings for their place; `learned` has the parameter W_P.
        mask_token: token whose keys are masked, if any.
    """

    backend: Backend
    block: Block
    n_layers: int
    d_vocab: int
    d_model: int
    n_ctx: int
    causal: bool = False
    positions: Literal["none", "learned", "sinusoidal"] = "none"
    mask_token: int | None = None

    def representations(self, loss_positions: str) -> tuple[str, ...]:
        """Counts and population carry contexts whose sites have no place and see all of their context.

        A causal layer that is read at the last site only sees all of it; several of them do not.
        """
        whole = not self.causal or (self.n_layers == 1 and loss_positions == "last")
        if self.positions != "none" or not whole:
            return ("positions",)
        return ("population", "counts", "positions")

    def loss_and_gradients(
        self, parameters: Mapping[str, Array], contexts: Contexts
    ) -> tuple[Array, dict[str, Array]]:
        """The loss `(R,)` and the gradients of all parameters; see `Architecture.loss_and_gradients`."""
        n_sites = self.d_vocab if contexts.keys is None else contexts.keys.shape[1]
        n_heads = parameters["W_Q"].shape[2]
        # attention of a layer and two states: what a step goes over again and again
        per_context = n_sites * (n_heads * n_sites + 2 * self.d_model) * self.backend.dtype.itemsize
        return parts.loss_and_gradients(self.backend, self._whole, parameters, contexts, per_context)

    def _whole(self, parameters: Mapping[str, Array], contexts: Contexts) -> tuple[Array, dict[str, Array]]:
        x, trace = self._stream(parameters, contexts)
        logits, x_end, chosen, end_cache = self._read(x, parameters, contexts)
        loss, d_logits = cross_entropy.of_states(
            self.backend, logits, contexts.targets, contexts.sample_weights
        )
        gradients: dict[str, Array] = {}
        d_end, gradients["W_1"] = projection.backward_shared(d_logits, x_end, parameters["W_1"])
        d_x = self._end_backward(d_end, end_cache, parameters, gradients)
        d_x = self._choose_backward(d_x, x.shape, chosen)
        return loss, self._stream_backward(d_x, trace, parameters, contexts, gradients)

    def logits(self, parameters: Mapping[str, Array], contexts: Contexts) -> Array:
        """Logits of the queries, `(R, B, Q, V)`; see `Architecture.logits`."""
        x, _ = self._stream(parameters, contexts)
        return self._read(x, parameters, contexts)[0]

    def attention(self, parameters: Mapping[str, Array], contexts: Contexts) -> Array:
        """Attention of every layer, `(R, layer, B, head, query, key)`; see `Architecture.attention`."""
        _, trace = self._stream(parameters, contexts, all_sites=True)
        maps = [cache[0][0].attention for cache in trace]
        return self.backend.xp.stack(maps, axis=1)

    # -- the stream ---------------------------------------------------------------------------------------

    def _layer(self, parameters: Mapping[str, Array], layer: int) -> dict[str, Array]:
        """Weights of one layer."""
        return {name: parameters[name][:, layer] for name in _PER_LAYER if name in parameters}

    def _stream(
        self, parameters: Mapping[str, Array], contexts: Contexts, all_sites: bool = False
    ) -> tuple[Array, list[Any]]:
        """States after all blocks, `(R, B, n, model)`, and the blocks' caches.

        Where only the last place of a context is read, the last block computes that one only.
        """
        # tokens have no order; they are sites of a causal layer only if it is read at the end of the context
        causal = self.causal and contexts.keys is not None
        one_query = contexts.query is not None and contexts.query.shape[1] == 1
        last = contexts.keys is not None and one_query and not all_sites
        x = self._embed(parameters, contexts)
        bias = heads.bias(self.backend, self.log_weights(contexts), x.shape[2], causal)
        trace = []
        for layer in range(self.n_layers):
            only = last and layer == self.n_layers - 1
            x, cache = self.block.forward(x, self._layer(parameters, layer), bias, only)
            trace.append(cache)
        return x, trace

    def _stream_backward(
        self,
        d_x: Array,
        trace: list[Any],
        parameters: Mapping[str, Array],
        contexts: Contexts,
        gradients: dict[str, Array],
    ) -> dict[str, Array]:
        """All gradients, given that of the states after all blocks and those behind them."""
        found: list[dict[str, Array]] = []
        for layer in reversed(range(self.n_layers)):
            d_x, of_layer = self.block.backward(d_x, trace[layer], self._layer(parameters, layer))
            found.append(of_layer)
        for name in found[0]:
            gradients[name] = self.backend.xp.stack([g[name] for g in reversed(found)], axis=1)
        return gradients | self._embed_backward(d_x, contexts)

    def _embed(self, parameters: Mapping[str, Array], contexts: Contexts) -> Array:
        """States before the blocks: one context for all if the sites are tokens."""
        w_0 = parameters["W_0"]
        if contexts.keys is None:
            return w_0[:, None]
        x = embedding.forward(self.backend, w_0, contexts.keys)
        if self.positions == "learned":
            x = x + parameters["W_P"][:, None]
        elif self.positions == "sinusoidal":
            x = x + self.sinusoidal[: x.shape[2]]
        return x

    def _embed_backward(self, d_x: Array, contexts: Contexts) -> dict[str, Array]:
        if contexts.keys is None:
            return {"W_0": self.backend.xp.sum(d_x, axis=1)}
        gradients = {"W_0": embedding.backward(self.backend, d_x, contexts.keys, self.d_vocab)}
        if self.positions == "learned":
            gradients["W_P"] = self.backend.xp.sum(d_x, axis=1)
        return gradients

    def log_weights(self, contexts: Contexts) -> Array:
        """Log-weights of the keys `(R, K, B)`, masked ones far below all others.

        Like a padding mask in common use, -1e9 and not -inf: a context of masked keys only attends to all.
        """
        token = self.mask_token
        if token is None:
            return contexts.log_weights
        xp = self.backend.xp
        keys = xp.arange(self.d_vocab)[None, :, None] if contexts.keys is None else contexts.keys
        return contexts.log_weights + xp.where(keys == token, -1e9, 0.0).astype(self.backend.dtype)

    # -- the end ------------------------------------------------------------------------------------------

    def _read(
        self, x: Array, parameters: Mapping[str, Array], contexts: Contexts
    ) -> tuple[Array, Array, Array | None, Any]:
        """Logits of the queries, the states they are read from, where these were taken, and a cache."""
        x_out, chosen = self._choose(x, contexts.query)
        x_end, end_cache = self._end(x_out, parameters)
        return projection.forward(x_end, parameters["W_1"][:, None]), x_end, chosen, end_cache

    def _choose(self, x: Array, query: Array | None) -> tuple[Array, Array | None]:
        """States of the queries, `(R, B, Q, model)`, and where they were taken from if not all were."""
        if query is None or x.shape[2] == query.shape[1]:
            return x, None
        xp = self.backend.xp
        n_replicas, _, n_contexts = query.shape
        place = (
            xp.arange(n_replicas)[:, None, None],
            xp.arange(n_contexts)[None, :, None],
            query.swapaxes(1, 2),
        )
        x = xp.broadcast_to(x, (n_replicas, n_contexts, *x.shape[2:]))
        return x[place], place

    def _choose_backward(self, d_x: Array, shape: tuple[int, ...], place: Any) -> Array:
        """Gradient of the states `shape`, given that of the chosen ones."""
        if place is None:
            return d_x
        xp = self.backend.xp
        every = xp.zeros((d_x.shape[0], d_x.shape[1], *shape[2:]), dtype=d_x.dtype)
        every[place] = d_x  # one query a context: no place comes twice
        return heads.fold(self.backend, every, shape[1])

    def _end(self, x: Array, parameters: Mapping[str, Array]) -> tuple[Array, Any]:
        if self.block.norm != "pre":
            return x, None
        return layer_norm.forward(self.backend, x, parameters["gain_end"], parameters["shift_end"])

    def _end_backward(
        self, d_x: Array, cache: Any, parameters: Mapping[str, Array], gradients: dict[str, Array]
    ) -> Array:
        if cache is None:
            return d_x
        d_x, gradients["gain_end"], gradients["shift_end"] = layer_norm.backward(
            self.backend, d_x, cache, parameters["gain_end"]
        )
        return d_x

    @cached_property
    def sinusoidal(self) -> Array:
        """Fixed encodings of the positions."""
        return self.backend.asarray(position.sinusoidal(self.n_ctx, self.d_model))
