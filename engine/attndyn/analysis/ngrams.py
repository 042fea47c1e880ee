"""How near a model's predictions come to those of an n-gram, and from when on: arrays in, steps out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attndyn.analysis.series import Array, first_crossing, until_divergence

NAN = float("nan")
#: what references are called in words
NAMES = {"unigram": "unigram", "bigram": "bigram", "pseudo_bigram": "pseudo-2-gram"}


class Approach(NamedTuple):
    """Of one reference: where the divergence from it is least, how much of it the model has, and when."""

    closest_step: float = NAN
    closest_kl: float = NAN
    most_captured: float = NAN
    reached_step: float = NAN


def captured(kl: Array, information: Array, least: float) -> Array:
    """Share of what a reference tells that predictions have: 1 - KL(reference ‖ p) / KL(reference ‖ simpler).

    1 for predictions that are the reference, 0 for the simpler one, negative beyond. NaN where the reference
    tells less than `least` nats, as the bigrams of shuffled text do: their chance part is not among what they
    tell (`attndyn.data.bigram`).
    """
    information = np.where(information >= least, information, np.nan)
    return np.asarray(1 - kl / information, float)


def approach(steps: Array, kl: Array, share: Array, level: float) -> Approach:
    """How the divergence `kl` (record,) from one reference goes, with its `captured` share (record,).

    `reached_step`: the first record whose share is at least `level`, between records by a straight line.
    """
    steps, kl = until_divergence(steps, kl)
    share = share[: len(kl)]
    if not len(kl):
        return Approach()
    lowest = int(kl.argmin())
    known = np.isfinite(share)
    most = float(share[known].max()) if known.any() else NAN
    at = np.flatnonzero(known & (np.where(known, share, 0.0) >= level))[:1]
    reached = NAN
    for first in at.tolist():
        crossing = first_crossing(steps[first - 1 : first + 1], share[first - 1 : first + 1], level)
        reached = crossing if np.isfinite(crossing) else float(steps[first])
    return Approach(float(steps[lowest]), float(kl[lowest]), most, reached)


def nearest(kl: Array) -> NDArray[np.intp]:
    """Which of the references (record, reference) is nearest at every record; -1 where one is not finite."""
    known = np.asarray(np.isfinite(kl).all(axis=-1))
    return np.where(known, np.where(known[..., None], kl, 0.0).argmin(axis=-1), -1)


class Span(NamedTuple):
    """From which step on something holds, until when, and how many steps that lasted."""

    begin: float = NAN
    end: float = NAN
    steps: float = 0.0


def markov_order(share: Array, spread: Array, level: float, low: float, least: float) -> NDArray[np.intp]:
    """The order of predictions at every record: 0, 1, or 2 for more than first; -1 where it is not known.

    Order 0: their spread is less than `least` nats, that is, they are all alike. Order 1: the last token
    explains the share `level` of it, and from then on until it explains less than `low`. Order 2 otherwise.
    """
    order = np.full(share.shape, 2, dtype=np.intp)
    held = False
    for i, (explained, nats) in enumerate(zip(share, spread, strict=True)):
        held = bool(explained >= (low if held else level)) and bool(nats >= least)
        order[i] = 1 if held else 2
        if nats < least:
            order[i] = 0
        elif not np.isfinite(explained) or not np.isfinite(nats):
            order[i] = -1
    return order


def first_span(steps: Array, holds: NDArray[np.bool_]) -> Span:
    """The first stretch of records of which something holds; it ends at the record after, NaN if none is."""
    if not holds.any():
        return Span()
    first = int(np.argmax(holds))
    after = np.flatnonzero(~holds[first:])
    end = float(steps[first + after[0]]) if len(after) else NAN
    return Span(float(steps[first]), end, (end if len(after) else float(steps[-1])) - float(steps[first]))
