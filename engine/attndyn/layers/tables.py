"""One layer of one-head attention over tokens, by tables: what makes the headline step cheap.

Without positions a token's query, key and value do not depend on its place. The scores are a d × d table Z of
token against token and the predictions a d × d table M = W_0 [W_V] [W_O] W_1, so that `logits = A M`, with a
residual `logits = A M + U`, where U = W_0 W_1 is read at the query's token. A context costs d × d, whatever
its length and the width of the model (docs/theory.md, "Exact reductions").
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from attndyn.backend import Array, Backend
from attndyn.data.contexts import Contexts
from attndyn.layers import attention, cross_entropy, projection


@dataclass(frozen=True)
class Tables:
    """The layer; its parameters are `W_0`, `W_Q`, `W_K`, `W_1` and, where there are such, `W_V`, `W_O`.

    Attributes:
        backend: where the arrays live.
        scale: factor on the scores.
        residual: the query's own embedding is added to what attention brings.
    """

    backend: Backend
    scale: float
    residual: bool = False

    def loss_and_gradients(
        self, w: Mapping[str, Array], contexts: Contexts, log_weights: Array
    ) -> tuple[Array, dict[str, Array]]:
        """The loss `(R,)` and all gradients.

        Args:
            w: W_0 `(R, token, model)`, W_1 `(R, model, next_token)`, the others `(R, model, model)`.
            contexts: whose keys are all tokens.
            log_weights: of the keys, `(R, K, B)`: those of the contexts, some perhaps masked.
        """
        chain = [w["W_0"]]  # the embedding on its way to the predictions
        for name in ("W_V", "W_O"):
            if name in w:
                chain.append(projection.forward(chain[-1], w[name]))
        queries, keys = (projection.forward(w["W_0"], w[name]) for name in ("W_Q", "W_K"))
        predictions = projection.forward(chain[-1], w["W_1"])
        table = (keys * self.scale) @ queries.swapaxes(1, 2)
        a = attention.over_tokens(self.backend, table, contexts.query, log_weights)
        sites = a.reshape(*a.shape[:2], -1)
        logits = (predictions.swapaxes(1, 2) @ sites).reshape(a.shape)
        if self.residual:
            logits += self._at_query(projection.forward(w["W_0"], w["W_1"]), contexts.query)
        loss, d_logits = cross_entropy.forward_backward(
            self.backend, logits, contexts.targets, contexts.sample_weights
        )

        d_sites = d_logits.reshape(sites.shape)
        d_a = (predictions @ d_sites).reshape(a.shape)
        d_table = self.scale * attention.over_tokens_backward(
            self.backend, d_a, a, contexts.query, table.shape[2]
        )
        d_w_0, gradients = self._back_to_embedding(w, chain, sites @ d_sites.swapaxes(1, 2))
        d_w_0_queries, gradients["W_Q"] = projection.backward(
            d_table.swapaxes(1, 2) @ keys, w["W_0"], w["W_Q"]
        )
        d_w_0_keys, gradients["W_K"] = projection.backward(d_table @ queries, w["W_0"], w["W_K"])
        d_w_0 = d_w_0 + d_w_0_queries + d_w_0_keys
        if self.residual:
            d_own = self._at_query_backward(d_logits, contexts.query)
            d_w_0_own, d_w_1 = projection.backward(d_own, w["W_0"], w["W_1"])
            d_w_0, gradients["W_1"] = d_w_0 + d_w_0_own, gradients["W_1"] + d_w_1
        return loss, gradients | {"W_0": d_w_0}

    def _back_to_embedding(
        self, w: Mapping[str, Array], chain: list[Array], d_predictions: Array
    ) -> tuple[Array, dict[str, Array]]:
        """Back from the predictions through W_1, W_O and W_V: gradients of W_0 and of these."""
        gradients = {}
        names = [name for name in ("W_V", "W_O", "W_1") if name in w]
        d = d_predictions
        for name, before in zip(reversed(names), reversed(chain), strict=True):
            d, gradients[name] = projection.backward(d, before, w[name])
        return d, gradients

    def _at_query(self, table: Array, query: Array | None) -> Array:
        """Rows of `table (R, token, next)` for the queries, as logits `(R, V, Q, B)`; B = 1 for all."""
        columns = table.swapaxes(1, 2)
        if query is None:
            return columns[..., None]
        taken = self.backend.take_columns(columns, query.reshape(query.shape[0], -1))
        return taken.reshape(*taken.shape[:2], *query.shape[1:])

    def _at_query_backward(self, d_logits: Array, query: Array | None) -> Array:
        """Gradient of the table `(R, token, next)`."""
        if query is None:
            return self.backend.xp.sum(d_logits, axis=3).swapaxes(1, 2)
        n_tokens = d_logits.shape[1]
        flat = d_logits.reshape(*d_logits.shape[:2], -1)
        index = query.reshape(query.shape[0], -1)
        return self.backend.add_columns(flat, index, n_tokens).swapaxes(1, 2)
