"""The degenerate critical point of a symmetric group, and what an asymmetry δ makes of it.

Token 0 has probability p and the other d − 1 tokens share the rest, shifted by δ times numbers that sum to
zero (`stationary: symmetric` in a spec). Pure attention without W_V on a sticky chain; all is derived in
docs/theory-bifurcation.md, and what has a closed form is computed from it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from attndyn.data.stationary import Symmetric
from attndyn.theory.analytic import jacobian
from attndyn.theory.manifold import Manifold
from attndyn.theory.setting import OutOfReach, Setting


@dataclass(frozen=True)
class SymmetricGroup:
    """A symmetric group on a sticky chain, and the width of the model.

    Attributes:
        p: probability of token 0, above 1/d.
        lam: λ, above 0.
        d_vocab: number of tokens d, at least 3.
        d_model: width m of the model, whose scores are over √m.
    """

    p: float
    lam: float
    d_vocab: int
    d_model: int

    def __post_init__(self) -> None:
        if self.d_vocab < 3:
            raise OutOfReach(f"d_vocab {self.d_vocab}: a group has two tokens or more beside token 0")
        if not 1 / self.d_vocab < self.p < 1:
            raise OutOfReach(f"p {self.p}: token 0 must be more frequent than the others")
        if not 0 < self.lam < 1:
            raise OutOfReach(f"lam {self.lam}: attention learns nothing from independent tokens")

    def setting(self, delta: float = 0.0) -> Setting:
        """The setting with asymmetry δ."""
        pi = Symmetric(kind="symmetric", d_vocab=self.d_vocab, p=self.p, delta=delta).vector()
        return Setting.sticky(pi, self.lam, self.d_model)

    @property
    def share(self) -> float:
        """Probability q = (1 − p)/(d − 1) of each token of the group."""
        return (1 - self.p) / (self.d_vocab - 1)

    @property
    def shifts(self) -> np.ndarray:
        """The shifts s `(token,)` that δ multiplies: 0, then equally spaced from 1 to −1."""
        return np.r_[0.0, np.linspace(1, -1, self.d_vocab - 1)]

    @property
    def token_0(self) -> np.ndarray:
        """Probability of token 0 after itself and after a token of the group `(2,)`."""
        after_others = (1 - self.lam) * self.p
        return np.array([self.lam + after_others, after_others])

    @property
    def log_odds(self) -> np.ndarray:
        """Log of token 0's probability over that of one token of the group, after either `(2,)`."""
        return np.log(self.token_0 * (self.d_vocab - 1) / (1 - self.token_0))

    @property
    def margin(self) -> float:
        """Stability within the rank-one manifold, independent of m and of where on the curve.

        Positive: the degenerate point attracts there. Negative: tokens of the group part within the manifold,
        at a rate that does not vanish with δ.
        """
        (_, after), (own, other) = self.token_0, self.log_odds
        kept = (1 - self.lam) * self.p
        spread = self.p * (1 - self.lam) * own**2 + (1 - after) * other**2
        return float(kept * (1 - after) * spread - self.lam**2)

    def degenerate_point(self) -> DegeneratePoint:
        """Where the flow on the rank-one manifold ends at δ = 0."""
        manifold = Manifold(self.setting())
        return DegeneratePoint(self, manifold, manifold.descend(group=slice(1, None)))


class Response(NamedTuple):
    """First order in δ of the critical point and of G there, per unit of the shifts s."""

    output: float  # γ: b moves by δ γ s
    read: float  # χ: what token i reads moves by δ χ s_i
    left: np.ndarray  # g (token,): G = δ g sᵀ


@dataclass(frozen=True, eq=False)
class DegeneratePoint:
    """The critical point at δ = 0 where G vanishes, and the expansion around it.

    Attributes:
        group: the symmetric group.
        manifold: the rank-one manifold at δ = 0.
        theta: the point (a, b, z).
    """

    group: SymmetricGroup
    manifold: Manifold
    theta: np.ndarray

    @property
    def residual(self) -> float:
        """Largest component of the gradient."""
        return float(np.abs(self.manifold.gradient(self.theta)).max())

    @cached_property
    def kernel(self) -> np.ndarray:
        """Neutral directions in the manifold `(3, 2 token + 1)`, of length 1.

        The scaling (a, −b, −z); a constant added to b; and along the curve of critical points, on which what
        the queries read does not change.
        """
        d = self.group.d_vocab
        a, b, z = self.manifold.unpack(self.theta)
        reads = jacobian(lambda theta: self.manifold.parts(theta).read, self.theta)
        by_a, by_z = reads[:, :d], reads[:, 2 * d]
        along = np.r_[-np.linalg.solve(by_a, by_z), np.zeros(d), 1]
        rows = np.stack([np.r_[a, -b, -z], np.r_[np.zeros(d), np.ones(d), 0], along])
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    @cached_property
    def _constants(self) -> _Constants:
        group, (a, b, z) = self.group, self.manifold.unpack(self.theta)
        parts = self.manifold.parts(self.theta)
        predicted = parts.predicted[1]
        attention, read = parts.attention[:2], parts.read[:2]
        return _Constants(
            a=a,
            attention=attention,
            read=read,
            strength=float(group.lam * group.share * group.setting().score_scale * np.real(z) ** 2),
            spread=float(attention[1] @ (a - read[1]) ** 2),
            variance=float(predicted @ b**2 - (predicted @ b) ** 2),
            weights=np.array([group.p * (1 - group.lam) * group.share, (1 - group.p) * float(predicted[1])]),
        )

    @cached_property
    def response(self) -> Response:
        """How the critical point and G begin to move with δ, in closed form.

        Raises:
            OutOfReach: the margin is zero, where the point does not continue.
        """
        k, group = self._constants, self.group
        lam, q = group.lam, group.share
        stiffness = k.weights @ k.read**2 - q * lam**2 / k.variance
        if stiffness == 0:
            raise OutOfReach("the degenerate point does not continue to δ ≠ 0: its margin is zero")
        pull = np.array([group.p * (1 - lam), lam + (1 - group.p) * (1 - lam)])
        output = float(pull @ k.read / stiffness)
        read = lam * output / k.variance
        # −dL of token 0 and of the group summed, per unit of s, then what moves in the group's own attention
        missing = pull - output * k.weights * k.read
        left = missing @ k.attention + q * lam * read / k.spread * k.attention[1] * (k.a - k.read[1])
        return Response(output, float(read), left)

    @property
    def slope(self) -> float:
        """The transverse rate per δ: the largest singular value of G is this times δ, to first order."""
        return float(np.linalg.norm(self.response.left) * np.linalg.norm(self.group.shifts))

    @property
    def block(self) -> np.ndarray:
        """Hessian `(2, 2)` in (a, b) along any direction within the group whose entries sum to zero."""
        k, group = self._constants, self.group
        strength = k.strength / group.lam  # q s
        coupling = -k.strength * k.spread
        return np.array(
            [
                [(strength * k.spread) ** 2 * k.variance / group.share, coupling],
                [coupling, k.weights @ k.read**2],
            ]
        )

    @property
    def quartic(self) -> float:
        """Q in the reduced potential −δ · slope · ξη + Q ξ²η² of the direction that opens.

        ξ and η are the amplitudes of W_0 along g and of W_1 along s, both of length 1, on a new direction.
        """
        k = self._constants
        x = self.response.left / np.linalg.norm(self.response.left)
        read = k.attention @ x
        skew = k.attention[1] * (k.a - k.read[1])
        coupling = np.array([-k.strength * (skew @ x), (k.weights * k.read) @ read])
        direct = k.weights @ read**2 / 2
        return float(direct - coupling @ np.linalg.solve(self.block, coupling) / 2)

    def continued(self, deltas: Iterable[float]) -> list[Continued]:
        """The critical point continued to each δ from the one before, with its z, scale and Σ b held.

        Raises:
            OutOfReach: it does not continue so far in such steps.
        """
        found, theta = [], self.theta
        for delta in deltas:
            manifold = Manifold(self.group.setting(delta))
            theta = manifold.polish(theta)
            found.append(Continued(delta, manifold, theta))
        return found


class _Constants(NamedTuple):
    """Numbers of the degenerate point, for queries (token 0, a token of the group)."""

    a: np.ndarray  # (token,)
    attention: np.ndarray  # A (2, token)
    read: np.ndarray  # c (2,)
    strength: float  # λ q s, s = z² times the scale of scores
    spread: float  # V: variance of a in the attention of a token of the group
    variance: float  # of b in its prediction
    weights: np.ndarray  # ω (2,): curvature of the loss in the logit of one token of the group


@dataclass(frozen=True, eq=False)
class Continued:
    """A critical point on the rank-one manifold at one δ.

    Attributes:
        delta: δ.
        manifold: the rank-one manifold there.
        theta: the point (a, b, z).
    """

    delta: float
    manifold: Manifold
    theta: np.ndarray

    @property
    def transverse(self) -> np.ndarray:
        """Rates at which new directions open `(token,)`: the singular values of G, largest first."""
        return np.linalg.svd(self.manifold.transverse(self.theta), compute_uv=False)

    @property
    def tangential(self) -> float:
        """The largest |rate| along the three neutral directions of the manifold."""
        return float(np.sort(np.abs(self.manifold.rates(self.theta)))[2])


def transverse_rate(pi: np.ndarray, lam: float, d_model: int) -> float:
    """Rate at which the first new direction opens, per unit of time, where the rank-one flow ends.

    For any π on a sticky chain, not only near a symmetric one; zero to rounding for a symmetric group.

    Args:
        pi: stationary distribution π `(token,)`.
        lam: λ of the chain.
        d_model: m in the scale 1/√m of the scores.

    Raises:
        OutOfReach: attention does not grow, or the flow does not come to rest.
    """
    manifold = Manifold(Setting.sticky(pi, lam, d_model))
    return float(np.linalg.norm(manifold.transverse(manifold.descend()), 2))
