"""The conservation law of gradient flow, and what is lost when its small terms are dropped.

Exact: C = W_0ᵀW_0 − W_1W_1ᵀ − W_QW_Qᵀ − W_KW_Kᵀ is constant; on the rank-one manifold ‖a‖² − ‖b‖² − 2 q². Two
approximations of its trace are measured, each relative to ‖W_0‖² + ‖W_1‖²:
without the constant, ‖W_0‖² − ‖W_1‖² = ‖W_Q‖² + ‖W_K‖²; and without attention too, ‖W_0‖² = ‖W_1‖².
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import integrate

from attndyn.theory.asserted.exact import Exact


class LawErrors(NamedTuple):
    """Along one flow, by the integrator's own times `(time,)`."""

    times: np.ndarray
    moved: np.ndarray  # max |A_ij − π_j|
    exact: np.ndarray  # largest entry of C(t) − C(0), relative to ‖W_0‖² + ‖W_1‖²
    without_constant: np.ndarray
    without_attention: np.ndarray

    def at(self, moved: float | None = None) -> dict[str, float]:
        """The three errors when attention has first moved so far; at the end by default."""
        beyond = self.moved >= (np.inf if moved is None else moved)
        when = int(np.argmax(beyond)) if beyond.any() else len(self.times) - 1
        names = ("exact", "without_constant", "without_attention")
        return {name: float(getattr(self, name)[when]) for name in names}


def law_errors(network: Exact, start: np.ndarray, horizon: float, rtol: float = 1e-10) -> LawErrors:
    """Follow gradient flow from `start`, flat, and take the errors of the three forms of the law."""
    solution = integrate.solve_ivp(
        lambda _, flat: -network.gradient(flat), (0, horizon), start, method="DOP853", rtol=rtol, atol=1e-14
    )
    first = _law(network, start)
    rows = []
    for flat in solution.y.T:
        w_0, w_1, w_q, w_k = (np.sum(w**2) for w in network.unpack(flat).values())
        rows.append(
            (
                np.abs(network.attention(flat) - network.pi).max(),
                np.abs(_law(network, flat) - first).max() / (w_0 + w_1),
                abs(w_0 - w_1 - w_q - w_k) / (w_0 + w_1),
                abs(w_0 - w_1) / (w_0 + w_1),
            )
        )
    return LawErrors(solution.t, *np.array(rows).T)


def _law(network: Exact, flat: np.ndarray) -> np.ndarray:
    w_0, w_1, w_q, w_k = network.unpack(flat).values()
    return w_0.T @ w_0 - w_1 @ w_1.T - w_q @ w_q.T - w_k @ w_k.T
