"""After a token is learned: the problem that the remaining ones pose, and how the next direction opens.

Three predictions of the rate at which direction n + 1 opens, for pure attention without W_V:

- *reduced*, from π and the number of tokens learned alone: those tokens are taken out, the chain is watched
  on the others, and the rate is its own condensation rate, times the share of the loss that is theirs;
- *frozen*, from the weights as they are: a direction x of W_0 and y of W_1, orthogonal to all directions in
  use, grows to first order as dx/dt = G y, dy/dt = Gᵀ x, so at the rate σ₁(G);
- *propagated*, the same equations integrated along the measured G(t) from the first state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.linalg import expm

from attndyn.theory.asserted.exact import Exact
from attndyn.theory.closed_forms import condensation_rate


@dataclass(frozen=True)
class Remaining:
    """The chain watched on the tokens that are not learned yet.

    Attributes:
        tokens: their numbers, shape (token,).
        mass: their share of the stationary distribution.
        pi: stationary distribution of the watched chain, shape (token,).
        transition: its matrix, shape (token, next_token).
    """

    tokens: np.ndarray
    mass: float
    pi: np.ndarray
    transition: np.ndarray

    @property
    def rate(self) -> float:
        """Condensation rate of the reduced problem, times the share of the loss that is its own."""
        return self.mass * condensation_rate(self.pi)

    @property
    def next_token(self) -> int:
        """The most frequent one."""
        return int(self.tokens[np.argmax(self.pi)])


def remaining(pi: np.ndarray, transition: np.ndarray, learned: int) -> Remaining:
    """What is left once the `learned` most frequent tokens are projected out.

    The chain is watched at the other tokens only (stochastic complement): P_RR + P_RL (1 − P_LL)⁻¹ P_LR. A
    sticky chain stays one, with the same λ and π_k / Σ_R π.
    """
    if not 0 <= learned < len(pi) - 1:
        raise ValueError(f"{learned} tokens learned; at least two of {len(pi)} must remain")
    order = np.argsort(-pi, kind="stable")
    gone, left = order[:learned], np.sort(order[learned:])
    away = np.linalg.solve(np.eye(learned) - transition[np.ix_(gone, gone)], transition[np.ix_(gone, left)])
    watched = transition[np.ix_(left, left)] + transition[np.ix_(left, gone)] @ away
    mass = float(pi[left].sum())
    return Remaining(left, mass, pi[left] / mass, watched)


def pull(weights: Mapping[str, np.ndarray], pi: np.ndarray, transition: np.ndarray) -> np.ndarray:
    """G = −Aᵀ dL `(key, next_token)`, with dL_i = π_i (softmax(A_i M) − P_i), of one state of pure attention.

    Args:
        weights: W_0 `(token, model)`, W_1 `(model, next_token)`, W_Q and W_K `(model, d_head)`.
        pi: stationary distribution.
        transition: rows sum to 1.
    """
    network = Exact(pi, transition, weights["W_0"].shape[1])
    return network.pull(network.pack(weights))


@dataclass(frozen=True)
class Opening:
    """The opening of one direction of W_0, as measured and as predicted.

    Attributes:
        direction: its number, 1 for the second singular direction.
        start, end: times between which it grew from `from_` times its first size to `to` times the largest
            singular value.
        measured: its mean rate of growth between them, ln(end/start) a unit of time.
        frozen: mean of σ₁(G) over the same records.
        propagated: mean rate of dx/dt = G y, dy/dt = Gᵀ x along the measured G, from the first record on.
        reduced: rate of the problem with `direction` tokens taken out.
        token: largest entry of the leading left direction of G at the end, the token that opens.
        expected: the next token of the reduced problem.
    """

    direction: int
    start: float
    end: float
    measured: float
    frozen: float
    propagated: float
    reduced: float
    token: int
    expected: int


def openings(
    time: np.ndarray,
    weights: Mapping[str, np.ndarray],
    pi: np.ndarray,
    transition: np.ndarray,
    from_: float = 2.0,
    to: float = 0.05,
) -> list[Opening]:
    """Every direction after the first that opens in a trajectory of pure attention, in order.

    Args:
        time: of the records, shape (record,).
        weights: as for `pull`, with an axis of records in front.
        pi: stationary distribution.
        transition: rows sum to 1.
        from_, to: what counts as the opening, see `Opening`.
    """
    sizes = np.linalg.svd(weights["W_0"], compute_uv=False)
    found = []
    for direction in range(1, len(pi) - 1):
        size = sizes[:, direction]
        over = np.flatnonzero(size >= to * sizes[:, 0])
        ended = [i for i in over if sizes[i, 0] > 0.5 * sizes[-1, 0]]  # not at the start, where all are small
        last = int(ended[0]) if ended else None
        if last is None:
            break
        below = np.flatnonzero(size[:last] < from_ * size[0])
        first = int(below[-1]) + 1 if len(below) else 0
        if last - first < 2:
            break
        found.append(_opening(direction, slice(first, last + 1), time, size, weights, pi, transition))
    return found


def _opening(
    direction: int,
    span: slice,
    time: np.ndarray,
    size: np.ndarray,
    weights: Mapping[str, np.ndarray],
    pi: np.ndarray,
    transition: np.ndarray,
) -> Opening:
    """What was measured and predicted of an opening that took place over the records of `span`."""
    states = [{name: w[i] for name, w in weights.items()} for i in range(span.start, span.stop)]
    matrices = [pull(state, pi, transition) for state in states]
    rates = np.array([np.linalg.norm(matrix, 2) for matrix in matrices])
    at, sizes = time[span], size[span]
    propagated = _propagated(states[0], matrices, at, direction)
    rest = remaining(pi, transition, direction)
    return Opening(
        direction=direction,
        start=float(at[0]),
        end=float(at[-1]),
        measured=float(np.log(sizes[-1] / sizes[0]) / (at[-1] - at[0])),
        frozen=float(np.trapezoid(rates, at) / (at[-1] - at[0])),
        propagated=float(np.log(propagated / sizes[0]) / (at[-1] - at[0])),
        reduced=rest.rate,
        token=int(np.argmax(np.abs(np.linalg.svd(matrices[-1])[0][:, 0]))),
        expected=rest.next_token,
    )


def _propagated(
    state: Mapping[str, np.ndarray], matrices: list[np.ndarray], time: np.ndarray, direction: int
) -> float:
    """Largest singular value of what W_0 has outside its first `direction` directions, carried to the end."""
    n_tokens = len(state["W_0"])
    unused = np.linalg.svd(state["W_0"])[2][direction:].T
    xy = np.concatenate([state["W_0"] @ unused, (unused.T @ state["W_1"]).T])
    zero = np.zeros((n_tokens, n_tokens))
    for before, after, length in zip(matrices, matrices[1:], np.diff(time), strict=False):
        mean = (before + after) / 2
        xy = expm(length * np.block([[zero, mean], [mean.T, zero]])) @ xy
    return float(np.linalg.norm(xy[:n_tokens], 2))
