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
        declared = probes["parameters"].declare().variables if "parameters" in probes else {}
        self._able = whole and all(name in declared for name in _WEIGHTS)
        self._latest: dict[str, tuple[int, Mapping[str, Array]]] = {}
        self._monitor = StageMonitor(simulation.data.pi[0])

    def record(self, probe: str, step: int, values: Mapping[str, Array]) -> None:
        """Take note of a record; only the last one of each probe counts when the stage is asked for."""
        self._latest[probe] = (step, values)

    def stage(self) -> str:
        """The stage reached, in a few words; empty where it cannot be told."""
        if not self._able:
            return ""
        latest, self._latest = self._latest, {}
        if "attention" in latest:
            step, values = latest["attention"]
            self._monitor.add_attention(step, self._first(values["attention"]))
        if "parameters" in latest:
            step, values = latest["parameters"]
            self._monitor.add_parameters(step, *(self._first(values[name]) for name in _WEIGHTS))
        return self._monitor.stage

    def _first(self, array: Array) -> np.ndarray:
        """The first replica's matrix; of the first layer and head where there are such axes."""
        first = array[(0,) * (array.ndim - 2)]
        return self._to_host(first)
