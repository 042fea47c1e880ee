"""Pure attention: one layer, one head, no residual, no positions (Def. 3.2).

    logits = softmax(X W_0 W_Q W_Kᵀ W_0ᵀ Xᵀ / √m) X W_0 [W_V] W_1

Every quantity depends on tokens only, not on places: over weighted tokens the model is a d × d score table Z
and a d × d prediction table M = W_0 [W_V] W_1, and `logits = A M`. Over positions the same is computed the
long way, every position embedded and projected.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from attndyn import registry
from attndyn.backend import Array, Backend
from attndyn.data.contexts import Contexts
from attndyn.layers import attention, cross_entropy, embedding, projection
from attndyn.layers.architecture import Architecture
from attndyn.layers.parameters import Parameter
from attndyn.spec.base import ModelOptions


class PureAttentionOptions(ModelOptions):
    """Options of `pure_attention`."""

    architecture: Literal["pure_attention"] = "pure_attention"
    value_projection: bool = Field(default=False, description="with W_V, as in the released code")


@registry.architecture("pure_attention")
class PureAttention(Architecture):
    """See the module's text and `Architecture`."""

    Options = PureAttentionOptions

    def __init__(self, options: PureAttentionOptions, d_vocab: int, backend: Backend):
        super().__init__(options, d_vocab, backend)
        self._values = options.value_projection
        self._scale = options.d_model**-0.5

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """W_0, W_Q, W_K, W_V (if asked for) and W_1."""
        d, m = self.d_vocab, self.options.d_model
        per_head, square = ("layer", "head", "model", "d_head"), (1, 1, m, m)
        declared = [
            Parameter("W_0", ("token", "model"), (d, m), "W_0", "embedding"),
            Parameter("W_Q", per_head, square, "W_Q", "query projection"),
            Parameter("W_K", per_head, square, "W_K", "key projection"),
            Parameter("W_V", per_head, square, "W_V", "value projection"),
            Parameter("W_1", ("model", "next_token"), (m, d), "W_1", "output projection"),
        ]
        return tuple(p for p in declared if self._values or p.name != "W_V")

    @property
    def representations(self) -> tuple[str, ...]:
        """All: attention is full and tokens have no positions."""
        return ("population", "counts", "positions")

    def cost(self, representation: str, n_ctx: int, n_contexts: int, n_queries: int) -> float:
        """See `Architecture.cost`."""
        d, m = self.d_vocab, self.options.d_model
        tables = 2 * d * m * m + 2 * d * d * m
        if representation == "population":
            return tables + d * d * d
        if representation == "counts":
            # where all positions are queries, every token is one
            return tables + n_contexts * (1 if n_queries == 1 else d) * d * d
        return n_contexts * (n_ctx * (2 * m * m) + n_queries * (2 * n_ctx * m + m * d))

    def loss_and_gradients(
        self, parameters: Mapping[str, Array], contexts: Contexts
    ) -> tuple[Array, dict[str, Array]]:
        """See `Architecture.loss_and_gradients`."""
        w = {name: p[:, 0, 0] if p.ndim == 5 else p for name, p in parameters.items()}
        over = self._over_tokens if contexts.keys is None else self._over_positions
        loss, gradients = over(w, contexts)
        return loss, {name: gradients[name].reshape(p.shape) for name, p in parameters.items()}

    def attention(self, parameters: Mapping[str, Array], log_weights: Array) -> Array:
        """See `Architecture.attention`."""
        w_0 = parameters["W_0"]
        queries = projection.forward(w_0, parameters["W_Q"][:, 0, 0])
        keys = projection.forward(w_0, parameters["W_K"][:, 0, 0])
        table = self._score_table(queries, keys)
        a = attention.over_tokens(self.backend, table, None, log_weights[:, :, None])
        return a[..., 0].swapaxes(1, 2)[:, None, None]

    def _score_table(self, queries: Array, keys: Array) -> Array:
        """Scores `(R, key, query)` of every pair of tokens."""
        return (keys * self._scale) @ queries.swapaxes(1, 2)

    def _over_tokens(self, w: Mapping[str, Array], contexts: Contexts) -> tuple[Array, dict[str, Array]]:
        backend, d = self.backend, self.d_vocab
        w_0, w_1 = w["W_0"], w["W_1"]
        queries = projection.forward(w_0, w["W_Q"])
        keys = projection.forward(w_0, w["W_K"])
        values = projection.forward(w_0, w["W_V"]) if self._values else w_0
        m = projection.forward(values, w_1)
        table = self._score_table(queries, keys)
        a = attention.over_tokens(backend, table, contexts.query, contexts.log_weights)
        a_sites = a.reshape(*a.shape[:2], -1)
        logits = (m.swapaxes(1, 2) @ a_sites).reshape(a.shape[0], d, *a.shape[2:])
        loss, d_logits = cross_entropy.forward_backward(
            backend, logits, contexts.targets, contexts.sample_weights
        )

        d_logit_sites = d_logits.reshape(*d_logits.shape[:2], -1)
        d_m = a_sites @ d_logit_sites.swapaxes(1, 2)
        d_a = (m @ d_logit_sites).reshape(a.shape)
        d_table = attention.over_tokens_backward(backend, d_a, a, contexts.query, d) * self._scale
        d_keys, d_queries = d_table @ queries, d_table.swapaxes(1, 2) @ keys
        d_values, d_w_1 = projection.backward(d_m, values, w_1)
        return loss, self._embedding_gradients(w, w_0, d_queries, d_keys, d_values) | {"W_1": d_w_1}

    def _over_positions(self, w: Mapping[str, Array], contexts: Contexts) -> tuple[Array, dict[str, Array]]:
        backend, xp = self.backend, self.backend.xp
        x = embedding.forward(backend, w["W_0"], contexts.keys)
        x_query = embedding.forward(backend, w["W_0"], contexts.query)
        wide = {name: p[:, None] for name, p in w.items()}  # one axis more, for the contexts
        queries = projection.forward(x_query, wide["W_Q"])
        keys = projection.forward(x, wide["W_K"])
        values = projection.forward(x, wide["W_V"]) if self._values else x
        a = attention.over_positions(backend, queries, keys, contexts.log_weights, self._scale)
        mixed = a @ values
        logits = projection.forward(mixed, wide["W_1"]).transpose(0, 3, 2, 1)
        loss, d_logits = cross_entropy.forward_backward(
            backend, logits, contexts.targets, contexts.sample_weights
        )

        d_mixed, d_w_1 = _backward_over_contexts(d_logits.transpose(0, 3, 2, 1), mixed, w["W_1"])
        d_a, d_values = d_mixed @ values.swapaxes(2, 3), a.swapaxes(2, 3) @ d_mixed
        d_queries, d_keys = attention.over_positions_backward(backend, d_a, a, queries, keys, self._scale)
        d_x_query, d_w_q = _backward_over_contexts(d_queries, x_query, w["W_Q"])
        d_x, d_w_k = _backward_over_contexts(d_keys, x, w["W_K"])
        gradients = {"W_1": d_w_1, "W_Q": d_w_q, "W_K": d_w_k}
        if self._values:
            d_values, gradients["W_V"] = _backward_over_contexts(d_values, x, w["W_V"])
        d_x = xp.add(d_x, d_values)
        gradients["W_0"] = embedding.backward(backend, d_x, contexts.keys, self.d_vocab) + embedding.backward(
            backend, d_x_query, contexts.query, self.d_vocab
        )
        return loss, gradients

    def _embedding_gradients(
        self, w: Mapping[str, Array], w_0: Array, d_queries: Array, d_keys: Array, d_values: Array
    ) -> dict[str, Array]:
        """Back through the projections of the embedding, which all share W_0."""
        d_w_0, d_w_q = projection.backward(d_queries, w_0, w["W_Q"])
        d_w_0_keys, d_w_k = projection.backward(d_keys, w_0, w["W_K"])
        gradients = {"W_Q": d_w_q, "W_K": d_w_k}
        if self._values:
            d_values, gradients["W_V"] = projection.backward(d_values, w_0, w["W_V"])
        gradients["W_0"] = d_w_0 + d_w_0_keys + d_values
        return gradients


def _backward_over_contexts(d_y: Array, x: Array, w: Array) -> tuple[Array, Array]:
    """`projection.backward` for `x (R, B, n, i)` and a weight `(R, i, o)` that all contexts share."""
    flat_d_y, flat_x = (array.reshape(array.shape[0], -1, array.shape[-1]) for array in (d_y, x))
    d_x, d_w = projection.backward(flat_d_y, flat_x, w)
    return d_x.reshape(x.shape), d_w
