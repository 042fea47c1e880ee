"""The stage of a run while it is going on, from the records as they come."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from attndyn.analysis.series import Array
from attndyn.analysis.stages import Signals, StageOptions, frobenius_norm, rank_one_share, separation
from attndyn.analysis.timeline import current_stage

#: records kept of each kind
MOST = 512


class StageMonitor:
    """Keeps the few numbers of each record that `current_stage` needs, for one replica and one head.

    A record costs a few singular value decompositions once, and asking for the stage costs none. However long
    the run, at most `MOST` records are kept: beyond that every second one is forgotten.
    """

    def __init__(self, pi: NDArray[np.floating], options: StageOptions | None = None):
        """`pi` are the stationary probabilities, shape (token,)."""
        self.options = options or StageOptions()
        self.order = np.argsort(-np.asarray(pi, float), kind="stable")
        self.pi = np.asarray(pi, float)[self.order]
        self.ranks = min(len(self.pi), self.options.tokens) - 1
        self._parameters: list[tuple[float, float, float, float, float, Array]] = []
        self._attention: list[tuple[float, Array]] = []

    def add_parameters(
        self,
        step: int,
        W_0: NDArray[np.floating],
        W_1: NDArray[np.floating],
        W_Q: NDArray[np.floating],
        W_K: NDArray[np.floating],
    ) -> None:
        """A record of W_0 (token, model), W_1 (model, next_token), W_Q and W_K (model, d_head)."""
        shares = [rank_one_share(np.asarray(weight, float)) for weight in (W_0, W_1, W_Q, W_K)]
        apart = separation(np.asarray(W_0, float)[self.order], self.ranks)
        size = np.sqrt(frobenius_norm(W_0) * frobenius_norm(W_1))
        outer, inner = np.min(shares[:2]), np.min(shares[2:])  # NaN if one is
        record = (float(step), float(outer), float(size), float(inner), float(1 - shares[0]), apart)
        self._parameters.append(record)
        _thin(self._parameters)

    def add_attention(self, step: int, attention: NDArray[np.floating]) -> None:
        """A record of the attention map, (query, key)."""
        self._attention.append((float(step), np.asarray(attention, float)[np.ix_(self.order, self.order)]))
        _thin(self._attention)

    @property
    def stage(self) -> str:
        """The stage reached so far, a few words."""
        if not self._parameters or not self._attention:
            return "condensation"
        steps, outer, size, inner, spread, apart = (
            np.asarray(column) for column in zip(*self._parameters, strict=True)
        )
        attention_steps, attention = (np.asarray(column) for column in zip(*self._attention, strict=True))
        found = Signals(steps, outer, size, inner, spread, apart, attention_steps, attention, self.pi)
        return current_stage(found, self.options)


def _thin(records: list[Any]) -> None:
    """Forget every second record once there are too many, never the last."""
    if len(records) > MOST:
        del records[-2::-2]
