"""Critical points of the exact population loss, by Levenberg–Marquardt on its gradient.

Every critical point lies in a whole manifold of them, swept out by the symmetries of the loss, so that the
Hessian is singular there and Newton's step is not defined. A damped step of least norm is: it never moves
along the manifold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.integrate import solve_ivp
from scipy.linalg import eigh
from scipy.sparse.linalg import LinearOperator, lsmr

from attndyn.errors import AttndynError
from attndyn.theory.plateau import first_plateau, is_uniform
from attndyn.theory.problem import Problem
from attndyn.theory.setting import OutOfReach, Setting

#: norm of the gradient at which a point counts as critical, in nats per unit of parameters
RESIDUAL = 1e-12
#: up to this many coordinates the Hessian is formed; above, steps are solved for by products only
DENSE = 1500
#: share of the unstable direction with which the flow leaves the first critical point
DEPARTURE = 1e-6
#: speed of the flow below which the solver takes over, and the longest time to wait for that
AT_REST, LONGEST = 1e-9, 1e7
ATTENTION = ("W_Q", "W_K")


class NoCriticalPoint(AttndynError):
    """The iteration did not reach a critical point; the message has the residual that it reached."""


@dataclass(frozen=True, eq=False)
class CriticalPoint:
    """A critical point of a problem's loss.

    Attributes:
        problem: whose.
        flat: the parameters `(P,)`.
        residual: norm of the whole gradient there, in nats per unit of parameters.
        loss: in nats.
        iterations: accepted steps of the solver.
    """

    problem: Problem
    flat: np.ndarray
    residual: float
    loss: float
    iterations: int

    @property
    def matrices(self) -> dict[str, np.ndarray]:
        """The parameters by name."""
        return self.problem.unpack(self.flat)


def solve(
    problem: Problem,
    start: np.ndarray,
    within: np.ndarray | None = None,
    tolerance: float = RESIDUAL,
    max_iterations: int = 200,
) -> CriticalPoint:
    """The critical point that Levenberg–Marquardt reaches from `start (P,)`.

    Args:
        problem: whose loss.
        start: where to begin.
        within: which coordinates may move `(P,)`, of booleans; all unless told. The residual is that of all.
        tolerance: norm of the gradient to reach.
        max_iterations: trials of a step, the rejected ones among them.

    Raises:
        NoCriticalPoint: the tolerance was not reached.
        OutOfReach: the problem has no second derivatives.
    """
    free = np.flatnonzero(np.ones(problem.size, bool) if within is None else within)
    flat, gradient = start.astype(float), problem.gradient(start)
    damping, accepted, steps = 1e-3, 0, None
    for _ in range(max_iterations):
        residual = float(np.linalg.norm(gradient))
        if residual <= tolerance:
            break
        # damped relative to the residual: the convergence is quadratic also where the Hessian is singular
        steps = steps or _Steps(problem, flat, free)
        trial = flat.copy()
        trial[free] += steps.step(gradient[free], damping * residual)
        trial_gradient = problem.gradient(trial)
        if np.linalg.norm(trial_gradient[free]) < np.linalg.norm(gradient[free]):
            flat, gradient, steps = trial, trial_gradient, None
            damping, accepted = damping / 5, accepted + 1
        else:
            damping *= 4
    residual = float(np.linalg.norm(gradient))
    if not residual <= tolerance:
        raise NoCriticalPoint(
            f"no critical point within {max_iterations} steps: the gradient's norm is still {residual:.1e}, "
            f"wanted is {tolerance:.0e}"
        )
    return CriticalPoint(problem, flat, residual, problem.loss(flat), accepted)


class _Steps:
    """Damped steps −(H² + μ)⁻¹ H g at one point, for any μ; H is decomposed once where it is small."""

    def __init__(self, problem: Problem, flat: np.ndarray, free: np.ndarray):
        self._problem, self._flat, self._free = problem, flat, free
        self._modes = None
        if len(free) <= DENSE:
            self._modes = eigh(self._products(np.eye(len(free))))

    def step(self, gradient: np.ndarray, damping: float) -> np.ndarray:
        """The step `(free,)`, for the gradient `(free,)`."""
        if self._modes is not None:
            values, vectors = self._modes
            return np.asarray(-vectors @ (values / (values**2 + damping) * (vectors.T @ gradient)))
        shape = (len(gradient), len(gradient))
        operator = LinearOperator(shape, matvec=self._products, rmatvec=self._products, dtype=float)
        return np.asarray(lsmr(operator, -gradient, damp=damping**0.5, atol=1e-14, btol=1e-14)[0])

    def _products(self, directions: np.ndarray) -> np.ndarray:
        """The Hessian's rows and columns that may move, times directions `(..., free)`."""
        whole = np.zeros((*directions.shape[:-1], self._problem.size))
        whole[..., self._free] = directions
        return self._problem.hvp(self._flat, whole)[..., self._free]


# -- the points of the theory -----------------------------------------------------------------------------


def origin(problem: Problem) -> CriticalPoint:
    """All parameters zero: critical for every model of the theory, since each is a product of several."""
    return solve(problem, np.zeros(problem.size))


def first(problem: Problem) -> CriticalPoint:
    """The first critical point after the origin, θ_c¹: attention uniform over π, ŵ along the first axis.

    It is `first_plateau`, refined with all parameters of the rank-one manifold but W_Q and W_K.

    Raises:
        OutOfReach: the problem is none of the theory's; or π is uniform and there is no residual.
        NoCriticalPoint: there is none that the solver reaches.
    """
    setting = _setting(problem)
    if is_uniform(setting.pi) and not setting.residual:
        raise OutOfReach("π is uniform: there is no first critical point apart from the origin")
    plateau, w = first_plateau(setting), np.eye(setting.d_model)[0]
    start = {"W_0": np.outer(plateau.u, w), "W_1": np.outer(w, plateau.v)}
    if setting.value_projection:
        start["W_V"] = plateau.c * np.outer(w, w)
    return solve(problem, problem.pack(start), within=_without_attention(problem))


def turned(point: CriticalPoint, direction: np.ndarray) -> CriticalPoint:
    """The same critical point with the first axis of the model's spaces turned to `direction (model,)`."""
    m = len(direction)
    square = np.column_stack([direction, np.eye(m)])
    orthogonal = np.linalg.qr(square)[0].T
    orthogonal *= np.sign(orthogonal[0] @ direction)
    matrices = {
        name: orthogonal.T @ w @ orthogonal for name, w in point.matrices.items() if w.shape == (m, m)
    }
    matrices["W_0"] = point.matrices["W_0"] @ orthogonal
    matrices["W_1"] = orthogonal.T @ point.matrices["W_1"]
    return solve(point.problem, point.problem.pack(matrices))


def _without_attention(problem: Problem) -> np.ndarray:
    """The coordinates of the rank-one manifold without W_Q and W_K `(P,)`, as booleans."""
    attention = problem.pack({name: np.ones(problem.shapes[name]) for name in ATTENTION})
    return rank_one(problem) & (attention == 0)


def rank_one(problem: Problem) -> np.ndarray:
    """Which coordinates `(P,)` span the rank-one manifold with ŵ along the first axis, as booleans.

    There W_0 = a ŵᵀ, W_1 = ŵ bᵀ, and W_Q, W_K, W_V are multiples of ŵ ŵᵀ. It is what reflections of the other
    axes leave in place, so the gradient at its points is tangent to it, and what is critical within it is
    critical.
    """
    shown = {name: np.zeros(shape) for name, shape in problem.shapes.items()}
    shown["W_0"][:, 0] = 1
    for name in shown.keys() - {"W_0"}:
        shown[name][0] = 1
        if name != "W_1":
            shown[name][0, 1:] = 0
    return problem.pack(shown) != 0


def degenerate(problem: Problem) -> CriticalPoint:
    """Where the flow from θ_c¹ ends on the rank-one manifold; with a symmetric group the degenerate point.

    The flow leaves along the unstable direction of attention, W_Q = W_K ∝ ŵ ŵᵀ; what it reaches is refined by
    `solve`. If all tokens but the first are alike, G = 0 there, see `transverse`. The point is one of a
    family, which the conservation laws of the flow choose from.

    Raises:
        OutOfReach: the problem is not pure attention without W_V.
        NoCriticalPoint: the flow reaches none.
    """
    setting = _setting(problem)
    if setting.residual or setting.value_projection:
        raise OutOfReach("the degenerate point is that of pure attention without W_V")
    square = np.zeros((setting.d_model, setting.d_model))
    square[0, 0] = DEPARTURE
    start = first(problem).flat + problem.pack({"W_Q": square, "W_K": square})
    return _settle(problem, start, rank_one(problem))


def transverse(point: CriticalPoint) -> np.ndarray:
    """G `(token, next_token)`: new directions x, y of W_0, W_1 grow as ẋ = G y, ẏ = Gᵀ x.

    G = −Aᵀ dL, with a residual −(A + 1)ᵀ dL.

    Raises:
        OutOfReach: there is a W_V, whose own new directions join in; the spectrum has the rates.
    """
    if _setting(point.problem).value_projection:
        raise OutOfReach("with W_V new directions are not those of W_0 and W_1 only; see the spectrum")
    return _growth(point.problem, point.flat)


def continuation(point: CriticalPoint, problems: Sequence[Problem]) -> Iterator[CriticalPoint]:
    """Critical points of a sequence of problems, each solved for from the one before, on the manifold."""
    for problem in problems:
        point = solve(problem, point.flat, within=rank_one(problem))
        yield point


def _settle(problem: Problem, start: np.ndarray, within: np.ndarray) -> CriticalPoint:
    """Where gradient flow comes to rest from `start`, in the coordinates `within`; refined by `solve`."""
    free = np.flatnonzero(within)

    def flow(_: float, inner: np.ndarray) -> np.ndarray:
        at = start.copy()
        at[free] = inner
        return -problem.gradient(at)[free]

    # backwards through AT_REST only: near the point that it leaves the flow is at rest, too, but speeds up
    def speed(time: float, inner: np.ndarray) -> float:
        return float(np.linalg.norm(flow(time, inner)) - AT_REST)

    speed.terminal, speed.direction = True, -1  # type: ignore[attr-defined]
    reached = solve_ivp(flow, (0, LONGEST), start[free], method="LSODA", rtol=1e-10, atol=1e-13, events=speed)
    end = start.copy()
    end[free] = reached.y[:, -1]
    return solve(problem, end, within=within)


def _growth(problem: Problem, flat: np.ndarray) -> np.ndarray:
    """See `transverse`; with W_V, of new directions that it does not see."""
    setting = _setting(problem)
    tangents = problem.tangents(flat, np.zeros((1, problem.size)))
    logits = tangents.logits.value
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    d_logits = setting.pi[:, None] * (p - setting.transition)
    mixed = np.zeros_like(d_logits) if setting.value_projection else tangents.attention.value.T @ d_logits
    return np.asarray(-(mixed + d_logits) if setting.residual else -mixed)


def _setting(problem: Problem) -> Setting:
    if problem.setting is None:
        raise OutOfReach("critical points are known for the theory's one-layer models only")
    return problem.setting
