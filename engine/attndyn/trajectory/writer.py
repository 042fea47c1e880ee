"""The streaming writer: records are kept until they are worth a write, then written and flushed at once.

Between writes the file on disk is whole: a process that is killed leaves all that was flushed readable.
Memory holds at most `BUFFER_BYTES` of records, however long the run.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import netCDF4
import numpy as np

from attndyn.backend import Array
from attndyn.errors import RunError
from attndyn.files import whole
from attndyn.simulation import Outcome, Simulation
from attndyn.trajectory import schema

BUFFER_BYTES = 2**24
FLUSH_SECONDS = 5.0
TRAJECTORY = "trajectory.nc"
CHECKPOINT = "checkpoint.npz"


class TrajectoryWriter:
    """A sink that writes `trajectory.nc` and `checkpoint.npz` into a directory.

    Args:
        directory: where to write; must exist.
        resume: go on with the files that are there: the simulation is restored from the checkpoint.
        flush_seconds: longest time that records are kept in memory.
    """

    def __init__(self, directory: Path, resume: bool = False, flush_seconds: float = FLUSH_SECONDS):
        self._directory = directory
        self._resume = resume
        self._flush_seconds = flush_seconds
        self._pending: dict[str, list[tuple[int, Mapping[str, Array]]]] = {}
        self._bytes = 0

    def start(self, simulation: Simulation) -> None:
        """See `Sink.start`.

        Raises:
            RunError: the file cannot be written, or the one to go on with is not of this spec.
        """
        self._simulation = simulation
        self._flushed = time.monotonic()
        if self._resume:
            self._file, recorded = _reopened(self._directory / TRAJECTORY, simulation)
            # records beyond the checkpoint are made again, the same ones, in the same places
            self._written = {
                name: int(np.searchsorted(steps, simulation.step)) for name, steps in recorded.items()
            }
            return
        self._written = dict.fromkeys(simulation.probes, 0)
        try:
            self._file = schema.create(str(self._directory / TRAJECTORY), simulation)
            self._checkpoint()
        except (OSError, RuntimeError) as error:
            raise RunError(f"{self._directory}: cannot be written ({error})") from None

    def record(self, probe: str, step: int, values: Mapping[str, Array]) -> None:
        """See `Sink.record`."""
        self._pending.setdefault(probe, []).append((step, values))
        self._bytes += sum(array.nbytes for array in values.values())

    def advance(self, simulation: Simulation) -> None:
        """See `Sink.advance`."""
        if self._bytes >= BUFFER_BYTES or time.monotonic() - self._flushed >= self._flush_seconds:
            self.flush()

    def finish(self, simulation: Simulation, outcome: Outcome) -> None:
        """See `Sink.finish`."""
        self.flush()
        self._file.close()

    def flush(self) -> None:
        """Write what is pending, then the checkpoint that a resumed run goes on from.

        Raises:
            RunError: the files cannot be written.
        """
        try:
            for probe, records in self._pending.items():
                self._write(probe, records)
            self._file.sync()
            self._checkpoint()
        except (OSError, RuntimeError) as error:  # netCDF4 reports a full disk as a RuntimeError
            message = f"{self._directory}: cannot be written ({error}); what was written before is kept"
            raise RunError(message) from None
        self._pending.clear()
        self._bytes = 0
        self._flushed = time.monotonic()

    def _write(self, probe: str, records: list[tuple[int, Mapping[str, Array]]]) -> None:
        group, to_host = self._file[probe], self._simulation.backend.to_host
        steps = np.array([step for step, _ in records])
        place = slice(self._written[probe], self._written[probe] + len(records))
        group["step"][place] = steps
        for name in records[0][1]:
            group[name][:, place] = np.stack([to_host(values[name]) for _, values in records], axis=1)
        times = schema.times(self._simulation, steps)
        if times is not None:
            group["time"][..., place] = times
        self._written[probe] = place.stop

    def _checkpoint(self) -> None:
        with whole(self._directory / CHECKPOINT) as fresh, fresh.open("wb") as file:
            np.savez(file, **self._simulation.checkpoint())  # type: ignore[arg-type]


def _reopened(path: Path, simulation: Simulation) -> tuple[netCDF4.Dataset, dict[str, np.ndarray]]:
    """The file of an interrupted run, to be written on, and the steps that each probe recorded.

    Raises:
        RunError: missing, damaged, of another spec, or being written by another process.
    """
    if not path.is_file():  # netCDF4 would make one
        raise RunError(f"{path}: no such trajectory")
    try:
        file = netCDF4.Dataset(str(path), "r+")
        spec_sha256 = file.getncattr("spec_sha256")
        recorded = {name: file[name]["step"][:] for name in simulation.probes}
    except Exception as error:  # netCDF4 raises many types for a damaged file
        said = " ".join(str(error).split())
        raise RunError(f"{path}: damaged, or open in another process ({said})") from None
    if spec_sha256 != simulation.spec.sha256:
        file.close()
        raise RunError(f"{path}: is a trajectory of another spec")
    return file, recorded


def read_checkpoint(directory: Path) -> dict[str, np.ndarray]:
    """The checkpoint of a run.

    Raises:
        RunError: there is none, or it cannot be read.
    """
    path = directory / CHECKPOINT
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return dict(arrays)
    except FileNotFoundError:
        raise RunError(f"{path}: no checkpoint, so there is nothing to resume") from None
    except Exception as error:  # a damaged zip file raises many types
        raise RunError(f"{path}: not a readable checkpoint ({error})") from None
