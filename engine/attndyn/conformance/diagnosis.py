"""From numbers that differ to the fault that they look like."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

import numpy as np

from attndyn.conformance.faults import Failure, Fault

#: largest deviation from a difference quotient, relative to its largest entry
GRADIENT_LIMIT = 1e-7
#: largest deviation between two ways to compute the same, relative to the largest entry
SAME_LIMIT = 1e-12


def near(found: np.ndarray, expected: np.ndarray, limit: float, floor: float = 0.0) -> bool:
    """Whether two arrays agree to `limit` times the largest expected entry, or `floor`; NaN with none."""
    if found.shape != expected.shape:
        return False
    return bool(np.all(np.abs(found - expected) <= limit * np.abs(expected).max(initial=0.0) + floor))


def same(found: np.ndarray, expected: np.ndarray) -> bool:
    """Whether two ways to compute the same agree to rounding; NaN agrees with NaN, infinity with infinity."""
    if found.shape != expected.shape:
        return False
    finite = np.isfinite(expected)
    if not np.array_equal(found[~finite], expected[~finite], equal_nan=True):
        return False
    return near(found[finite], expected[finite], SAME_LIMIT, SAME_LIMIT)


def deviation(found: np.ndarray, expected: np.ndarray) -> str:
    """The largest difference, and its size against what was expected, for messages."""
    if found.shape != expected.shape:
        return f"in shape, {found.shape} and {expected.shape},"
    difference, scale = np.abs(found - expected).max(), np.abs(expected).max()
    return f"by {difference:.2g}" + (f", {difference / scale:.2g} of the largest entry" if scale > 0 else "")


def gradient_fault(
    name: str, dims: tuple[str, ...], found: np.ndarray, expected: np.ndarray, floor: float
) -> Failure | None:
    """What is wrong with a gradient, given the difference quotient `expected`; None if nothing is.

    Args:
        name: of the parameter.
        dims: names of its axes.
        found: the gradient the architecture returned.
        expected: the difference quotient.
        floor: what rounding leaves of an entry of the quotient.
    """
    subject = f"gradient of {name}"
    if not np.isfinite(found).all():
        return Failure(Fault.NOT_FINITE, subject, "has entries that are infinite or NaN")
    if not np.isfinite(expected).all():
        return Failure(Fault.NOT_FINITE, f"loss around {name}", "is infinite or NaN")

    def fits(candidate: np.ndarray) -> bool:
        return near(candidate, expected, GRADIENT_LIMIT, floor)

    if fits(found):
        return None
    if fits(-found):
        return Failure(Fault.WRONG_SIGN, subject, "is minus the difference quotient")
    for order in _other_orders(found.ndim):
        if fits(found.transpose(order)):
            moved = [dims[axis] for axis in range(found.ndim) if order[axis] != axis]
            detail = f"is the difference quotient with the axes {' and '.join(moved)} swapped"
            return Failure(Fault.SWAPPED_AXES, subject, detail)
    if not np.any(found):
        return Failure(Fault.MISSING_TERM, subject, "is zero, and the difference quotient is not")
    factor = float(np.vdot(found, expected) / np.vdot(expected, expected))
    if abs(factor) > GRADIENT_LIMIT and fits(found / factor):
        return Failure(Fault.WRONG_FACTOR, subject, f"is {factor:.8g} times the difference quotient")
    detail = f"differs from the difference quotient {deviation(found, expected)}"
    return Failure(Fault.MISSING_TERM, subject, f"{detail}: a term is missing, or wrong")


def _other_orders(n_axes: int) -> Iterator[tuple[int, ...]]:
    return (order for order in permutations(range(n_axes)) if order != tuple(range(n_axes)))


def replica_fault(subject: str, found: np.ndarray, alone: np.ndarray) -> Failure | None:
    """What is wrong with a result `(R, ...)`, given that of every replica by itself; None if nothing is."""
    n_replicas = len(alone)
    if found.ndim == 0 or len(found) != n_replicas:
        detail = f"has shape {found.shape} for {n_replicas} replicas"
        return Failure(Fault.LOST_REPLICA, subject, detail)
    if found.shape != alone.shape:
        return Failure(Fault.SHAPE, subject, f"has shape {found.shape}, expected {alone.shape}")
    for replica in range(n_replicas):
        if same(found[replica], alone[replica]):
            continue
        others = [s for s in range(n_replicas) if same(found[replica], alone[s])]
        if others:
            detail = f"of replica {replica} is that of replica {others[0]}"
            return Failure(Fault.LOST_REPLICA, subject, detail)
        if not np.any(found[replica]):
            return Failure(Fault.LOST_REPLICA, subject, f"of replica {replica} is zero")
        detail = f"of replica {replica} depends on the replicas beside it"
        if same(found[replica], alone.mean(axis=0)) or same(found[replica], alone.sum(axis=0)):
            detail = f"of replica {replica} is taken over all replicas"
        return Failure(Fault.MIXED_REPLICAS, subject, f"{detail}: alone it differs")
    return None
