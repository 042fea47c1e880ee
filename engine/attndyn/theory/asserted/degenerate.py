"""Lyapunov–Schmidt at the degenerate point: which derivatives vanish, and which do not.

The network is that of a symmetric group with asymmetry δ, π(δ) = (p, r + δ, r, …, r, r − δ) with
r = (1 − p)/(d − 1) and P(δ) = λ I + (1 − λ) 1 π(δ)ᵀ. The point is the end of the flow on the rank-one
manifold at δ = 0, where token 0 is predicted as well as a query allows. There the parameter space splits
into the kernel of the Hessian, with coordinates v, and its range; the kernel has a tangential part (in the
rank-one manifold) and a transverse one (all other directions). Near the point θ = θ* + v + η(v, δ), where η
in the range solves Π_R ∇L = 0, and what is left is the reduced map g(v, δ) = Π_K ∇L(θ* + v + η(v, δ); δ).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement

import numpy as np

from attndyn.theory.analytic import jacobian
from attndyn.theory.asserted.circle import derivative, mixed, second
from attndyn.theory.asserted.exact import Exact
from attndyn.theory.asserted.symmetric import Symmetric
from attndyn.theory.bifurcation import SymmetricGroup

#: an eigenvalue of the Hessian at most this large counts as zero; the others are far larger
ZERO = 1e-10


@dataclass(frozen=True, eq=False)
class Reduction:
    """The splitting at the degenerate point of a setting, with the derivatives of η and g there.

    Attributes:
        setting: the symmetric group at δ = 0.
        width: d_model m of the network, at least 2.
        state: the degenerate point `(4,)` in the coordinates of `Symmetric`.
    """

    setting: Symmetric
    width: int
    state: np.ndarray

    @classmethod
    def of(cls, p: float, d: int, lam: float, width: int) -> Reduction:
        """At the degenerate point that the flow from the plateau reaches; raises as `SymmetricGroup` does."""
        point = SymmetricGroup(p, lam, d, width).degenerate_point()
        a, b, z = point.manifold.unpack(point.theta)
        setting = Symmetric(p, d, lam, width**-0.5)
        return cls(setting, width, np.array([a[0], a[1], b[0] - b[1], setting.scale * z**2]))

    def network(self, delta: complex) -> Exact:
        """The network at asymmetry δ."""
        pi = self.setting.pi + delta * self._tilt
        return Exact.sticky(pi, float(self.setting.lam), self.width)

    def gradient(self, point: np.ndarray) -> np.ndarray:
        """∇L at (θ, δ), one vector whose last entry is δ."""
        return self.network(point[-1]).gradient(point[:-1])

    @property
    def _tilt(self) -> np.ndarray:
        unit = np.eye(int(self.setting.d))
        return unit[1] - unit[-1]

    @cached_property
    def point(self) -> np.ndarray:
        """(θ*, 0)."""
        weights = self.setting.weights(self.state, self.width)
        return np.append(self.network(0.0).pack(weights), 0.0)

    @cached_property
    def tangent(self) -> np.ndarray:
        """Orthonormal basis `(parameter, direction)` of the rank-one manifold's tangent space."""
        network, shapes = self.network(0.0), self.network(0.0).shapes
        marks = {name: np.zeros(shape) for name, shape in shapes.items()}
        marks["W_0"][:, 0] = marks["W_1"][0] = 1
        marks["W_Q"][0, 0] = marks["W_K"][0, 0] = 1
        return np.eye(network.size)[:, network.pack(marks) > 0]

    @cached_property
    def hessian(self) -> np.ndarray:
        """Second derivatives of the loss at (θ*, 0)."""
        return jacobian(self.network(0.0).gradient, self.point[:-1])

    @cached_property
    def spectrum(self) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues and -vectors `(parameter, direction)` of the Hessian on the tangent space."""
        values, vectors = np.linalg.eigh(self.tangent.T @ self.hessian @ self.tangent)
        return values, self.tangent @ vectors

    @property
    def range_(self) -> tuple[np.ndarray, np.ndarray]:
        """The eigenvalues that are not zero and their eigenvectors."""
        values, vectors = self.spectrum
        return values[abs(values) > ZERO], vectors[:, abs(values) > ZERO]

    @property
    def tangential(self) -> np.ndarray:
        """Kernel in the rank-one manifold `(parameter, direction)`."""
        values, vectors = self.spectrum
        return vectors[:, abs(values) <= ZERO]

    @property
    def transverse(self) -> np.ndarray:
        """All directions out of the rank-one manifold `(parameter, direction)`; see `transverse_hessian`."""
        outside = self.tangent.sum(axis=1) == 0
        return np.eye(len(outside))[:, outside]

    def transverse_hessian(self) -> float:
        """Largest second derivative with a direction out of the manifold: zero if all of them are kernel."""
        return float(np.abs(self.hessian @ self.transverse).max())

    @cached_property
    def eta_delta(self) -> np.ndarray:
        """∂η/∂δ `(parameter,)`."""
        unit = np.eye(len(self.point))[-1]
        return self._eta(derivative(lambda z: self.gradient(self.point + z * unit), 1, 0.03))

    def _eta(self, gradient: np.ndarray) -> np.ndarray:
        """−H⁻¹ Π_R of a derivative of the gradient."""
        values, vectors = self.range_
        return -(vectors / values) @ (vectors.T @ gradient)

    def derivatives(self) -> dict[str, float]:
        """Largest entries of the first and second derivatives of η and g at v = 0, δ = 0.

        `t` are derivatives along the tangential kernel, `x` along the transverse directions and `d` in δ; the
        components of g are `g_t` and `g_x`. First derivatives along the kernel are zero by construction.
        """
        t, x = (np.vstack([basis, np.zeros(basis.shape[1])]) for basis in (self.tangential, self.transverse))
        along = np.append(self.eta_delta, 1.0)
        first = derivative(lambda z: self.gradient(self.point + z * along / 100), 1, 0.03) * 100
        sources = {
            "dd": [second(self.gradient, self.point, along)],
            "td": [mixed(self.gradient, self.point, u, along) for u in t.T],
            "xd": [mixed(self.gradient, self.point, u, along) for u in x.T],
            "tt": self._pairs(t, t),
            "tx": self._pairs(t, x),
            "xx": self._pairs(x, x),
        }
        found = {"eta d": float(np.abs(self.eta_delta).max()), **self._components("d", [first], eta=False)}
        for name, values in sources.items():
            found |= self._components(name, values, eta=True)
        return found

    def _pairs(self, left: np.ndarray, right: np.ndarray) -> list[np.ndarray]:
        if left is right:
            pairs = combinations_with_replacement(left.T, 2)
            return [mixed(self.gradient, self.point, u, v) for u, v in pairs]
        return [mixed(self.gradient, self.point, u, v) for u in left.T for v in right.T]

    def _components(self, name: str, gradients: list[np.ndarray], eta: bool) -> dict[str, float]:
        columns = np.stack(gradients, axis=1)
        parts = {"g_t": self.tangential.T @ columns, "g_x": self.transverse.T @ columns}
        if eta:
            parts["eta"] = self._eta(columns)
        return {f"{part} {name}": float(np.abs(values).max()) for part, values in parts.items()}

    def transverse_rate(self) -> float:
        """Growth rate of new directions per δ: the largest eigenvalue of −∂²g_x/∂x∂δ."""
        along = np.append(self.eta_delta, 1.0)
        x = np.vstack([self.transverse, np.zeros(self.transverse.shape[1])])
        columns = [mixed(self.gradient, self.point, u, along) for u in x.T]
        block = self.transverse.T @ np.stack(columns, axis=1)
        return float(-np.linalg.eigvalsh((block + block.T) / 2)[0])

    # -- the transverse gradient along the branch of rank-one critical points -----------------------------

    def transverse_matrix(self, delta: complex) -> np.ndarray:
        """G = −Aᵀ D `(token, token)` at θ* + η(0, δ), with η to second order in δ.

        For new directions, W_0 + x vᵀ and W_1 + v yᵀ, ∂L/∂x = −G y and ∂L/∂y = −Gᵀ x to first order.
        """
        network = self.network(delta)
        point = self.point[:-1] + delta * self.eta_delta + delta**2 / 2 * self.eta_delta_delta
        return network.pull(point)

    @cached_property
    def eta_delta_delta(self) -> np.ndarray:
        """∂²η/∂δ² `(parameter,)`."""
        return self._eta(second(self.gradient, self.point, np.append(self.eta_delta, 1.0)))

    def transverse_orders(self) -> dict[str, float]:
        """Largest entries of G, ∂G/∂δ and ∂²G/∂δ² at δ = 0, split by the exchange of the two tilted tokens.

        δ → −δ exchanges them, so the `even` part of G (unchanged by the exchange) is even in δ and the `odd`
        part odd: ∂²/∂δ² of the odd part and ∂/∂δ of the even part vanish.
        """
        radius = 0.03 / np.abs(self.eta_delta).max()
        swap = np.eye(int(self.setting.d))
        swap[[1, -1]] = swap[[-1, 1]]
        found = {"value": float(np.abs(self.transverse_matrix(0.0)).max())}
        for order, name in ((1, "first"), (2, "second")):
            matrix = derivative(self.transverse_matrix, order, radius)
            other = swap @ matrix @ swap
            found[f"{name} even"] = float(np.abs(matrix + other).max() / 2)
            found[f"{name} odd"] = float(np.abs(matrix - other).max() / 2)
        return found

    def opening_rate(self) -> float:
        """The largest singular value of ∂G/∂δ: new directions open at this rate per |δ|."""
        radius = 0.03 / np.abs(self.eta_delta).max()
        return float(np.linalg.norm(derivative(self.transverse_matrix, 1, radius), 2))
