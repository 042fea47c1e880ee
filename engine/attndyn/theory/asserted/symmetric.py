"""Gradient flow on the rank-one manifold of a symmetric group, in four numbers.

W_0 = a wᵀ, W_1 = w bᵀ, W_Q = q w uᵀ, W_K = q w uᵀ with unit vectors w and u stay of this form under gradient
flow, and with π = (p, (1−p)/n, …, (1−p)/n), n = d − 1, on a sticky chain so do a = (a_0, a_1, …, a_1) and
b = (b_0, b_1, …, b_1). W_1 1 is constant and zero here, so b is known from Δ = b_0 − b_1; q enters as the
amplitude z = s q². What remains is an ordinary differential equation for (a_0, a_1, Δ, z), derived in
docs/theory-asserted-steps.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import integrate

from attndyn.theory.closed_forms import embedding_scale


class Parts(NamedTuple):
    """What the equations are made of; the first axis of those for queries is (token 0, the rest)."""

    attention: np.ndarray  # on token 0, by query
    variance: np.ndarray  # A (1 − A)
    brought: np.ndarray  # h = A · a
    excess: np.ndarray  # r = π (predicted − true probability of token 0), group sums
    drive: np.ndarray  # −∂L/∂z


@dataclass(frozen=True)
class Symmetric:
    """A symmetric group on a sticky chain; every attribute may be an array, and all broadcast.

    Attributes:
        p: frequency of token 0.
        d: number of tokens, token 0 among them.
        lam: λ of the chain.
        scale: s, the factor of the scores (1/√m).
    """

    p: np.ndarray | float
    d: np.ndarray | int
    lam: np.ndarray | float
    scale: np.ndarray | float

    @property
    def pi(self) -> np.ndarray:
        """The stationary distribution `(token,)`, of one setting."""
        return np.array([self.p] + [(1 - self.p) / (self.d - 1)] * (int(self.d) - 1))

    def plateau(self) -> np.ndarray:
        """(a_0, a_1, Δ, z) at the first critical point, z = 0, of one setting."""
        size = embedding_scale(self.pi)
        brought = size * self.pi @ self.pi
        return np.array(
            [size * self.pi[0], size * self.pi[1], np.log(self.pi[0] / self.pi[1]) / brought, 0.0]
        )

    def parts(self, state: np.ndarray) -> Parts:
        """The state `(4, ...)` taken apart."""
        a_0, a_1, gap, z = state
        spread, rows = a_0 - a_1, np.stack([a_0, a_1])
        attention = _logistic(np.log(self.p / (1 - self.p)) + z * rows * spread)
        variance = attention * (1 - attention)
        brought = a_1 + attention * spread
        predicted = _logistic(brought * gap - np.log(self.d - 1))
        stay, come = self.lam + (1 - self.lam) * self.p, (1 - self.lam) * self.p
        excess = np.stack([self.p * (predicted[0] - stay), (1 - self.p) * (predicted[1] - come)])
        drive = -gap * spread**2 * np.sum(excess * variance * rows, axis=0)
        return Parts(attention, variance, brought, excess, drive)

    def velocity(self, state: np.ndarray) -> np.ndarray:
        """d/dt of the state `(4, ...)` under gradient flow."""
        a_0, a_1, gap, z = state
        attention, variance, brought, excess, drive = self.parts(state)
        spread, rest = a_0 - a_1, self.d - 1
        push = z * spread * variance
        on_0 = attention + push * np.stack([spread + a_0, a_1])
        on_1 = 1 - attention + push * np.stack([-a_0, spread - a_1])
        return np.stack(
            [
                -gap * np.sum(excess * on_0, axis=0),
                -gap * np.sum(excess * on_1, axis=0) / rest,
                -np.sum(excess * brought, axis=0) * self.d / rest,
                2 * self.scale * z * drive,
            ]
        )

    def size(self, state: np.ndarray) -> np.ndarray:
        """‖a‖² + ‖b‖² of the state `(4, ...)`."""
        a_0, a_1, gap, _ = state
        return a_0**2 + (self.d - 1) * a_1**2 + gap**2 * (self.d - 1) / self.d

    def conserved(self, state: np.ndarray) -> np.ndarray:
        """‖a‖² − ‖b‖² − 2 q² of the state `(4, ...)`, constant under gradient flow; q² = z/s."""
        return self.imbalance(state) - 2 * state[3] / self.scale

    def imbalance(self, state: np.ndarray) -> np.ndarray:
        """‖a‖² − ‖b‖² of the state `(4, ...)`."""
        a_0, a_1, gap, _ = state
        return a_0**2 + (self.d - 1) * a_1**2 - gap**2 * (self.d - 1) / self.d

    def weights(self, state: np.ndarray, width: int) -> dict[str, np.ndarray]:
        """The weight matrices at the state `(4,)` of one setting, w and u along the first axis."""
        a_0, a_1, gap, z = state
        rest = int(self.d) - 1
        a, b = np.array([a_0] + [a_1] * rest), gap * (np.eye(rest + 1)[0] - 1 / (rest + 1))
        first = np.eye(width)[0]
        head = np.sqrt(z / self.scale) * np.outer(first, first)
        return {"W_0": np.outer(a, first), "W_1": np.outer(first, b), "W_Q": head, "W_K": head.copy()}


class Flow(NamedTuple):
    """A solution of the flow: output times `(time,)` and states `(4, time, ...)`."""

    times: np.ndarray
    states: np.ndarray


def flow(
    setting: Symmetric, start: np.ndarray, horizon: float, rtol: float = 1e-10, ends: float | None = None
) -> Flow:
    """Gradient flow from `start (4, ...)`, at the integrator's own times.

    Args:
        setting: one setting or, where `start` has more axes, many at once (the step is then that of all).
        start: (a_0, a_1, Δ, z), z > 0.
        horizon: the time to stop at.
        rtol: relative tolerance of a step; the absolute one is a hundredth of it.
        ends: stop earlier, once both queries predict token 0 with its true probability to this accuracy.
    """
    shape = start.shape

    def closeness(_: float, flat: np.ndarray) -> float:
        excess = setting.parts(flat.reshape(shape)).excess
        return float(np.abs(excess).max()) - (ends or 0.0)

    closeness.terminal = True  # type: ignore[attr-defined]
    solution = integrate.solve_ivp(
        lambda _, flat: setting.velocity(flat.reshape(shape)).ravel(),
        (0, horizon),
        start.ravel(),
        method="DOP853",
        rtol=rtol,
        atol=rtol / 100,
        events=closeness if ends is not None else None,
    )
    return Flow(solution.t, np.moveaxis(solution.y.reshape(*shape, -1), -1, 1))


def _logistic(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))
