"""Directions in which the loss cannot change: the tangent spaces of its symmetries, as numbers.

With W_0 → W_0 g, W_Q → g⁻¹ W_Q, W_K → g⁻¹ W_K, W_1 → g⁻¹ W_1 the model is the same for every invertible
g, and so it is with W_Q → W_Q h, W_K → W_K h⁻ᵀ, and with W_1 → W_1 + v 1ᵀ. Orthogonal g and h are symmetries
of gradient flow, too; the others of the loss only. Where a factor has a kernel, what it cannot see is free.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from scipy.linalg import null_space

from attndyn.theory.problem import Problem
from attndyn.theory.setting import OutOfReach, Setting

Matrices = Mapping[str, np.ndarray]
Generator = Callable[[Matrices, np.ndarray], dict[str, np.ndarray]]

#: singular values below this share of the largest are taken for zero
RANK = 1e-9


def spaces(problem: Problem, flat: np.ndarray) -> dict[str, np.ndarray]:
    """Directions `(n, P)` at `flat (P,)` by the reason for which the loss is the same along them.

    - `orthogonal`: rotations of the model space, of the head's and, with W_V, of the values'.
    - `scaling`: one factor grows as the other shrinks.
    - `linear`: all other invertible maps of these spaces.
    - `shift`: a constant added to all logits.
    - `unseen`: a change of one parameter that the others hide, such as W_1 + B with W_0 B = 0.

    The first four are in the kernel of the Hessian at every critical point. Directions may be dependent, and
    those of the last kind are in the kernel only where the gradient stays zero along them.

    Raises:
        OutOfReach: the model is not one of the theory's.
    """
    setting = problem.setting
    if setting is None:
        raise OutOfReach("the symmetries are known for the theory's one-layer models only")
    w, m = problem.unpack(flat), setting.d_model
    unit = np.eye(m * m).reshape(m, m, m, m)
    turning = [unit[i, j] - unit[j, i] for i in range(m) for j in range(i)]
    stretching = [unit[i, j] + unit[j, i] for i in range(m) for j in range(i + 1)]

    def moved(maps: list[np.ndarray]) -> np.ndarray:
        found = [problem.pack(generator(w, x)) for generator in _generators(setting) for x in maps]
        return np.array(found).reshape(-1, problem.size)

    shift = [problem.pack({"W_1": np.outer(row, np.ones(setting.d_vocab))}) for row in np.eye(m)]
    return {
        "orthogonal": moved(turning),
        "scaling": moved([np.eye(m)]),
        "linear": moved(stretching),
        "shift": np.array(shift),
        "unseen": _unseen(problem, setting, w),
    }


def basis(directions: np.ndarray, rank: float = RANK) -> np.ndarray:
    """An orthonormal basis `(k, P)` of the span of `(n, P)`, up to a share `rank` of the largest."""
    lengths = np.linalg.norm(directions, axis=1)
    kept = directions[lengths > 0] / lengths[lengths > 0, None]
    if not len(kept):
        return np.zeros((0, directions.shape[1]))
    _, sizes, rows = np.linalg.svd(kept, full_matrices=False)
    return rows[sizes > rank * sizes[0]]


def _generators(setting: Setting) -> list[Generator]:
    """Per inner space, what an infinitesimal map 1 + x of it does to the parameters."""

    def model(w: Matrices, x: np.ndarray) -> dict[str, np.ndarray]:
        change = {"W_0": w["W_0"] @ x, "W_Q": -x @ w["W_Q"], "W_K": -x @ w["W_K"]}
        if not setting.value_projection:
            return change | {"W_1": -x @ w["W_1"]}
        if setting.residual:  # the values come back into the model space, where W_1 reads both
            return change | {"W_V": w["W_V"] @ x - x @ w["W_V"], "W_1": -x @ w["W_1"]}
        return change | {"W_V": -x @ w["W_V"]}

    def head(w: Matrices, x: np.ndarray) -> dict[str, np.ndarray]:
        return {"W_Q": w["W_Q"] @ x, "W_K": -w["W_K"] @ x.T}

    def values(w: Matrices, x: np.ndarray) -> dict[str, np.ndarray]:
        return {"W_V": w["W_V"] @ x, "W_1": -x @ w["W_1"]}

    return [model, head, values] if setting.value_projection and not setting.residual else [model, head]


def _unseen(problem: Problem, setting: Setting, w: Matrices) -> np.ndarray:
    """Changes of one parameter that the others hide, `(n, P)`: the model's output is exactly the same."""
    w_0, values = w["W_0"], w.get("W_V", np.eye(setting.d_model))
    uniform = not (w["W_Q"].any() or w["W_K"].any())
    read = w_0 @ values  # what W_1 is applied to
    if uniform and not setting.residual:
        read = setting.pi[None] @ read
    if setting.residual:
        read = np.concatenate([read, w_0])
    after = [w["W_Q"], w["W_K"], values @ w["W_1"]] + ([w["W_1"]] if setting.residual else [])
    parts = [
        _hidden(problem, "W_0", right=np.concatenate(after, axis=1)),
        _hidden(problem, "W_1", left=read),
        _hidden(problem, "W_Q", left=w_0),
        _hidden(problem, "W_Q", right=(w_0 @ w["W_K"]).T),
        _hidden(problem, "W_K", left=w_0),
        _hidden(problem, "W_K", right=(w_0 @ w["W_Q"]).T),
    ]
    if uniform and not setting.residual:
        parts.append(_hidden(problem, "W_0", left=setting.pi[None]))
    if setting.value_projection:
        mixed = setting.pi[None] @ w_0 if uniform else w_0
        parts += [_hidden(problem, "W_V", left=mixed), _hidden(problem, "W_V", right=w["W_1"])]
    return np.concatenate(parts)


def _hidden(
    problem: Problem, name: str, left: np.ndarray | None = None, right: np.ndarray | None = None
) -> np.ndarray:
    """Directions `(n, P)` of all changes B of one parameter with `left B = 0`, or with `B right = 0`."""
    rows, columns = problem.shapes[name]
    if left is not None:
        free = _kernel(left).T
        changes = [np.outer(v, e) for v in free for e in np.eye(columns)]
    else:
        assert right is not None
        free = _kernel(right.T).T
        changes = [np.outer(e, v) for v in free for e in np.eye(rows)]
    return np.array([problem.pack({name: change}) for change in changes]).reshape(-1, problem.size)


def _kernel(matrix: np.ndarray) -> np.ndarray:
    """Orthonormal columns that the matrix sends to zero; all of them for a zero matrix."""
    if not matrix.any():
        return np.eye(matrix.shape[1])
    return np.asarray(null_space(matrix, rcond=RANK))
