"""When each stage sets in, as a function of the initial scale ε: the reduced flow from where growth begins.

The onsets are crossings of stated levels, on the rank-one manifold and in a trajectory alike:

    condensation   the part of W_0 along its rows' sizes on the first plateau reaches half of its size there
    focus          ‖Z‖, the Frobenius norm of the scores of attention, reaches 0.01
    dilution       the embedding of the second most frequent token, along the leading direction of W_0, has
                   fallen back to half of its size on the plateau

The flow leaves out what the initial weights have beside the one direction that grows. Onsets are predicted
while that is small, see `MOST_SHARE`: up to there they were within 10 % of the exact flow's (docs/theory.md).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np
from scipy import integrate
from scipy.special import digamma

from attndyn.data import philox
from attndyn.theory.plateau import Plateau, first_plateau, leading_mode
from attndyn.theory.rank_one import RankOne
from attndyn.theory.setting import OutOfReach, Setting

STAGES = ("condensation", "focus", "dilution")
SCORE_LEVEL = 0.01
SHARE = 0.5
#: rates below it are rounding
NO_RATE = 1e-12
#: size of initial parameters below which squares lose digits, and soon are 0
LEAST_SIZE = 1e-150
#: largest norm of the initial W_0, as a share of its norm on the plateau, from which onsets are predicted
MOST_SHARE = 0.1
#: widest model whose initial parameters are drawn for the prediction
MAX_DRAWN = 4096


@dataclass(frozen=True, eq=False)
class Start:
    """Where the reduced flow begins.

    Attributes:
        u: the part of W_0 along the direction that grows, `(token,)`.
        v: the part of W_1 along it, `(next_token,)`.
        alpha: size of the combination of W_Q and W_K along it that grows.
        beta: size of the one that decays.
    """

    u: np.ndarray
    v: np.ndarray
    alpha: float
    beta: float

    @classmethod
    def expected(cls, setting: Setting) -> Start:
        """The typical start of normal parameters of standard deviation ε, of which only ε and m are known.

        What grows is half the sum of two independent vectors of m normals: its length is ε/√2 times a χ of m
        degrees of freedom. Onsets depend on its logarithm, so the typical length is exp E log χ =
        √2 exp(ψ(m/2)/2).

        Raises:
            OutOfReach: the parameters do not all begin as normals of one scale, begin at zero or underflow.
        """
        if not setting.std:
            raise OutOfReach("the parameters do not all begin as normals of one scale ε > 0")
        _, left, right = leading_mode(setting)
        size = setting.std * float(np.exp(digamma(setting.d_model / 2) / 2))
        _refuse_tiny(size)
        return cls(size * left, size * right, size, size)

    @classmethod
    def of(cls, setting: Setting, weights: Mapping[str, np.ndarray]) -> Start:
        """The start from given parameters: W_0 `(token, model)`, W_1, W_Q, W_K `(model, d_head)`.

        Raises:
            OutOfReach: they are so small that their squares underflow.
        """
        _, left, right = leading_mode(setting)
        growing = left @ weights["W_0"] + weights["W_1"] @ right
        _refuse_tiny(float(np.abs(growing).max()))
        w = growing / np.linalg.norm(growing)
        query, key = w @ weights["W_Q"], _sign(first_plateau(setting)) * (w @ weights["W_K"])
        _refuse_tiny(float(np.abs(query + key).max()))
        alpha, beta = (float(np.linalg.norm(both)) / 2 for both in (query + key, query - key))
        return cls(weights["W_0"] @ w, w @ weights["W_1"], alpha, beta)

    @classmethod
    def drawn(cls, setting: Setting) -> Start:
        """The start from the very parameters that a run of the setting's seed begins with."""
        d, m = setting.d_vocab, setting.d_model
        shapes = {"W_0": (d, m), "W_1": (m, d), "W_Q": (m, m), "W_K": (m, m)}
        assert setting.seed is not None
        assert setting.std is not None
        purpose = philox.Purpose.INIT
        weights = {
            name: setting.std * philox.normals(setting.seed, purpose, zlib.crc32(name.encode()), shape)
            for name, shape in shapes.items()
        }
        return cls.of(setting, weights)


@lru_cache(maxsize=64)
def onsets(setting: Setting, start: Start | None = None) -> Mapping[str, float]:
    """Time at which each of `STAGES` sets in; NaN for one that the reduced flow does not reach.

    Args:
        setting: its ε is used where `start` is not given.
        start: where it begins; if left out, what the setting's seed draws, or the typical start if it has
            none.

    Raises:
        OutOfReach: with W_V, where growth from the origin has no linear regime; without a given start, the
            setting's is not small; see also `Start.expected`.
    """
    rate = leading_mode(setting)[0]
    start = _start(setting) if start is None else start
    plateau = first_plateau(setting)
    flow = _flow(setting, start)
    solution = _solve(flow, start, _horizon(rate, plateau, start), events=_events(flow, plateau))
    return MappingProxyType(
        {
            stage: float(times[0]) if len(times) else np.nan
            for stage, times in zip(STAGES, solution.t_events, strict=True)
        }
    )


def follow(setting: Setting, times: np.ndarray, start: Start | None = None) -> tuple[RankOne, np.ndarray]:
    """The reduced flow of a setting and its states `(time, 2 token + 2)` at increasing times ≥ 0.

    Raises:
        OutOfReach: see `onsets`.
    """
    start = _start(setting) if start is None else start
    flow = _flow(setting, start)
    # a record of the start alone has no length to integrate over
    return flow, _solve(flow, start, float(times[-1]) or 1.0, t_eval=times).y.T


def _refuse_tiny(size: float) -> None:
    if size < LEAST_SIZE:
        raise OutOfReach(f"the initial parameters, of size {size:.1g}, are so small that squares underflow")


def _start(setting: Setting) -> Start:
    """What the setting's seed draws, or the typical start if it has none; refuses one that is not small."""
    leading_mode(setting)  # where nothing grows from the origin there is no plateau to compare with
    share = (setting.std or 0.0) * np.sqrt(setting.d_vocab * setting.d_model) / first_plateau(setting).norm
    if share > MOST_SHARE:
        raise OutOfReach(
            f"the initial weights are not small: W_0 begins at {share:.2g} of its norm on the first plateau, "
            f"and onsets are predicted from at most {MOST_SHARE}"
        )
    drawn = setting.seed is not None and setting.std and setting.d_model <= MAX_DRAWN
    return Start.drawn(setting) if drawn else Start.expected(setting)


def _flow(setting: Setting, start: Start) -> RankOne:
    return RankOne(setting, _sign(first_plateau(setting)), start.alpha * start.beta)


def _solve(flow: RankOne, start: Start, until: float, **options: Any) -> Any:
    """SciPy's solution of the reduced flow; `options` are further ones of `solve_ivp`."""
    return integrate.solve_ivp(
        lambda _, state: flow.velocity(state),
        (0, until),
        _packed(flow, start),
        method="LSODA",
        rtol=1e-8,
        atol=1e-10 * min(float(np.linalg.norm(start.u)), start.alpha),
        **options,
    )


def _packed(flow: RankOne, start: Start) -> np.ndarray:
    """The state `(2 token + 2,)` that a start is."""
    return flow.pack(start.u, start.v, 0.0 if flow.setting.value_projection else 1.0, start.alpha)


def _events(flow: RankOne, plateau: Plateau) -> list[Callable[[float, np.ndarray], float]]:
    """What crosses zero upwards at each onset."""
    second = int(np.argsort(-flow.setting.pi, kind="stable")[1])

    def condensation(_: float, state: np.ndarray) -> float:
        return float(flow.unpack(state)[0] @ plateau.u / plateau.norm**2 - SHARE)

    def focus(_: float, state: np.ndarray) -> float:
        return float(np.linalg.norm(flow.scores(state)) - SCORE_LEVEL)

    def dilution(_: float, state: np.ndarray) -> float:
        # as it grew to the plateau it crossed downwards
        return float(SHARE - flow.unpack(state)[0][second] / plateau.u[second])

    for event in (condensation, focus, dilution):
        event.direction = 1  # type: ignore[attr-defined]
    return [condensation, focus, dilution]


def _horizon(rate: float, plateau: Plateau, start: Start) -> float:
    """Long enough for every stage: both exponential growths, each several times over."""
    growth = np.log(max(plateau.norm / float(np.linalg.norm(start.u)), np.e)) / rate
    if abs(plateau.kappa) < NO_RATE:
        return float(2 * growth)
    return float(2 * growth + (2 * np.log(max(1 / start.alpha, np.e)) + 20) / abs(plateau.kappa))


def _sign(plateau: Plateau) -> float:
    return -1.0 if plateau.kappa < 0 else 1.0
