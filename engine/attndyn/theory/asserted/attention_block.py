"""The attention block of the linearisation at the first critical point: one row direction, two signs.

There W_Q = W_K = 0, and gradient flow linearised in (W_Q, W_K) reads dW_Q/dt = C W_K, dW_K/dt = Cᵀ W_Q
with C = −s W_0ᵀ S W_0, S_ij = A_ij (dA_ij − Σ_k A_ik dA_ik), dA = D Mᵀ. As W_0 = π wᵀ, C = κ ŵ ŵᵀ:
symmetric, of rank one, and positive semi-definite exactly if κ ≥ 0. The whole block, [[0, C], [C, 0]] on the
rows of W_Q and W_K, is not semi-definite: its eigenvalues are κ, −κ (m times each, once a column) and 0.
"""

from __future__ import annotations

import numpy as np

from attndyn.theory.analytic import jacobian
from attndyn.theory.asserted.exact import Exact
from attndyn.theory.closed_forms import coupling, embedding_scale


def critical_point(network: Exact, direction: np.ndarray) -> np.ndarray:
    """θ_c¹, flat, with W_0 = |w| π ŵᵀ for a unit vector ŵ `(embd,)` and no attention weights."""
    pi = network.pi
    centred = np.log(pi) - np.log(pi).mean()
    size = embedding_scale(pi)
    none = np.zeros((network.width, network.width))
    w_1 = np.outer(direction, centred) / (size * (pi @ pi))
    return network.pack({"W_0": size * np.outer(pi, direction), "W_1": w_1, "W_Q": none, "W_K": none})


def coupling_rate(network: Exact) -> float:
    """κ in C = κ ŵ ŵᵀ, for any transition matrix with stationary distribution π (derived).

    κ = s |w|² Var_π(π) Σ_i π_i² (P_i − π)·ℓ / ‖π‖², Var_π(π) = Σπ³ − ‖π‖⁴. On a sticky chain it is
    `closed_forms.focus_rate`; it is negative where frequent tokens are followed by rare ones.
    """
    along = coupling(network.pi, network.transition)
    return float(network.scale * embedding_scale(network.pi) ** 2 * along)


def linearisation(network: Exact, point: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The Jacobian of the velocity −∇L by complex steps, its attention block and its coupling to the rest.

    Returns:
        The block of (W_Q, W_K) `(2m², 2m²)`, and that of (W_Q, W_K) with (W_0, W_1) `(2m², 2dm)`.
    """
    full = -jacobian(network.gradient, point)
    outer = 2 * len(network.pi) * network.width
    return full[outer:, outer:], full[outer:, :outer]


def predicted_block(network: Exact, direction: np.ndarray) -> np.ndarray:
    """[[0, C], [C, 0]] with C = κ ŵ ŵᵀ on rows and the identity on columns `(2m², 2m²)`."""
    one = coupling_rate(network) * np.kron(np.outer(direction, direction), np.eye(network.width))
    return np.block([[np.zeros_like(one), one], [one, np.zeros_like(one)]])
