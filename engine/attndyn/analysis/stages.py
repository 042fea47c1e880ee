"""Stage detection for one replica and one head: arrays in, steps out (docs/stages.md defines each).

Tokens are ranked by their stationary probability, 0 the most frequent; "token k" is the one of rank k.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from attndyn.analysis.cycle import Cycle, find_cycle
from attndyn.analysis.series import (
    Array,
    first_crossing,
    first_plateau,
    hold_crossing,
    last_crossing,
    smooth,
    until_divergence,
)
from attndyn.analysis.spectra import abs_cosine, energy_share, spectrum
from attndyn.spec.base import AnalyzerOptions

NAN = float("nan")


class StageOptions(AnalyzerOptions):
    """Thresholds of the stage detector; the defaults suit every setting of the paper without a change."""

    kind: Literal["stages"] = "stages"
    rank_one_level: float = Field(default=0.95, gt=0, lt=1, description="rank-one share that is a collapse")
    rank_one_low: float = Field(default=0.5, gt=0, lt=1, description="share below which a collapse is undone")
    grown_level: float = Field(
        default=0.9, gt=0, lt=1, description="share of the plateau's size that is grown"
    )
    direction_level: float = Field(default=0.5, gt=0, lt=1, description="separation of an own direction")
    direction_low: float = Field(default=0.45, gt=0, lt=1, description="separation below which it is undone")
    new_direction_level: float = Field(default=0.1, gt=0, lt=1, description="energy of W_0 off its first one")
    hold: float = Field(default=0.5, ge=0, description="how long a crossing must hold, as share of its step")
    seen: float = Field(default=0.2, ge=0, le=1, description="share of that time that must be on record")
    min_rise: float = Field(default=1e-5, gt=0, lt=1, description="least rise of attention that is a focus")
    min_rise_later: float = Field(
        default=0.15, gt=0, lt=1, description="the same for the cycles of later tokens"
    )
    noise_factor: float = Field(default=5.0, ge=0, description="a rise must exceed the noise that many times")
    smoothing: float = Field(default=0.05, ge=0, lt=1, description="width of the running mean, share of step")
    tokens: int = Field(default=8, ge=2, description="how many tokens to follow, the most frequent ones")

    @model_validator(mode="after")
    def _hysteresis(self) -> StageOptions:
        for name in ("rank_one", "direction"):
            level, low = getattr(self, f"{name}_level"), getattr(self, f"{name}_low")
            if low > level:
                raise ValueError(f"{name}_low is {low}; allowed: at most {name}_level ({level})")
        return self


@dataclass(frozen=True)
class Signals:
    """The curves that the stages are read from, for one replica and one head; a NaN ends a curve.

    Attributes:
        parameter_steps: steps of the parameters' records, shape (record,).
        outer: the smaller rank-one share of W_0 and W_1, shape (record,).
        size: geometric mean of the Frobenius norms of W_0 and W_1, shape (record,).
        inner: the smaller rank-one share of W_Q and W_K, shape (record,).
        spread: energy of W_0 outside its leading direction, shape (record,).
        separation: of tokens 0, 1, ... from those of higher rank, shape (record, rank).
        attention_steps: steps of the attention's records, shape (record,).
        attention: attention map, tokens by rank, shape (record, query, key); a row may sum to less than 1,
            the rest going to tokens that are not followed.
        pi: stationary probability by rank, shape (key,).
    """

    parameter_steps: Array
    outer: Array
    size: Array
    inner: Array
    spread: Array
    separation: Array
    attention_steps: Array
    attention: Array
    pi: Array


class Direction(NamedTuple):
    """Steps at which a token's embedding parts from those of higher rank; NaN where it does not."""

    onset: float = NAN
    step: float = NAN
    completion: float = NAN


@dataclass(frozen=True)
class Detection:
    """Everything found for one replica and head; `cycles[k]` is the cycle of attention to token k.

    `queries[i]` is the cycle of query i's own attention to token 0.
    """

    rank_one: float
    condensation_end: float
    collapse_end: float
    new_direction: float
    directions: tuple[Direction, ...]
    cycles: tuple[Cycle, ...]
    queries: tuple[Cycle, ...]


def rank_one_share(weight: Array) -> Array:
    """σ₁² / Σσ² of the matrices in the last two axes, shape without them; NaN where not finite or zero."""
    weight = np.asarray(weight, dtype=np.float64)
    finite = np.isfinite(weight).all(axis=(-2, -1), keepdims=True)
    # without the vectors, which cost several times as much
    return energy_share(np.linalg.svdvals(np.where(finite, weight, 0)))


def frobenius_norm(weight: NDArray[np.floating]) -> Array:
    """√Σσ² of the matrices in the last two axes, shape without them; NaN where not finite."""
    norm = np.linalg.norm(np.asarray(weight, dtype=np.float64), axis=(-2, -1))
    return np.where(np.isfinite(norm), norm, np.nan)


def separation(W_0: Array, ranks: int) -> Array:
    """sin² of the angle between token k's embedding and the leading direction of those of higher rank.

    Args:
        W_0: embeddings, tokens by rank, shape (..., token, model).
        ranks: how many tokens k = 0 .. ranks - 1 to measure; less than the number of tokens.

    Returns:
        Shape (..., rank). The sign of an embedding does not matter: a token that passes through zero along
        the common direction has not left it.
    """
    cosines = [abs_cosine(W_0[..., k, :], spectrum(W_0[..., k + 1 :, :]).right) for k in range(ranks)]
    return 1 - np.stack(cosines, axis=-1) ** 2 if cosines else np.zeros((*W_0.shape[:-2], 0))


def detect(signals: Signals, options: StageOptions) -> Detection:
    """All boundaries of one replica and head."""

    def reached(values: Array, level: float, low: float) -> float:
        steps, values = until_divergence(signals.parameter_steps, values)
        return hold_crossing(steps, values, level, low=low, hold_share=options.hold, seen=options.seen)

    shares = (options.rank_one_level, options.rank_one_low)
    rank_one = reached(signals.outer, *shares)
    directions = tuple(_direction(signals.parameter_steps, curve, options) for curve in signals.separation.T)
    directions = directions or (Direction(),)  # a single token has none to part from
    return Detection(
        rank_one=rank_one,
        condensation_end=_condensation_end(signals, rank_one, options),
        collapse_end=reached(signals.inner, *shares),
        new_direction=reached(signals.spread, options.new_direction_level, options.new_direction_level / 2),
        directions=directions,
        cycles=_cycles(signals, directions, options),
        queries=_query_cycles(signals, options),
    )


def _condensation_end(signals: Signals, rank_one: float, options: StageOptions) -> float:
    """Step from which on W_0 and W_1 are rank-one and have grown to the plateau that follows."""
    steps, values = until_divergence(signals.parameter_steps, signals.size)
    values = smooth(steps, values, options.smoothing * steps)
    plateau = first_plateau(steps, values, options.grown_level, options.hold, rank_one)
    grown = first_crossing(steps, values, options.grown_level * plateau)
    return float(np.maximum(rank_one, grown))  # NaN if either is


def _direction(steps: Array, values: Array, options: StageOptions) -> Direction:
    """The opening of one token's direction, from its separation."""
    level, low = options.direction_level, options.direction_low
    steps, values = until_divergence(steps, values)
    step = hold_crossing(steps, values, level, low=low, hold_share=options.hold, seen=options.seen)
    if not np.isfinite(step):
        return Direction()
    until = int(np.searchsorted(steps, step)) + 1
    onset = last_crossing(steps[:until], values[:until], level / 5)
    # what it opens to is the largest separation before half of that is lost again
    return Direction(onset, step, _completion(steps, values, until - 1))


def _completion(steps: Array, values: Array, start: int) -> float:
    """Step at which nine tenths of the separation that is reached from record `start` on are there."""
    later = values[start:]
    highest = np.maximum.accumulate(later)
    lost = np.flatnonzero(later <= highest / 2)
    peak = float(highest[lost[0] if len(lost) else -1])
    return last_crossing(steps, np.concatenate([values[:start], highest]), 0.9 * peak)


def _cycles(signals: Signals, directions: tuple[Direction, ...], options: StageOptions) -> tuple[Cycle, ...]:
    """The cycle of every token: of the attention that all queries of its rank or higher give it at least.

    That of token 0 is seen against its stationary probability; that of token k > 0 among the tokens of rank k
    and higher, and from the step on at which token k - 1 has left them, against the value it has then.
    """
    steps = signals.attention_steps
    least = signals.attention[..., 0].min(axis=1)  # NaN where one of them is
    cycles = [_cycle(steps, least, float(signals.pi[0]), options.min_rise, options)]
    for k, previous in enumerate(directions[:-1], start=1):
        rest = signals.attention[:, k:, k:]
        cycles.append(_later_cycle(steps, _own_share(rest).min(axis=1), previous.step, options))
    return tuple(cycles)


def _query_cycles(signals: Signals, options: StageOptions) -> tuple[Cycle, ...]:
    base, steps = float(signals.pi[0]), signals.attention_steps
    return tuple(
        _cycle(steps, given, base, options.min_rise, options) for given in signals.attention[..., 0].T
    )


def _own_share(attention: Array) -> Array:
    """Share of the first key in the attention to all keys given, shape (record, query)."""
    total = attention.sum(axis=-1)
    return np.divide(attention[..., 0], total, out=np.zeros_like(total), where=total != 0)


def _later_cycle(steps: Array, share: Array, start: float, options: StageOptions) -> Cycle:
    steps, share = until_divergence(steps, share)
    window = steps >= start  # none if the previous token never leaves
    if window.sum() < 2:
        return Cycle()
    base = float(np.interp(start, steps, smooth(steps, share, options.smoothing * steps)))
    return _cycle(steps[window], share[window], base, options.min_rise_later, options)


def _cycle(steps: Array, values: Array, base: float, floor: float, options: StageOptions) -> Cycle:
    return find_cycle(
        *until_divergence(steps, values),
        base,
        floor=floor,
        noise_factor=options.noise_factor,
        smoothing=options.smoothing,
        settle=options.smoothing,
    )
