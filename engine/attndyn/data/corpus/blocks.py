"""A long row of small numbers, held in blocks of the smallest type each: a text before it is tokens."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

_BLOCK = 2**20


class Blocks:
    """Numbers, 0 or more, that are appended, counted, and taken out once.

    NumPy counts and indexes in int64: block by block, that takes some megabytes, whatever the text.
    """

    def __init__(self) -> None:
        self._blocks: list[np.ndarray] = []
        self._waiting: list[np.ndarray] = []
        self._n_waiting = self._n = 0

    def __len__(self) -> int:
        return self._n

    def append(self, numbers: np.ndarray) -> None:
        """Put numbers at the end."""
        self._waiting.append(numbers)
        self._n_waiting += len(numbers)
        self._n += len(numbers)
        if self._n_waiting >= _BLOCK:
            self._settle()

    def count(self, stop: int) -> np.ndarray:
        """How often each number occurs among the first `stop`, `(largest + 1,)`."""
        self._settle()
        found = np.zeros(max((int(block.max()) for block in self._blocks), default=-1) + 1, np.int64)
        for block in self._blocks:
            some = np.bincount(block[: max(stop, 0)], minlength=1)
            found[: len(some)] += some
            stop -= len(block)
        return found

    def taken(self) -> Iterator[np.ndarray]:
        """The numbers in blocks, each given up as the next one is asked for; none is left."""
        self._settle()
        blocks, self._blocks, self._n = self._blocks, [], 0
        blocks.reverse()
        while blocks:
            yield blocks.pop()

    def through(self, table: np.ndarray) -> np.ndarray:
        """The entries of a table at the numbers, as one array; no number is left."""
        found = np.empty(self._n, table.dtype)
        begin = 0
        for block in self.taken():
            found[begin : begin + len(block)] = table[block]
            begin += len(block)
        return found

    def _settle(self) -> None:
        if self._n_waiting:
            block = np.concatenate(self._waiting)
            self._blocks.append(block.astype(np.min_scalar_type(int(block.max()))))
        self._waiting, self._n_waiting = [], 0
