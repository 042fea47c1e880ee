"""The first plateau: the critical point that growth from the origin leads to, and what grows there.

Without a residual it has a closed form, for every chain. With one, the model of one direction cannot predict
every query's own distribution, and the best that it can do is found numerically in 2d dimensions. It is left
faster than it is approached, so that a run with a residual passes it at a distance (docs/theory.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import integrate, optimize
from scipy.special import softmax

from attndyn.theory import closed_forms
from attndyn.theory.rank_one import RankOne
from attndyn.theory.setting import OutOfReach, Setting

#: most tokens for which d × d matrices are decomposed and flows of 2d dimensions integrated
MAX_TOKENS = 256
#: a rate of growth from the origin that is zero to rounding
_STILL = 1e-15
#: size with which the flow leaves the origin, speed at which it has ended, and the longest time to wait
_SMALL, _AT_REST, _LONGEST = 1e-6, 1e-9, 1e7


@dataclass(frozen=True, eq=False)
class Plateau:
    """A critical point W_0 = u ŵᵀ, W_1 = ŵ vᵀ [, W_V = c ŵ ŵᵀ] with uniform attention over π.

    Attributes:
        u: `(token,)`; its entries are the norms of the rows of W_0, with the sides they lie on.
        v: `(next_token,)`.
        c: of W_V; 1 without.
        loss: nats.
        kappa: growth rate of W_Q and W_K along ŵ: of their sum, or, where it is negative, |κ| of their
            difference, by which attention turns away from tokens with large u.
    """

    u: np.ndarray
    v: np.ndarray
    c: float
    loss: float
    kappa: float

    @property
    def norm(self) -> float:
        """Frobenius norm of W_0."""
        return float(np.linalg.norm(self.u))


@lru_cache(maxsize=64)
def first_plateau(setting: Setting) -> Plateau:
    """The first plateau of a setting, in the limit of small initial weights.

    Of a uniform π and pure attention it is the origin itself. With a residual κ is 0 but for rounding: every
    query there reads what is best for it along ŵ, so that no other attention would help.

    Raises:
        OutOfReach: too many tokens for the numerical one of a residual model.
    """
    flow = RankOne(setting)
    state = _numerical(flow) if setting.residual else flow.pack(*_closed_form(setting))
    u, v, c, _ = flow.unpack(state)
    return Plateau(u, v, float(c), flow.loss(state), _kappa(flow, state))


def is_uniform(pi: np.ndarray) -> bool:
    """Whether π `(token,)` is uniform to rounding: pure attention then rests at the origin, its plateau."""
    return closed_forms.condensation_rate(pi) < _STILL


def origin_coupling(setting: Setting) -> np.ndarray:
    """E `(token, next_token)` of growth from the origin: dW_0/dt = E W_1ᵀ, dW_1/dt = W_0ᵀ E to first order.

    Pure attention sees the mean query only: E = π (π − 1/d)ᵀ, of rank one. With a residual each query also
    sees itself: E + D_π (P − 1/d), and all singular values of the sum are rates, the largest of which leads.

    Raises:
        OutOfReach: with W_V and no residual, where nothing is of first order.
    """
    pi = setting.pi
    mean = np.outer(pi, pi - 1 / len(pi))
    own = pi[:, None] * (setting.transition - 1 / len(pi))
    if not setting.value_projection:
        return mean + own if setting.residual else mean
    if setting.residual:
        return own
    raise OutOfReach("with W_V growth from the origin is of second order: there is no linear rate")


@lru_cache(maxsize=64)
def leading_mode(setting: Setting) -> tuple[float, np.ndarray, np.ndarray]:
    """Rate σ of the fastest growth from the origin; its directions in W_0 `(token,)`, W_1 `(next_token,)`.

    Raises:
        OutOfReach: see `origin_coupling`; or too many tokens.
    """
    coupling = origin_coupling(setting)
    if not setting.residual:
        # of rank one: no decomposition is needed
        left, right = setting.pi, setting.pi - 1 / setting.d_vocab
        size = float(np.linalg.norm(left) * np.linalg.norm(right))
        if is_uniform(setting.pi):
            raise OutOfReach("π is uniform: nothing grows from the origin at first order")
        return size, left / np.linalg.norm(left), right / np.linalg.norm(right)
    _refuse_large(setting)
    left_vectors, values, right_vectors = np.linalg.svd(coupling)
    left, right = left_vectors[:, 0], right_vectors[0]
    if values[0] < _STILL:
        raise OutOfReach("all tokens follow each other alike: nothing grows from the origin at first order")
    towards = 1.0 if left.sum() >= 0 else -1.0
    return float(values[0]), towards * left, towards * right


def transverse_rate(setting: Setting) -> float:
    """Rate at which a second direction of the embedding grows on the first plateau, before attention does.

    0 for pure attention: there the gradient in W_0 W_1 vanishes. With a residual it is the leading singular
    value of that gradient, G = D_π (P̂ − P) [+ π 1ᵀG], which couples new directions of W_0 and W_1; with W_V
    another row, (πᵀu) 1ᵀG, couples those of W_1 to W_V instead of the term in brackets.
    """
    if not setting.residual:
        return 0.0
    plateau, pi = first_plateau(setting), setting.pi
    logits = np.outer(plateau.c * (pi @ plateau.u) + plateau.u, plateau.v)
    gradient = pi[:, None] * (softmax(logits, axis=1) - setting.transition)
    mean = gradient.sum(axis=0)
    if setting.value_projection:
        coupling = np.vstack([gradient, (pi @ plateau.u) * mean])
    else:
        coupling = gradient + np.outer(pi, mean)
    return float(np.linalg.norm(coupling, 2))


def _closed_form(setting: Setting) -> tuple[np.ndarray, np.ndarray, float]:
    """u, v and c of pure attention: W_0 = π wᵀ, and the model predicts π."""
    pi, with_value = setting.pi, setting.value_projection
    if is_uniform(pi):
        return 0 * pi, 0 * pi, 0.0 if with_value else 1.0
    scale = (closed_forms.value_embedding_scale if with_value else closed_forms.embedding_scale)(pi)
    u = scale * pi
    c = float(np.linalg.norm(u)) if with_value else 1.0
    return u, (np.log(pi) - np.log(pi).mean()) / (c * (pi @ u)), c


def _kappa(flow: RankOne, state: np.ndarray) -> float:
    """κ at a state without attention; exactly 0 where it is rounding beside the terms it is a sum of."""
    setting, (u, v, c, _) = flow.setting, flow.unpack(state)
    kappa = -float(flow.gradient(state)[3])
    # predictions and P, of which it takes the difference, both have rows that sum to 1
    terms = (
        2 * setting.score_scale * abs(c) * (setting.pi @ np.abs(u)) * np.abs(v).max() * (setting.pi @ u**2)
    )
    return 0.0 if abs(kappa) < 4 * np.finfo(float).eps * setting.d_vocab * terms else kappa


def _numerical(flow: RankOne) -> np.ndarray:
    """The point where the reduced flow from the origin ends, with no attention: flow first, then Newton."""
    setting = flow.setting
    _, left, right = leading_mode(setting)
    start = flow.pack(_SMALL * left, _SMALL * right, 0.0 if setting.value_projection else 1.0)

    def velocity(_: float, state: np.ndarray) -> np.ndarray:
        return flow.velocity(state)

    # with W_V the point is one of a family, which the flow chooses from: it has to be followed to its end
    def speed(time: float, state: np.ndarray) -> float:
        return float(np.linalg.norm(velocity(time, state)) - _AT_REST)

    speed.terminal, speed.direction = True, -1  # type: ignore[attr-defined]
    flowed = integrate.solve_ivp(
        velocity, (0, _LONGEST), start, method="LSODA", rtol=1e-10, atol=1e-13, events=speed
    ).y[:, -1]
    d = setting.d_vocab
    free = np.r_[np.ones(2 * d, bool), setting.value_projection, False]

    def residuals(values: np.ndarray) -> np.ndarray:
        state = flowed.copy()
        state[free] = values
        u, v, _, _ = flow.unpack(state)
        # gradient flow keeps the two norms equal and Σ v zero, as at the origin; nothing else fixes them
        return np.r_[flow.velocity(state)[free], u @ u - v @ v, v.sum()]

    state = flowed.copy()
    state[free] = optimize.least_squares(
        residuals, flowed[free], method="lm", xtol=1e-15, ftol=1e-15, gtol=1e-15
    ).x
    return state


def _refuse_large(setting: Setting) -> None:
    if setting.d_vocab > MAX_TOKENS:
        raise OutOfReach(f"{setting.d_vocab} tokens; this is computed for at most {MAX_TOKENS}")
