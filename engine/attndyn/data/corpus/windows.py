"""Which windows of a text are contexts: drawn at random, in order, or in an order shuffled each epoch."""

from __future__ import annotations

from typing import Literal

import numpy as np

from attndyn.data import philox

Order = Literal["random", "shuffled", "sequential"]


class Windows:
    """Windows of `n_ctx` tokens and the one after them, inside one document each.

    Args:
        ends: where documents end, exclusive, increasing, the last one at the end of the text.
        n_ctx: tokens in a context.
        overlapping: a window may begin anywhere; else each begins where the one before it ends.

    Attributes:
        count: how many there are.
    """

    def __init__(self, ends: np.ndarray, n_ctx: int, overlapping: bool):
        begins = np.concatenate([[0], ends[:-1]])
        lengths = ends - begins
        self._step = 1 if overlapping else n_ctx
        in_document = np.maximum(lengths - n_ctx + self._step - 1, 0) // self._step
        self._begins, self._after = begins, np.cumsum(in_document)
        self.count = int(self._after[-1])

    def starts(self, index: np.ndarray) -> np.ndarray:
        """First tokens of windows, given their numbers."""
        document = np.searchsorted(self._after, index, side="right")
        before = np.where(document > 0, self._after[document - 1], 0)
        return self._begins[document] + (index - before) * self._step


class Draws:
    """The windows of each step for a seed; a pure function of seed and step.

    Args:
        windows: what there is.
        order: how they are taken.
        batch: windows in a step.
    """

    def __init__(self, windows: Windows, order: Order, batch: int):
        self._windows = windows
        self._order = order
        self._batch = batch
        self._orders: dict[int, tuple[int, np.ndarray]] = {}

    def starts(self, seed: int, step: int) -> np.ndarray:
        """First tokens `(batch,)` of a step's windows."""
        return self._windows.starts(self._index(seed, step))

    def _index(self, seed: int, step: int) -> np.ndarray:
        count = self._windows.count
        if self._order == "random":
            return philox.below(seed, philox.Purpose.CONTEXTS, step, self._batch, count)
        epoch, place = divmod(step * self._batch, count)
        found: list[np.ndarray] = []
        left = self._batch
        while left:  # a batch may end in the next epoch, or go through several
            taken = self._epoch(seed, epoch)[place : place + left]
            found.append(taken)
            left -= len(taken)
            epoch, place = epoch + 1, 0
        return np.concatenate(found)

    def _epoch(self, seed: int, epoch: int) -> np.ndarray:
        """The windows in the order of an epoch, kept until another one's is asked for."""
        if self._order == "sequential":
            seed = epoch = 0  # the same in every one
        kept, order = self._orders.get(seed, (-1, None))
        if kept != epoch or order is None:
            count = self._windows.count
            shuffled = self._order == "shuffled"
            order = philox.permutation(seed, epoch % 2**63, count) if shuffled else np.arange(count)
            self._orders[seed] = epoch, order
        return order
