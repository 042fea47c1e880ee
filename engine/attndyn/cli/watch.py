"""The stage of the first replica while a run is going on, from the records as they come."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from attndyn.analysis.monitor import StageMonitor
from attndyn.backend import Array
from attndyn.simulation import Simulation

_WEIGHTS = ("W_0", "W_1", "W_Q", "W_K")


class StageWatch:
    """Feeds a `StageMonitor` with the first replica's first layer and head, where the probes allow it."""

    def __init__(self, simulation: Simulation):
        self._to_host = simulation.backend.to_host
        probes = simulation.probes
        n_tokens = len(simulation.data.tokens)
        # a map in which rare tokens are lumped together has other axes than the embedding
        whole = (
            "attention" in probes
            and probes["attention"].declare().variables["attention"].shape[-1] == n_tokens
        )
        self._able = whole and "parameters" in probes
        self._monitor = StageMonitor(simulation.data.pi[0])

    def record(self, probe: str, step: int, values: Mapping[str, Array]) -> None:
        """Take note of a record."""
        if not self._able:
            return
        if probe == "attention":
            self._monitor.add_attention(step, self._first(values["attention"]))
        elif probe == "parameters" and all(name in values for name in _WEIGHTS):
            w_0, w_1, w_q, w_k = (self._first(values[name]) for name in _WEIGHTS)
            self._monitor.add_parameters(step, w_0, w_1, w_q, w_k)

    def stage(self) -> str:
        """The stage reached, in a few words; empty where it cannot be told."""
        return self._monitor.stage if self._able else ""

    def _first(self, array: Array) -> np.ndarray:
        """The first replica's matrix; of the first layer and head where there are such axes."""
        first = array[(0,) * (array.ndim - 2)]
        return self._to_host(first)
