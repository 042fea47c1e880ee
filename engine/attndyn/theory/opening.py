"""How fast a new direction opens in a trajectory, for comparison with the singular values of G."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from attndyn.theory.manifold import Manifold

#: how near the critical point the embedding must be, relative to its size, and how small the new direction
NEAR = 0.05
FEWEST = 5


class Opening(NamedTuple):
    """What a trajectory does near a critical point of the rank-one manifold."""

    rate: float  # of the leading new direction, per unit of time; NaN where fewer than five records are near
    records: int  # how many records the rate is fitted to
    distance: float  # the smallest of the embedding from the point, relative to its size
    first: float  # time of the first record that is near; NaN where none is


def opening(
    manifold: Manifold, theta: np.ndarray, time: np.ndarray, w_0: np.ndarray, w_1: np.ndarray
) -> Opening:
    """The measured rate of the new direction that theory says opens first.

    With G = Σ σ l rᵀ, lᵀ W_0 + (W_1 r)ᵀ grows as e^{σt} off the leading direction of the embedding space. The
    rate is the slope of the logarithm of its norm, over the records where W_0 is within 5 % of the point
    and the new direction below 5 % of it.

    Args:
        manifold: of the trajectory's setting.
        theta: a critical point.
        time: times of the records `(record,)`.
        w_0: W_0 `(record, token, model)`.
        w_1: W_1 `(record, model, next_token)`.
    """
    a, _, _ = manifold.unpack(theta)
    size = np.linalg.norm(a)
    left, _, right = np.linalg.svd(manifold.transverse(theta))
    directions, strengths, old = np.linalg.svd(w_0, full_matrices=False)
    leading = directions[:, :, 0] * strengths[:, :1]
    distance = np.minimum(np.linalg.norm(leading - a, axis=1), np.linalg.norm(leading + a, axis=1)) / size
    grown = np.einsum("i,tim->tm", left[:, 0], w_0) + w_1 @ right[0]
    grown -= np.einsum("tm,tm->t", grown, old[:, 0])[:, None] * old[:, 0]
    amplitude = np.linalg.norm(grown, axis=1)
    near = (distance < NEAR) & (amplitude < NEAR * size)
    first = float(time[near][0]) if near.any() else np.nan
    rate = np.nan
    if near.sum() >= FEWEST:
        rate = float(np.polyfit(time[near], np.log(amplitude[near]), 1)[0])
    return Opening(rate, int(near.sum()), float(distance.min()), first)
