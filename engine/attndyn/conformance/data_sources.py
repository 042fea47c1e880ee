"""The checks of a data source: whole and repeatable batches in every representation it has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from attndyn.conformance.bench import arrays
from attndyn.conformance.diagnosis import replica_fault, same
from attndyn.conformance.faults import Check, Failure, Fault
from attndyn.data.contexts import REPRESENTATIONS, Contexts
from attndyn.data.source import DataSource
from attndyn.spec.base import DataOptions

SEEDS = (3, 4, 8)
FIXED: dict[str, Any] = {"n_ctx": 5, "batch": 7, "size": None, "tokens": None}


def fixed(cls: Any) -> dict[str, Any]:
    """Options that are the same in all sets: small sizes, all different."""
    return {name: value for name, value in FIXED.items() if name in cls.Options.model_fields}


@dataclass(frozen=True)
class Source:
    """A data source with one option set."""

    cls: Any
    options: DataOptions

    def build(self, positions: str, seeds: tuple[int, ...] = SEEDS) -> DataSource:
        """A fresh instance for replicas of the seeds."""
        found: DataSource = self.cls([self.options] * len(seeds), seeds, positions)
        return found

    def forms(self) -> Iterator[tuple[str, str]]:
        """Every place of the loss and representation."""
        yield from product(("last", "all"), self.build("last").representations)


def declaration(case: Source) -> Iterator[Failure]:
    """Tokens, stationary distribution, transition matrix and representations are what they must be."""
    source = case.build("last")
    d_vocab = len(source.tokens)
    if d_vocab < 2 or len(set(source.tokens)) < d_vocab or not all(isinstance(t, str) for t in source.tokens):
        yield Failure(Fault.DECLARATION, "tokens", "must be at least two strings, all different")
    claimed = source.representations
    if not claimed or not set(claimed) <= set(REPRESENTATIONS):
        detail = f"are {claimed}; allowed: {', '.join(REPRESENTATIONS)}"
        yield Failure(Fault.DECLARATION, "representations", detail)
    if source.transition is None and source.pairs is None:
        yield Failure(Fault.DECLARATION, "transition", "is missing, and so are the counts of pairs")
    transition = () if source.transition is None else (("transition", source.transition),)
    for name, array in (("pi", source.pi), *transition):
        shape = (len(SEEDS),) + (d_vocab,) * (1 if name == "pi" else 2)
        if np.shape(array) != shape:
            lost = np.shape(array)[:1] != shape[:1]
            detail = f"has shape {np.shape(array)}, expected {shape}"
            yield Failure(Fault.LOST_REPLICA if lost else Fault.SHAPE, name, detail)
            return
        if np.min(array) < 0 or not np.allclose(np.sum(array, axis=-1), 1, atol=1e-9):
            columns = name == "transition" and np.allclose(np.sum(array, axis=-2), 1, atol=1e-9)
            detail = "has columns that sum to 1, not rows" if columns else "has rows that do not sum to 1"
            yield Failure(Fault.SWAPPED_AXES if columns else Fault.NOT_NORMALISED, name, detail)
            return
    for _, array in transition:
        if np.allclose(np.einsum("rt,rtn->rn", source.pi, array), source.pi, atol=1e-6):
            continue
        yield Failure(Fault.DECLARATION, "pi", "is not stationary under transition")


def shapes(case: Source) -> Iterator[Failure]:
    """Arrays of every batch have the axes of `Contexts`, hold tokens, and weights that sum to 1."""
    for positions, representation in case.forms():
        source = case.build(positions)
        contexts = source.batch(0, representation)
        where = f"({representation}, loss at {positions})"
        if contexts.representation != representation:
            detail = f"say they are {contexts.representation}, not {representation}"
            yield Failure(Fault.DECLARATION, "contexts", detail)
        axes = Axes(case, source, contexts, positions)
        for name, array in arrays(contexts).items():
            if not isinstance(array, np.ndarray):
                yield Failure(Fault.HOST_LEAK, name, f"is a {type(array).__name__}; a host array is needed")
            elif not axes.fits(name, array.shape):
                lost = array.ndim == 0 or len(array) != len(SEEDS)
                detail = f"has shape {array.shape} {where}, expected {axes.spelled(name)}"
                yield Failure(Fault.LOST_REPLICA if lost else Fault.SHAPE, name, detail)
            else:
                yield from _values(name, array, axes)


@dataclass(frozen=True)
class Axes:
    """The sizes that the arrays of contexts may have: R replica, Q query, B context, K key, V next token."""

    case: Source
    source: DataSource
    contexts: Contexts
    positions: str

    @property
    def d_vocab(self) -> int:
        """Number of tokens."""
        return len(self.source.tokens)

    @property
    def sizes(self) -> dict[str, int]:
        """Size by letter."""
        options = self.case.options
        limit = self.contexts.representation == "population"
        n_queries = options.n_ctx if self.positions == "all" else 1
        return {
            "R": len(SEEDS),
            "V": self.d_vocab,
            "Q": self.d_vocab if self.contexts.query is None else n_queries,
            "K": self.d_vocab if self.contexts.keys is None else options.n_ctx,
            "B": 1 if limit else options.batch,
        }

    def fits(self, name: str, shape: tuple[int, ...]) -> bool:
        """Whether an array of contexts may have this shape; some axes may have length 1."""
        return any(
            len(shape) == len(letters)
            and all(
                n == self.sizes[letter] or (n == 1 and letter in short)
                for letter, n in zip(letters, shape, strict=True)
            )
            for letters, short in _AXES[name]
        )

    def spelled(self, name: str) -> str:
        """The shapes that are allowed, for messages."""
        return " or ".join(f"({', '.join(letters)})" for letters, _ in _AXES[name]) + f" with {self.sizes}"


#: axes of each array, and those that may have length 1 where all entries along them are equal
_AXES = {
    "query": [("RQB", "")],
    "keys": [("RKB", "")],
    "log_weights": [("RKB", "KB")],
    "targets": [("RQB", "B"), ("RVQB", "B")],
    "sample_weights": [("RQB", "QB")],
}


def _values(name: str, array: np.ndarray, axes: Axes) -> Iterator[Failure]:
    """Tokens are tokens, distributions and weights sum to 1."""
    if name in ("query", "keys") or (name == "targets" and array.ndim == 3):
        if array.dtype.kind not in "iu" or array.min() < 0 or array.max() >= axes.d_vocab:
            detail = f"has other than whole numbers from 0 to {axes.d_vocab - 1}"
            yield Failure(Fault.DECLARATION, name, detail)
    elif name == "targets":
        # a query of no weight has no target
        sums = array.sum(axis=1)
        sums, weights = np.broadcast_arrays(sums, axes.contexts.sample_weights)
        if not np.allclose(sums[weights > 0], 1, atol=1e-9):
            yield Failure(Fault.NOT_NORMALISED, name, "has distributions that do not sum to 1")
    elif name == "sample_weights":
        shape = (len(SEEDS), axes.sizes["Q"], axes.sizes["B"])
        totals = np.broadcast_to(array, shape).sum(axis=(1, 2))
        if not np.allclose(totals, 1, atol=1e-9):
            yield Failure(Fault.NOT_NORMALISED, name, f"sums to {totals[0]:.6g} over a replica, not to 1")
    elif np.isnan(array).any() or not np.isfinite(array.max(axis=1)).all():
        yield Failure(Fault.NOT_FINITE, name, "leaves a context without keys, or is NaN")


def repeatable(case: Source) -> Iterator[Failure]:
    """A step's batch is the same whenever it is asked for, and not that of another step."""
    for positions, representation in case.forms():
        source, other = case.build(positions), case.build(positions)
        first = source.batch(2, representation)
        source.batch(5, representation)
        for name, array in arrays(first).items():
            if not np.array_equal(arrays(other.batch(2, representation))[name], array):
                yield Failure(Fault.RANDOM, name, "differs between two sources of the same options and seeds")
            elif not np.array_equal(arrays(source.batch(2, representation))[name], array):
                yield Failure(Fault.HIDDEN_STATE, name, "of a step depends on the steps asked for before")


def replicas(case: Source) -> Iterator[Failure]:
    """A replica's batch depends on its seed and options, not on those beside it."""
    for positions, representation in case.forms():
        together = case.build(positions).batch(1, representation)
        alone = [case.build(positions, (seed,)).batch(1, representation) for seed in SEEDS]
        for name, array in arrays(together).items():
            parts = [arrays(one)[name] for one in alone]
            if any(part.shape[:1] != (1,) for part in parts):
                yield Failure(Fault.LOST_REPLICA, name, f"has shape {parts[0].shape} for one replica")
                continue
            fault = replica_fault(name, array, np.concatenate(parts))
            if fault:
                yield fault


def counted(case: Source) -> Iterator[Failure]:
    """Counts are those of the positions: the same contexts, the same queries."""
    for positions in ("last", "all"):
        source = case.build(positions)
        if not {"counts", "positions"} <= set(source.representations):
            continue
        by_counts, by_positions = (source.batch(0, r) for r in ("counts", "positions"))
        if by_positions.keys is None or by_positions.query is None:
            continue  # another check says so
        occurs = by_positions.keys[:, None] == np.arange(len(source.tokens))[:, None, None]
        counts = (occurs * np.exp(by_positions.log_weights)[:, None]).sum(axis=2)
        if not same(np.exp(by_counts.log_weights) + 0 * counts, counts):
            yield Failure(Fault.NOT_EXACT, "counts", "are not those of the positions of the same step")
        n_queries = 1 if positions == "last" else by_positions.keys.shape[1]
        if not np.array_equal(by_positions.query, by_positions.keys[:, -n_queries:]):
            yield Failure(Fault.NOT_EXACT, "query", "is not the last of the keys")


CHECKS: dict[str, Check] = {
    "declarations are true": declaration,
    "shapes and weights": shapes,
    "repeatable": repeatable,
    "replicas are independent": replicas,
    "counts are those of positions": counted,
}
