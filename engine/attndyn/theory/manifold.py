"""The rank-one manifold of pure attention: exact gradient, Hessian and critical points after dilution.

Where W_0 = a wᵀ, W_1 = w bᵀ, W_Q = z w uᵀ and W_K = z w uᵀ with unit vectors w and u, they stay so under
gradient flow. A point is one vector θ = (a, b, z) of 2d + 1 numbers. All is derived in
docs/theory-bifurcation.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import integrate

from attndyn.theory.analytic import jacobian
from attndyn.theory.plateau import first_plateau, is_uniform
from attndyn.theory.rank_one import Parts, RankOne
from attndyn.theory.setting import OutOfReach, Setting

#: a critical point's largest gradient component, at most
RESIDUAL = 1e-12
#: size of z that leaves the first plateau; where the flow ends depends on its square
KICK = 1e-4
#: a rate of a new direction that is zero to rounding
CLOSED = 1e-10

_ARRIVED = 1e-8
_ALIKE = 1e-12
_EXCURSIONS = 200


@dataclass(frozen=True, eq=False)
class Manifold:
    """The population loss on the rank-one manifold of a setting.

    Attributes:
        setting: pure attention without W_V, on any chain.
    """

    setting: Setting

    def __post_init__(self) -> None:
        if self.setting.residual or self.setting.value_projection:
            raise OutOfReach("the rank-one manifold is worked out for pure attention without W_V")

    @property
    def flow(self) -> RankOne:
        """The reduced flow, with a = b of length z and no W_V."""
        return RankOne(self.setting)

    def unpack(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray, Any]:
        """a `(token,)`, b `(next_token,)` and z of a point."""
        d = self.setting.d_vocab
        return theta[:d], theta[d : 2 * d], theta[2 * d]

    def parts(self, theta: np.ndarray) -> Parts:
        """Attention, what each query reads, predictions and dL; also of a complex point."""
        return self.flow.parts(_state(theta))

    def loss(self, theta: np.ndarray) -> float:
        """Cross-entropy of the next token in nats."""
        return self.flow.loss(_state(theta))

    def gradient(self, theta: np.ndarray) -> np.ndarray:
        """∂L/∂θ `(2 token + 1,)`; also at a complex point."""
        d_a, d_b, _, d_q = self.flow.gradient(_state(theta))
        return np.r_[d_a, d_b, 2 * theta[-1] * d_q]

    def velocity(self, theta: np.ndarray) -> np.ndarray:
        """dθ/dt of the full gradient flow: W_Q and W_K each take half of the slope of z."""
        gradient = self.gradient(theta)
        gradient[-1] /= 2
        return -gradient

    def hessian(self, theta: np.ndarray) -> np.ndarray:
        """∂²L/∂θ², exact to rounding: the gradient is analytic, so complex steps have no step error."""
        hessian = jacobian(self.gradient, theta)
        return (hessian + hessian.T) / 2

    def rates(self, theta: np.ndarray) -> np.ndarray:
        """Growth rates within the manifold, largest first: eigenvalues of the flow linearised at a point."""
        metric = np.ones(len(theta))
        metric[-1] = np.sqrt(0.5)  # of z, see `velocity`
        return np.linalg.eigvalsh(-self.hessian(theta) * np.outer(metric, metric))[::-1]

    def transverse(self, theta: np.ndarray) -> np.ndarray:
        """G = −Aᵀ dL `(token, next_token)`: new directions x of W_0 and y of W_1 obey ẋ = G y, ẏ = Gᵀ x."""
        parts = self.parts(theta)
        return -parts.attention.T @ parts.d_logits

    def plateau(self, z: float = 0.0) -> np.ndarray:
        """The first critical point, W_0 = π wᵀ, with an attention amplitude z.

        Raises:
            OutOfReach: π is uniform, where it is the origin.
        """
        if is_uniform(self.setting.pi):
            raise OutOfReach("π is uniform: there is no first plateau apart from the origin")
        first = first_plateau(self.setting)
        return np.r_[first.u, first.v, z]

    def lift(self, theta: np.ndarray, w: np.ndarray, u: np.ndarray) -> dict[str, np.ndarray]:
        """The weights of the whole model at a point, for unit vectors w `(model,)` and u `(d_head,)`."""
        a, b, z = self.unpack(theta)
        inner = z * np.outer(w, u)
        return {"W_0": np.outer(a, w), "W_1": np.outer(w, b), "W_Q": inner, "W_K": inner}

    def descend(self, group: slice | None = None, kick: float = KICK) -> np.ndarray:
        """The critical point where the flow ends that leaves the first plateau with amplitude `kick`.

        It is stable within the manifold: the flow passes by those that are not.

        Args:
            group: tokens whose a and b are kept equal, where symmetry has them equal; the point may then be
                unstable in the directions that part them.
            kick: z at the start.

        Raises:
            OutOfReach: attention does not grow on the first plateau, the flow does not come to rest, or
                tokens that are alike part and nothing says which way.
        """
        theta = self.plateau(kick)
        rate = first_plateau(self.setting).kappa
        if rate <= 0:
            found = f"{rate:.3g}" if rate else "0 but for rounding"
            raise OutOfReach(f"attention does not grow on the first plateau: its rate is {found}")

        def velocity(_: float, state: np.ndarray) -> np.ndarray:
            return _tied(self.velocity(state), group, self.setting.d_vocab)

        for excursion in range(_EXCURSIONS):
            # the first one has to leave the plateau, at a rate that may be small; later ones only settle
            span = 2 * np.log(1 / kick) / rate if excursion == 0 else 500.0
            solved = integrate.solve_ivp(velocity, (0, span), theta, "LSODA", rtol=1e-10, atol=1e-13)
            theta = solved.y[:, -1]
            if np.abs(self.gradient(theta)).max() < _ARRIVED:
                point = self.polish(theta)
                if group is not None or self.rates(point)[0] < CLOSED:
                    return point
                self._refuse_alike(point)
        raise OutOfReach("the flow on the rank-one manifold does not come to rest")

    def _refuse_alike(self, point: np.ndarray) -> None:
        """Of an unstable point: where two rows are the same only rounding would part them."""
        a = np.sort(self.unpack(point)[0])
        if np.diff(a).min() < _ALIKE * np.abs(a).max():
            raise OutOfReach(
                "tokens that are alike part within the rank-one manifold, and which way is not determined"
            )

    def polish(self, theta: np.ndarray) -> np.ndarray:
        """The critical point next to θ that has its z, its scale |a|² − |b|² − 2 z² and its Σ b.

        Critical points come in families along three neutral directions, of which these three are coordinates;
        with them Newton's method converges quadratically.

        Raises:
            OutOfReach: it does not converge to 1e-12.
        """
        d = self.setting.d_vocab
        wanted = _coordinates(theta, d)
        for _ in range(50):
            a, b, z = self.unpack(theta)
            pinned = np.stack(
                [np.r_[2 * a, -2 * b, -4 * z], np.r_[0 * a, 0 * b + 1, 0], np.r_[0 * a, 0 * b, 1]]
            )
            slopes = np.vstack([self.hessian(theta), pinned])
            misses = np.r_[self.gradient(theta), _coordinates(theta, d) - wanted]
            step = np.linalg.lstsq(slopes, misses, rcond=None)[0]
            theta = theta - step
            if np.abs(step).max() < 1e-14:
                break
        residual = np.abs(self.gradient(theta)).max()
        if not residual <= RESIDUAL:
            raise OutOfReach(f"no critical point of the rank-one manifold was found: residual {residual:.1e}")
        return theta


@lru_cache(maxsize=64)
def end_of_flow(setting: Setting) -> np.ndarray:
    """See `Manifold.descend`; found once for a setting."""
    theta = Manifold(setting).descend()
    theta.flags.writeable = False
    return theta


def _state(theta: np.ndarray) -> np.ndarray:
    """The state of `RankOne` that a point is: c = 1."""
    return np.r_[theta[:-1], 1.0, theta[-1]]


def _coordinates(theta: np.ndarray, d: int) -> np.ndarray:
    """Along the neutral directions: the scale |a|² − |b|² − 2 z², Σ b, and z itself."""
    a, b, z = theta[:d], theta[d : 2 * d], theta[2 * d]
    return np.array([a @ a - b @ b - 2 * z * z, b.sum(), z])


def _tied(theta: np.ndarray, group: slice | None, d: int) -> np.ndarray:
    """The same with equal entries within the group, in a and in b."""
    if group is not None:
        for half in (theta[:d], theta[d : 2 * d]):
            half[group] = half[group].mean()
    return theta
