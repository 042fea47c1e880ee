"""From a symmetric group to the geometric distribution: the path of π, and what theory says along it.

The symmetric end has the same token 0; in between, π_τ ∝ π_symmetric^(1−τ) π_geometric^τ, token by token.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from attndyn.data.stationary import Geometric
from attndyn.theory.bifurcation import SymmetricGroup
from attndyn.theory.closed_forms import condensation_rate, focus_rate
from attndyn.theory.manifold import CLOSED, Manifold
from attndyn.theory.setting import Setting


def path(d_vocab: int, ratio: float, tau: float) -> np.ndarray:
    """π_τ `(token,)`: symmetric beside token 0 at τ = 0, ∝ ratio^k at τ = 1, log-linear in between."""
    geometric = Geometric(kind="geometric", d_vocab=d_vocab, ratio=ratio).vector()
    shares = np.full(d_vocab - 1, (1 - geometric[0]) / (d_vocab - 1))
    mixed = np.r_[geometric[0], shares] ** (1 - tau) * geometric**tau
    return mixed / mixed.sum()


class Outlook(NamedTuple):
    """What theory says of one π."""

    sigma: float  # growth rate of W_0 and W_1 at the origin
    kappa: float  # growth rate of W_Q and W_K on the first plateau
    transverse: np.ndarray  # (token,) rates of new directions where the rank-one flow ends, largest first
    settling: float  # the slowest rate at which the rank-one flow comes to rest there
    order: tuple[int, ...]  # of tokens, by the angle at which the first new direction turns them
    theta: np.ndarray  # the point (a, b, z)


def outlook(pi: np.ndarray, lam: float, d_model: int) -> Outlook:
    """The predictions for any π on a sticky chain.

    Args:
        pi: stationary distribution π `(token,)`, token 0 the most frequent.
        lam: λ of the chain.
        d_model: m in the scale 1/√m of the scores.

    Raises:
        OutOfReach: attention does not grow, or the rank-one flow does not come to rest.
    """
    manifold = Manifold(Setting.sticky(pi, lam, d_model))
    theta = manifold.descend(group=slice(1, None) if np.ptp(pi[1:]) < 1e-12 else None)
    left, transverse, _ = np.linalg.svd(manifold.transverse(theta))
    turned = np.abs(left[1:, 0] / manifold.unpack(theta)[0][1:])
    rates = manifold.rates(theta)
    return Outlook(
        sigma=condensation_rate(pi),
        kappa=focus_rate(pi, lam, d_model),
        transverse=transverse,
        settling=float(-rates[np.abs(rates) > 1e-10].max()),
        order=tuple(int(k) + 1 for k in np.argsort(-turned)) if transverse[0] > CLOSED else (),
        theta=theta,
    )


def linear_slope(d_vocab: int, ratio: float, lam: float, d_model: int) -> float:
    """d(transverse rate)/dτ at the symmetric end, in closed form but for where on its curve the point lies.

    To first order the path shifts the group by τ q (log ratio)(k − mean k), whatever the shifts of
    `SymmetricGroup`; the change of token 0 keeps the group symmetric and opens nothing.
    """
    symmetric = path(d_vocab, ratio, 0.0)
    group = SymmetricGroup(float(symmetric[0]), lam, d_vocab, d_model)
    token = np.arange(1, d_vocab)
    shifts = group.share * np.log(ratio) * (token - token.mean())
    return float(np.linalg.norm(group.degenerate_point().response.left) * np.linalg.norm(shifts))
