"""Runs of the same simulation that are there already, finished or not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

import netCDF4

from attndyn import registry, runs
from attndyn.errors import AttndynError
from attndyn.provenance import code_sha256
from attndyn.simulation import Simulation
from attndyn.spec import Spec


def earlier_runs(spec: Spec, out: Path, backend: str = "auto") -> list[tuple[Path, str]]:
    """Runs in `out` of the same simulation by the same code, each with its state, the oldest first.

    The same simulation: equal specs but for what `Spec.simulation_sha256` leaves out, the same code in the
    engine and in the spec's plugins, the same texts, and the backend that is asked for, if one is. A run that
    another process writes at the moment is none, nor is one that is damaged.
    """
    wanted = {
        "simulation_sha256": spec.simulation_sha256,
        "code_sha256": code_sha256(spec.plugin_classes()),
        "plugins": json.dumps(registry.digests(spec.plugins)),
    }
    if backend != "auto":
        wanted["backend"] = backend
    found = []
    # the run's name is no part of what was simulated, but runs are filed by it
    for file in sorted(out.glob("*/*/trajectory.nc"), key=lambda file: (file.parent.name, file)):
        try:
            stamp = file.stat()
            has = _attributes(file, stamp.st_mtime_ns, stamp.st_size)
            if {name: has.get(name) for name in wanted} == wanted and _same_texts(spec, has):
                found.append((file.parent, str(runs.open_run(file.parent).status["state"])))
        except (OSError, RuntimeError, ValueError, AttndynError):  # damaged, or open for writing elsewhere
            continue
    return found


@lru_cache(maxsize=10_000)
def _attributes(file: Path, mtime_ns: int, size: int) -> Mapping[str, str]:
    """The attributes of a trajectory as it was at that time."""
    with netCDF4.Dataset(str(file)) as root:
        return {name: str(root.getncattr(name)) for name in root.ncattrs()}


def _same_texts(spec: Spec, attributes: Mapping[str, str]) -> bool:
    """Whether the files that the run read hold what they held then; to know that, they are read."""
    began_with = json.loads(attributes.get("texts", "{}"))
    return not began_with or dict(Simulation(spec, "numpy").data.sha256) == began_with
