"""Residual: pure attention, and the query's own embedding added to what attention brings (Eq. 231).

logits = (softmax(X W_0 W_Q W_Kᵀ W_0ᵀ Xᵀ / √m) X W_0 [W_V] [W_O] + X W_0) W_1
"""

from __future__ import annotations

from typing import Literal

from attndyn import registry
from attndyn.layers.one_layer import OneLayer, OneLayerOptions


class ResidualOptions(OneLayerOptions):
    """Options of `residual`."""

    architecture: Literal["residual"] = "residual"


@registry.architecture("residual")
class Residual(OneLayer):
    """One layer of one-head attention, added to the query's own embedding; see `OneLayer`."""

    Options = ResidualOptions
    residual = True
