"""Positions: what is added to the embedding of a token for the place at which it stands."""

from __future__ import annotations

import numpy as np


def sinusoidal(n_ctx: int, d_model: int) -> np.ndarray:
    """Fixed encodings `(position, model)` (arXiv:1706.03762, section 3.5).

    Column 2k is sin(position / 10000^(2k/m)), column 2k + 1 the cosine of the same.
    """
    column = np.arange(d_model)
    rate = 10000.0 ** (-(column - column % 2) / d_model)
    angle = np.arange(n_ctx)[:, None] * rate
    return np.where(column % 2 == 0, np.sin(angle), np.cos(angle))
