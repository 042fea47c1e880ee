"""Whether the attention amplitude z and ‖a‖² + ‖b‖² only grow on the rank-one manifold of a symmetric group.

Exactly, dz/dt = −2 s z ∂L/∂z with ∂L/∂z = Δ (a_0 − a_1)² Σ_i r_i v_i a_i over the two kinds of query (see
`Parts`), so z grows as long as a_0 r_0 v_0 + a_1 r_1 v_1 < 0; and
d(‖a‖² + ‖b‖²)/dt = −4 (Δ Σ_i r_i h_i + z ∂L/∂z).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from attndyn.theory.analytic import jacobian
from attndyn.theory.asserted.symmetric import Flow, Symmetric


class Falls(NamedTuple):
    """By how much quantities fell below their running maximum along flows; zero where they only grow."""

    amplitude: np.ndarray  # of log z
    size: np.ndarray  # of ‖a‖² + ‖b‖²
    deviation: np.ndarray  # of the same of (a, b) less its start


def falls(setting: Symmetric, solution: Flow) -> Falls:
    """The falls along a flow, each of the shape of one setting or of as many as were followed at once."""
    states = solution.states
    moved = states - states[:, :1]
    return Falls(
        amplitude=_fall(np.log(states[3])),
        size=_fall(setting.size(states)),
        deviation=_fall(setting.size(moved)),
    )


def _fall(values: np.ndarray) -> np.ndarray:
    return np.max(np.maximum.accumulate(values, axis=0) - values, axis=0)


def growth(setting: Symmetric, state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """d(log z)/dt and d(‖a‖² + ‖b‖²)/dt at states `(4, ...)`."""
    parts = setting.parts(state)
    pull = state[2] * np.sum(parts.excess * parts.brought, axis=0)
    return 2 * setting.scale * parts.drive, -4 * (pull - state[3] * parts.drive)


def onset_slope(setting: Symmetric) -> float:
    """d(‖a‖² + ‖b‖²)/dz on the unstable manifold of the first plateau, at the plateau (derived).

    There z grows as e^{2κt} and (a, b) follows it in proportion: with J the linearisation of
    `Symmetric.velocity` at the plateau, the direction α of (a_0, a_1, Δ) solves (2κ − J_oo) α = J_oz.
    Where it is negative, the first thing ‖a‖² + ‖b‖² does as attention grows is to fall.
    """
    plateau = setting.plateau()
    linear = jacobian(setting.velocity, plateau)
    along = np.linalg.solve(linear[3, 3] * np.eye(3) - linear[:3, :3], linear[:3, 3])
    slopes = jacobian(lambda state: np.atleast_1d(setting.size(state)), plateau)[0]
    return float(slopes[:3] @ along + slopes[3])


def starts(
    setting: Symmetric, plateau: np.ndarray, radius: float, z: float, rng: np.random.Generator
) -> np.ndarray:
    """The plateau `(4, ...)` with `z`, and a_0, a_1, Δ changed by normal relative errors of size `radius`."""
    state = plateau * (1 + radius * rng.standard_normal(plateau.shape))
    state[3] = z
    return state
