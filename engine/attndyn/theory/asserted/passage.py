"""How runs from small random weights pass the first plateau: arrival, how close, escape of attention.

T_p, arrival: the first time at which ‖M − M_c‖ ≤ `near` ‖M_c‖, where M = W_0 W_1 is the table of
predictions and M_c = π ℓᵀ/‖π‖² its value at the first critical point. T_1, escape: the first
time at which attention differs from uniform weights, max |A_ij − π_j| ≥ `left`. Either is infinite if it does
not come before attention has moved by `stop`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import integrate

from attndyn.theory.asserted.exact import Exact
from attndyn.theory.closed_forms import condensation_rate, embedding_scale, focus_rate


@dataclass(frozen=True)
class Passage:
    """What was seen of one passage; deviations are taken at the integrator's own times.

    Attributes:
        arrival: T_p, in units of the ODE's time.
        escape: T_1.
        closest: smallest ‖M − M_c‖ / ‖M_c‖.
        size_gap: |(‖W_0‖² + ‖W_1‖²) / its value at the critical point − 1| at that moment.
        off_rank: second over first singular value of W_0 at that moment.
        amplitude: ‖W_Q W_Kᵀ‖ at that moment.
    """

    arrival: float
    escape: float
    closest: float
    size_gap: float
    off_rank: float
    amplitude: float

    @property
    def in_order(self) -> bool:
        """T_p ≤ T_1, with a T_p that is finite."""
        return bool(np.isfinite(self.arrival) and self.arrival <= self.escape)


def passage(
    pi: np.ndarray,
    lam: float,
    width: int,
    std: float,
    seed: int,
    near: float = 0.05,
    left: float = 0.01,
    stop: float = 0.1,
) -> Passage:
    """Follow the exact gradient flow of a sticky chain from normal weights of standard deviation `std`."""
    network = Exact.sticky(pi, lam, width)
    centred = np.log(pi) - np.log(pi).mean()
    table = np.outer(pi, centred) / (pi @ pi)

    def distance(flat: np.ndarray) -> float:
        w_0, w_1, *_ = network.unpack(flat).values()
        return float(np.linalg.norm(w_0 @ w_1 - table) / np.linalg.norm(table))

    def moved(flat: np.ndarray) -> float:
        return float(np.abs(network.attention(flat) - pi).max())

    def arrived(_: float, flat: np.ndarray) -> float:
        return distance(flat) - near

    def escaped(_: float, flat: np.ndarray) -> float:
        return moved(flat) - left

    def stopped(_: float, flat: np.ndarray) -> float:
        return moved(flat) - stop

    stopped.terminal = True  # type: ignore[attr-defined]
    start = network.initial(std, seed)
    # nothing comes before a stop that is there at once
    horizon = _horizon(pi, lam, width, std) if moved(start) < stop else 0.0
    solution = integrate.solve_ivp(
        lambda _, flat: -network.gradient(flat),
        (0, horizon),
        start,
        method="DOP853",
        rtol=1e-8,
        atol=1e-8 * std,
        events=[arrived, escaped, stopped],
    )
    arrival, escape = (
        0.0 if already(0.0, start) * sign <= 0 else float(found[0]) if len(found) else np.inf
        for already, sign, found in ((arrived, 1, solution.t_events[0]), (escaped, -1, solution.t_events[1]))
    )
    closest = min(solution.y.T, key=distance)
    w_0, w_1, w_q, w_k = network.unpack(closest).values()
    size = 2 * embedding_scale(pi) ** 2 * (pi @ pi)
    values = np.linalg.svd(w_0, compute_uv=False)
    return Passage(
        arrival=arrival,
        escape=escape,
        closest=distance(closest),
        size_gap=float(abs((np.sum(w_0**2) + np.sum(w_1**2)) / size - 1)),
        off_rank=float(values[1] / values[0]) if width > 1 else 0.0,
        amplitude=float(np.linalg.norm(w_q @ w_k.T)),
    )


def _horizon(pi: np.ndarray, lam: float, width: int, std: float) -> float:
    """Long after the escape that the two rates let expect."""
    slow = 1 / condensation_rate(pi) + 1 / focus_rate(pi, lam, width)
    return float(50 + 3 * (np.log(1 / std) + 3) * slow)


def contraction_rate(pi: np.ndarray) -> float:
    """μ, the slowest rate at which the predictions settle on the first plateau (derived).

    With attention uniform all queries see the logits πᵀM, whose deviation δ from ℓ obeys
    dδ/dt = −(‖ℓ‖‖π‖ 1 + ‖π‖/‖ℓ‖ ℓℓᵀ) (diag(π) − ππᵀ) δ. The remaining directions of (W_0, W_1) are neutral.
    """
    centred = np.log(pi) - np.log(pi).mean()
    norm, length = np.linalg.norm(pi), np.linalg.norm(centred)
    metric = norm * length * np.eye(len(pi)) + norm / length * np.outer(centred, centred)
    rates = np.linalg.eigvals(metric @ (np.diag(pi) - np.outer(pi, pi))).real
    # the constant direction of the logits changes nothing and has rate zero
    return float(np.sort(rates)[1])


def closest_exponent(pi: np.ndarray, lam: float, width: int) -> float:
    """The power of ε in the closest approach to θ_c¹ that two competing rates let expect (derived).

    Predictions settle as e^{−μt}; attention of size ε² e^{2κt} pulls them away again. The two are equal at a
    deviation ε^{2μ/(μ + 2κ)}; the neutral directions, of size ε throughout, allow no power above one.
    """
    slow, fast = contraction_rate(pi), 2 * focus_rate(pi, lam, width)
    return float(min(1.0, 2 * slow / (slow + fast)))
