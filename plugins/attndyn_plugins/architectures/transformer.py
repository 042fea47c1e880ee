"""Transformer: L layers of H-head attention on a residual stream, with what the paper names as future work.

    x ← embedding (+ positions);  L times: x ← x + attention(x) [; x ← x + mlp(x)];  logits = x W_1

Layer normalisation, an MLP and positions are off unless asked for. The states of a context are held once a
site: a place where positions matter, a token where only counts do, with one context in the population limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from pydantic import Field

from attndyn import registry
from attndyn.backend import Array, Backend
from attndyn.data.contexts import Contexts
from attndyn.layers import mlp
from attndyn.layers.architecture import Architecture
from attndyn.layers.block import Block
from attndyn.layers.parameters import Parameter
from attndyn.layers.stream import Stream
from attndyn.spec.base import Flaw, ModelOptions, Section


class MLPOptions(Section):
    """The perceptron after each attention."""

    activation: mlp.Activation = Field(default="gelu", description="its nonlinearity")
    width: int = Field(ge=1, le=2**20, description="number of its hidden units")


class TransformerOptions(ModelOptions):
    """Options of `transformer`."""

    architecture: Literal["transformer"] = "transformer"
    layers: int = Field(default=1, ge=1, le=1024, description="number of layers L")
    heads: int = Field(default=1, ge=1, le=1024, description="number of heads H in a layer")
    d_head: int | None = Field(default=None, ge=1, le=65536, description="width of a head; m / H if left out")
    value_projection: bool = Field(default=True, description="with W_V; without, heads mix their part of x")
    output_projection: bool = Field(default=True, description="with W_O; without, heads stand side by side")
    attention: Literal["full", "causal"] = Field(default="full", description="whether a site sees later ones")
    scale: Literal["inv_sqrt", "none"] = Field(default="inv_sqrt", description="of scores: 1/√d_head, or 1")
    positions: Literal["none", "learned", "sinusoidal"] = Field(
        default="none", description="what is added to embeddings for their place"
    )
    mlp: MLPOptions | None = Field(default=None, description="a perceptron after each attention")
    layer_norm: Literal["none", "pre", "post"] = Field(
        default="none", description="normalise what a block reads (and the end), or what it leaves"
    )
    mask_token: int | None = Field(
        default=None, ge=0, description="token whose keys are masked as padding: a trap, for controls only"
    )

    def flaws(self) -> Iterator[Flaw]:
        """Heads must fill the stream where no projection leads back to it."""
        width = self.head_width * self.heads
        if self.d_head is None and self.d_model % self.heads:
            yield Flaw(("heads",), f"{self.heads} heads do not divide d_model {self.d_model}; give d_head")
        elif width != self.d_model and not (self.value_projection and self.output_projection):
            message = f"heads × d_head = {width} is not d_model {self.d_model}"
            yield Flaw(("d_head",), f"{message}: that needs value_projection and output_projection")

    @property
    def head_width(self) -> int:
        """d_head, given or derived."""
        return self.d_head or self.d_model // self.heads


@registry.architecture("transformer")
class Transformer(Architecture):
    """Layers of multi-head attention on a residual stream; see the module's text."""

    Options = TransformerOptions
    options: TransformerOptions
    stream: Stream

    def __init__(self, options: TransformerOptions, d_vocab: int, n_ctx: int, backend: Backend):
        super().__init__(options, d_vocab, n_ctx, backend)
        block = Block(
            backend,
            scale=options.head_width**-0.5 if options.scale == "inv_sqrt" else 1.0,
            norm=options.layer_norm,
            activation=None if options.mlp is None else options.mlp.activation,
        )
        self.stream = Stream(
            backend,
            block,
            n_layers=options.layers,
            d_vocab=d_vocab,
            d_model=options.d_model,
            n_ctx=n_ctx,
            causal=options.attention == "causal",
            positions=options.positions,
            mask_token=options.mask_token,
        )

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """W_0, positions, the layers' weights, the final normalisation, W_1."""
        o, d, m = self.options, self.d_vocab, self.options.d_model
        n_layers, n_heads, width = o.layers, o.heads, o.head_width
        into = (("layer", "head", "model", "d_head"), (n_layers, n_heads, m, width))
        out = (("layer", "head", "d_head", "model"), (n_layers, n_heads, width, m))
        declared = [Parameter("W_0", ("token", "model"), (d, m), "W_0", "embedding")]
        if o.positions == "learned":
            declared.append(Parameter("W_P", ("position", "model"), (self.n_ctx, m), "W_P", "positions"))
        declared.append(Parameter("W_Q", *into, "W_Q", "query projection"))
        declared.append(Parameter("W_K", *into, "W_K", "key projection"))
        if o.value_projection:
            declared.append(Parameter("W_V", *into, "W_V", "value projection"))
        if o.output_projection:
            declared.append(Parameter("W_O", *out, "W_O", "projection of the heads' outputs"))
        if o.mlp is not None:
            hidden = o.mlp.width
            shapes = (("layer", "model", "hidden"), (n_layers, m, hidden))
            declared.append(Parameter("W_in", *shapes, r"W_{\mathrm{in}}", "first layer of the MLP"))
            shapes = (("layer", "hidden", "model"), (n_layers, hidden, m))
            declared.append(Parameter("W_out", *shapes, r"W_{\mathrm{out}}", "second layer of the MLP"))
        declared.extend(self._norm_parameters())
        declared.append(Parameter("W_1", ("model", "next_token"), (m, d), "W_1", "output projection"))
        return tuple(declared)

    def _norm_parameters(self) -> list[Parameter]:
        if self.options.layer_norm == "none":
            return []
        n_blocks, m = 1 if self.options.mlp is None else 2, self.options.d_model
        per_block = (("layer", "block", "model"), (self.options.layers, n_blocks, m))
        declared = [
            Parameter("gain", *per_block, "g", "gain of layer normalisation", init="one"),
            Parameter("shift", *per_block, "b", "shift of layer normalisation", init="zero"),
        ]
        if self.options.layer_norm == "pre":
            declared += [
                Parameter("gain_end", ("model",), (m,), "g", "gain of the last normalisation", init="one"),
                Parameter("shift_end", ("model",), (m,), "b", "shift of the last normalisation", init="zero"),
            ]
        return declared

    def representations(self, loss_positions: str) -> tuple[str, ...]:
        """See `Architecture.representations` and `Stream.representations`."""
        return self.stream.representations(loss_positions)

    def cost(self, representation: str, n_ctx: int, n_contexts: int, n_queries: int) -> float:
        """See `Architecture.cost`."""
        o, m = self.options, self.options.d_model
        n_sites = n_ctx if representation == "positions" else self.d_vocab
        n_contexts = 1 if representation == "population" else n_contexts
        hidden = 0 if o.mlp is None else o.mlp.width
        per_site = m * (4 * o.heads * o.head_width + 2 * hidden) + 2 * n_sites * o.heads * o.head_width
        return n_contexts * n_sites * (o.layers * per_site + m * self.d_vocab)

    def loss_and_gradients(
        self, parameters: Mapping[str, Array], contexts: Contexts
    ) -> tuple[Array, dict[str, Array]]:
        """See `Architecture.loss_and_gradients`."""
        return self.stream.loss_and_gradients(parameters, contexts)

    def attention(self, parameters: Mapping[str, Array], contexts: Contexts) -> Array:
        """See `Architecture.attention`."""
        return self.stream.attention(parameters, contexts)

    def logits(self, parameters: Mapping[str, Array], contexts: Contexts) -> Array:
        """See `Architecture.logits`."""
        return self.stream.logits(parameters, contexts)
