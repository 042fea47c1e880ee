"""The linearisation of gradient flow at a point: rates, their directions, and why some of them are zero.

Flow is dθ/dt = −∇L, so its Jacobian is minus the Hessian: symmetric, with real rates and orthogonal modes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh
from scipy.sparse.linalg import LinearOperator, eigsh

from attndyn.theory import symmetry
from attndyn.theory.problem import Problem

#: rates below this share of the largest are taken for zero
NEUTRAL = 1e-9
#: sine of the angle up to which directions are taken for the same; modes of close rates are known no better
SAME = 1e-6
#: the parameters of the two blocks
OUTER, ATTENTION = ("W_0", "W_V", "W_1"), ("W_Q", "W_K")


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Rates of gradient flow at a point, the largest first, and their orthonormal modes.

    Attributes:
        problem: whose.
        flat: the point `(P,)`.
        rates: per unit of time `(mode,)`.
        modes: flat directions `(mode, P)`.
    """

    problem: Problem
    flat: np.ndarray
    rates: np.ndarray
    modes: np.ndarray

    @property
    def complete(self) -> bool:
        """Whether all modes are there."""
        return len(self.rates) == self.problem.size

    @property
    def threshold(self) -> float:
        """The rate below which a mode counts as neutral."""
        return NEUTRAL * float(np.abs(self.rates).max(initial=0.0))

    @property
    def unstable(self) -> np.ndarray:
        """Which modes grow `(mode,)`."""
        return self.rates > self.threshold

    @property
    def contracting(self) -> np.ndarray:
        """Which modes decay `(mode,)`."""
        return self.rates < -self.threshold

    @property
    def neutral(self) -> np.ndarray:
        """Which modes do neither `(mode,)`."""
        return ~(self.unstable | self.contracting)

    def direction(self, name: str, which: np.ndarray, side: str) -> tuple[np.ndarray, float]:
        """The one direction that some modes have in common in a parameter, and how fully they have it.

        Args:
            name: of the parameter.
            which: modes, as booleans `(mode,)`.
            side: `row` for the directions of its rows' index (left), `column` for those of its columns'.

        Returns:
            A unit vector, and its share of the squared size of the modes' parts in this parameter: 1 if
            every mode is that vector times something, 0 if the modes have no part in it.
        """
        parts = self.problem.unpack(self.modes[which])[name]
        turned = parts if side == "row" else parts.swapaxes(1, 2)
        left, sizes, _ = np.linalg.svd(np.concatenate([*turned], axis=1), full_matrices=False)
        total = float(np.sum(sizes**2))
        return left[:, 0], float(sizes[0] ** 2 / total) if total > 0 else 0.0


def full(problem: Problem, flat: np.ndarray) -> Spectrum:
    """All modes, from the whole Jacobian `(P, P)`; raises as `Problem.hvp` does."""
    rates, modes = eigh(-problem.hessian(flat))
    return Spectrum(problem, flat, rates[::-1], modes.T[::-1])


def leading(problem: Problem, flat: np.ndarray, n: int, without: np.ndarray | None = None) -> Spectrum:
    """The `n` fastest growing modes by Lanczos; of a repeated rate perhaps not every copy.

    Args:
        problem: whose.
        flat: the point `(P,)`.
        n: number of modes.
        without: orthonormal directions `(k, P)` that are left out, as if they were neutral: what is there
            besides them?

    Raises:
        OutOfReach: see `Problem.hvp`.
        ValueError: there are fewer than n + 1 modes.
    """
    if not 0 < n < problem.size:
        raise ValueError(f"{n} modes of {problem.size}; allowed: 1 to {problem.size - 1}")
    out = np.zeros((0, problem.size)) if without is None else without

    def jacobian(v: np.ndarray) -> np.ndarray:
        change = -problem.hvp(flat, v - (v @ out.T) @ out)
        return np.asarray(change - (change @ out.T) @ out)

    # a start of its own, so that the same question has the same answer
    start = np.random.default_rng(0).normal(size=problem.size)
    shift = _size(jacobian, start)
    # Lanczos stops at a share of the eigenvalue itself; shifted, a rate of zero has one
    operator = LinearOperator(
        (problem.size, problem.size), matvec=lambda v: jacobian(v.ravel()) + shift * v.ravel(), dtype=float
    )
    width = min(problem.size, max(2 * n + 1, 60))
    values, modes = eigsh(operator, k=n, which="LA", v0=start, ncv=width, tol=1e-14)
    order = np.argsort(values)[::-1]
    return Spectrum(problem, flat, values[order] - shift, modes.T[order])


def _size(jacobian: Callable[[np.ndarray], np.ndarray], start: np.ndarray) -> float:
    """About the largest rate in absolute value, by a few steps of the power method; 1 if all are zero."""
    size, v = 0.0, start
    for _ in range(10):
        v = jacobian(v / np.linalg.norm(v))
        size = float(np.linalg.norm(v))
        if size == 0:
            return 1.0
    return size


def blocks(problem: Problem, flat: np.ndarray) -> dict[tuple[str, str], float]:
    """Largest entry of each block of the Jacobian: `outer` is (W_0, W_V, W_1), `attention` (W_Q, W_K)."""
    jacobian = problem.hessian(flat)
    ones = {name: np.ones(shape) for name, shape in problem.shapes.items()}
    members = {
        room: problem.pack({name: ones[name] for name in names if name in ones}) > 0
        for room, names in (("outer", OUTER), ("attention", ATTENTION))
    }
    return {
        (a, b): float(np.abs(jacobian[np.ix_(members[a], members[b])]).max())
        for a, b in (("outer", "outer"), ("outer", "attention"), ("attention", "attention"))
    }


@dataclass(frozen=True)
class Classification:
    """How many modes a critical point has of each kind.

    Attributes:
        unstable: modes that grow.
        contracting: modes that decay.
        neutral: modes that do neither.
        reasons: of the neutral ones, how many each reason of `symmetry.spaces` adds to those before it.
        unexplained: neutral modes with no such reason: a family of critical points, or a bifurcation.
    """

    unstable: int
    contracting: int
    neutral: int
    reasons: dict[str, int]
    unexplained: int


def classify(spectrum: Spectrum) -> Classification:
    """The kinds of the modes at a critical point, and the neutral ones' reasons.

    Raises:
        ValueError: modes are missing.
    """
    if not spectrum.complete:
        raise ValueError("classification needs all modes: use `full`")
    kernel = spectrum.modes[spectrum.neutral]
    reasons, found = {}, np.zeros((0, len(kernel)))
    for reason, directions in symmetry.spaces(spectrum.problem, spectrum.flat).items():
        within = _within(symmetry.basis(directions), kernel)
        wider = symmetry.basis(np.concatenate([found, within]), rank=SAME)
        reasons[reason], found = len(wider) - len(found), wider
    return Classification(
        unstable=int(spectrum.unstable.sum()),
        contracting=int(spectrum.contracting.sum()),
        neutral=len(kernel),
        reasons=reasons,
        unexplained=len(kernel) - len(found),
    )


def overlap(one: np.ndarray, other: np.ndarray) -> float:
    """|cos| of the angle between two vectors."""
    return float(abs(one.ravel() @ other.ravel()) / (np.linalg.norm(one) * np.linalg.norm(other)))


def _within(directions: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    """The part of an orthonormal basis' span that lies in the kernel, in its coordinates `(n, mode)`."""
    if not len(directions) or not len(kernel):
        return np.zeros((0, len(kernel)))
    inside = directions @ kernel.T
    left, sines, _ = np.linalg.svd(directions - inside @ kernel)
    sines = np.pad(sines, (0, len(directions) - len(sines)))
    return symmetry.basis(left.T[sines < SAME] @ inside)
