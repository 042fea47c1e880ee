"""One layer of one-head attention, with or without a residual: the two models of the paper's analysis.

Over tokens it is computed by tables (`tables`), over positions as a stream of one block (`stream`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from attndyn.backend import Array, Backend
from attndyn.data.contexts import Contexts
from attndyn.layers.architecture import Architecture
from attndyn.layers.block import Block
from attndyn.layers.parameters import Parameter
from attndyn.layers.stream import Stream
from attndyn.layers.tables import Tables
from attndyn.spec.base import ModelOptions


class OneLayerOptions(ModelOptions):
    """Options of the one-layer architectures."""

    value_projection: bool = Field(default=False, description="with W_V, as in the released code")
    output_projection: bool = Field(default=False, description="with W_O after the mixing")
    attention: Literal["full", "causal"] = Field(default="full", description="whether a site sees later ones")
    scale: Literal["inv_sqrt", "none"] = Field(default="inv_sqrt", description="of scores: 1/√m, or 1")
    positions: Literal["none", "learned", "sinusoidal"] = Field(
        default="none", description="what is added to embeddings for their place"
    )
    mask_token: int | None = Field(
        default=None, ge=0, description="token whose keys are masked as padding: a trap, for controls only"
    )


class OneLayer(Architecture):
    """Base of `pure_attention` and `residual`, which differ in `residual` only."""

    options: OneLayerOptions
    residual: bool
    stream: Stream

    def __init__(self, options: OneLayerOptions, d_vocab: int, n_ctx: int, backend: Backend):
        super().__init__(options, d_vocab, n_ctx, backend)
        scale = options.d_model**-0.5 if options.scale == "inv_sqrt" else 1.0
        self._tables = Tables(backend, scale, self.residual)
        self.stream = Stream(
            backend,
            Block(backend, scale, residual=self.residual),
            n_layers=1,
            d_vocab=d_vocab,
            d_model=options.d_model,
            n_ctx=n_ctx,
            causal=options.attention == "causal",
            positions=options.positions,
            mask_token=options.mask_token,
        )

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """W_0, W_P (if positions are learned), W_Q, W_K, W_V and W_O (if asked for) and W_1."""
        d, m = self.d_vocab, self.options.d_model
        per_head, square = ("layer", "head", "model", "d_head"), (1, 1, m, m)
        out = ("layer", "head", "d_head", "model")
        wanted = {
            "W_P": self.options.positions == "learned",
            "W_V": self.options.value_projection,
            "W_O": self.options.output_projection,
        }
        declared = [
            Parameter("W_0", ("token", "model"), (d, m), "W_0", "embedding"),
            Parameter("W_P", ("position", "model"), (self.n_ctx, m), "W_P", "embedding of positions"),
            Parameter("W_Q", per_head, square, "W_Q", "query projection"),
            Parameter("W_K", per_head, square, "W_K", "key projection"),
            Parameter("W_V", per_head, square, "W_V", "value projection"),
            Parameter("W_O", out, square, "W_O", "projection of the head's output"),
            Parameter("W_1", ("model", "next_token"), (m, d), "W_1", "output projection"),
        ]
        return tuple(p for p in declared if wanted.get(p.name, True))

    def representations(self, loss_positions: str) -> tuple[str, ...]:
        """See `Architecture.representations` and `Stream.representations`."""
        return self.stream.representations(loss_positions)

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
        if contexts.keys is not None:
            return self.stream.loss_and_gradients(parameters, contexts)
        square = {name: p[:, 0, 0] if p.ndim == 5 else p for name, p in parameters.items()}
        log_weights = self.stream.log_weights(contexts)
        loss, gradients = self._tables.loss_and_gradients(square, contexts, log_weights)
        return loss, {name: gradients[name].reshape(p.shape) for name, p in parameters.items()}

    def attention(self, parameters: Mapping[str, Array], contexts: Contexts) -> Array:
        """See `Architecture.attention`."""
        return self.stream.attention(parameters, contexts)

    def logits(self, parameters: Mapping[str, Array], contexts: Contexts) -> Array:
        """See `Architecture.logits`."""
        return self.stream.logits(parameters, contexts)
