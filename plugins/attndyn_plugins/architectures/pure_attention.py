"""Pure attention: one layer, one head, no residual (Def. 3.2).

logits = softmax(X W_0 W_Q W_Kᵀ W_0ᵀ Xᵀ / √m) X W_0 [W_V] [W_O] W_1
"""

from __future__ import annotations

from typing import Literal

from attndyn import registry
from attndyn.layers.one_layer import OneLayer, OneLayerOptions


class PureAttentionOptions(OneLayerOptions):
    """Options of `pure_attention`."""

    architecture: Literal["pure_attention"] = "pure_attention"


@registry.architecture("pure_attention")
class PureAttention(OneLayer):
    """One layer of one-head attention, and nothing besides what it brings; see `OneLayer`."""

    Options = PureAttentionOptions
    residual = False
