"""Runs as directories: making one, opening one, analyzing one.

outputs/<name>/<run id>/   spec.yaml  trajectory.nc  checkpoint.npz  status.json
                           analysis.nc  figures/  report.html
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np
import xarray as xr
from pydantic import ValidationError

from attndyn import __version__, registry
from attndyn.analysis.analyzer import Analyzer
from attndyn.backend import Array
from attndyn.errors import AnalyzersFailed, AttndynError, Problem, RunError, SpecError, UnusableOption
from attndyn.files import whole
from attndyn.interrupt import Interrupt
from attndyn.registry.blame import blame
from attndyn.simulation import Outcome, Simulation, Sink
from attndyn.spec import Spec, load_spec
from attndyn.spec.base import Flaw, Section
from attndyn.spec.checks import alternatives
from attndyn.spec.words import printable, spell
from attndyn.trajectory import TrajectoryWriter, open_trajectory
from attndyn.trajectory.writer import CHECKPOINT, TRAJECTORY, read_checkpoint

SPEC = "spec.yaml"
STATUS = "status.json"
ANALYSIS = "analysis.nc"
STATUS_SECONDS = 5.0


class _Lost(Section):
    """A replica that diverged."""

    replica: int
    seed: int
    step: int
    reason: str | None = None


class _Status(Section):
    """What `status.json` holds."""

    state: Literal["running", "complete", "interrupted", "diverged"]
    step: int
    steps: int
    diverged: list[_Lost]


class Run:
    """A run's directory, finished or not.

    Args:
        directory: the run's directory.

    Raises:
        RunError: it is not one.
    """

    def __init__(self, directory: Path | str):
        self.directory = Path(directory)
        if not (self.directory / SPEC).is_file():
            raise RunError(f"{self.directory}: not a run's directory (it has no {SPEC})")

    @cached_property
    def spec(self) -> Spec:
        """The spec that was run, every default filled in."""
        return load_spec(self.directory / SPEC)

    @property
    def status(self) -> dict[str, Any]:
        """What `status.json` says now: `state`, `step`, `steps`, `diverged`."""
        path = self.directory / STATUS
        try:
            return _Status.model_validate_json(path.read_bytes()).model_dump(exclude_none=True)
        except OSError as error:
            raise RunError(f"{path}: not a readable status ({error.strerror})") from None
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            raise RunError(f"{path}: not a status: {place}: {first['msg']}") from None

    @cached_property
    def trajectory(self) -> xr.DataTree:
        """The labelled trajectory; arrays are read when they are used."""
        return open_trajectory(self.directory / TRAJECTORY)

    @property
    def analysis(self) -> dict[str, xr.Dataset]:
        """Results by analyzer, as far as they were made by this version and of all that was recorded."""
        path = self.directory / ANALYSIS
        if not path.is_file():
            return {}
        stamp = self._stamp
        try:
            with xr.open_datatree(path, engine="netcdf4") as tree:
                if {name: tree.attrs.get(name) for name in stamp} != stamp:
                    return {}
                return {name: node.to_dataset(inherit=False).load() for name, node in tree.children.items()}
        except Exception as error:  # netCDF4 and xarray raise many types for a damaged file
            message = f"{path}: not a readable analysis ({' '.join(str(error).split())})"
            raise RunError(f"{message}; without this file it is made again") from None

    def analyzer(self, name: str) -> Analyzer:
        """The analyzer of that name, with its options from the spec, or its defaults if the spec has none."""
        cls: type[Analyzer] = registry.get("analyzer", name)
        for choice in map(alternatives, cls.requires):
            if not set(choice) & set(self.spec.probes):
                needs = " or ".join(f"'{probe}'" for probe in choice)
                raise RunError(f"analyzer '{name}' needs the probe {needs}, which this run did not record")
        in_spec = [options for options in self.spec.analyzers if options.kind == name]
        try:
            return cls(in_spec[0] if in_spec else cls.Options(kind=name))
        except Exception as error:  # a plugin may raise anything
            raise RunError(f"the analyzer '{name}' cannot be made: {_reason(error, cls)}") from error

    def analyze(self, names: Sequence[str] | None = None) -> dict[str, xr.Dataset]:
        """Run analyzers (those of the spec unless named), and keep their results in `analysis.nc`.

        Raises:
            PluginError: there is no such analyzer.
            RunError: the run lacks a probe that one needs, or its files cannot be read or written.
            AnalyzersFailed: once the results of those that did not fail are kept; what a file cannot hold is
                a failure, too.
        """
        wanted = [options.kind for options in self.spec.analyzers] if names is None else list(names)
        analyzers = {name: self.analyzer(name) for name in wanted}
        results: dict[str, xr.Dataset] = {}
        failed: dict[str, Exception] = {}
        for name, analyzer in analyzers.items():
            try:
                results[name] = self._made_by(analyzer)
            except Exception as error:  # a plugin may raise anything; the others are run all the same
                failed[name] = error
        if results or not failed:
            failed |= self._keep(results)
        if failed:
            reasons = {name: _reason(error, type(analyzers[name])) for name, error in failed.items()}
            raise AnalyzersFailed(reasons) from next(iter(failed.values()))
        return results

    def _made_by(self, analyzer: Analyzer) -> xr.Dataset:
        for choice in map(alternatives, analyzer.requires):
            probe = next(probe for probe in choice if probe in self.spec.probes)
            if not self.trajectory[probe].sizes["step"]:
                raise RunError(f"{self.directory}: nothing of the probe '{probe}' is recorded yet")
        # a replica about to diverge may hold numbers whose squares overflow
        with np.errstate(over="ignore", invalid="ignore"):
            result: Any = analyzer.analyze(self.trajectory)
        if not isinstance(result, xr.Dataset):
            raise RunError(f"it gives a {type(result).__name__} instead of an xarray.Dataset")
        return result

    def _keep(self, results: dict[str, xr.Dataset]) -> dict[str, RunError]:
        """Add results to `analysis.nc`; why those are left out that netCDF cannot hold."""
        path = self.directory / ANALYSIS
        before, refused = self.analysis, {}
        try:
            try:
                self._write(path, before | results)
            except (TypeError, ValueError):  # what a plugin made may be anything: which one is it?
                refused = _unwritable(results)
                self._write(path, before | {n: kept for n, kept in results.items() if n not in refused})
        except (OSError, RuntimeError) as error:  # netCDF4 reports a full disk as a RuntimeError
            raise RunError(f"{path}: cannot be written ({error})") from None
        return refused

    def _write(self, path: Path, results: dict[str, xr.Dataset]) -> None:
        merged = xr.DataTree.from_dict(results)
        merged.attrs = self._stamp
        with whole(path) as fresh:
            merged.to_netcdf(fresh, engine="netcdf4")

    @property
    def _stamp(self) -> dict[str, Any]:
        """What analyses were made by and of: others than these are out of date."""
        plugins = json.dumps(registry.digests(self.spec.plugins))
        return {"attndyn_version": __version__, "plugins": plugins, "step": self.status["step"]}

    def close(self) -> None:
        """Close the trajectory's file."""
        if "trajectory" in self.__dict__:
            self.trajectory.close()
            del self.trajectory


class StatusSink:
    """A sink that keeps `status.json` up to date, every few seconds while the run goes on."""

    def __init__(self, directory: Path):
        self._path = directory / STATUS
        self._next = 0.0

    def start(self, simulation: Simulation) -> None:
        """See `Sink.start`."""
        self.advance(simulation)

    def record(self, probe: str, step: int, values: Mapping[str, Array]) -> None:
        """See `Sink.record`."""

    def advance(self, simulation: Simulation) -> None:
        """See `Sink.advance`."""
        if time.monotonic() >= self._next:
            self._write("running", simulation, simulation.diverged_at, simulation.optimizer.reasons())
            self._next = time.monotonic() + STATUS_SECONDS

    def finish(self, simulation: Simulation, outcome: Outcome) -> None:
        """See `Sink.finish`."""
        self._write(outcome.state, simulation, outcome.diverged_at, outcome.reasons)

    def _write(
        self, state: str, simulation: Simulation, diverged_at: np.ndarray, reasons: Mapping[int, str]
    ) -> None:
        seeds = simulation.replicas.seeds
        diverged = [
            {"replica": replica, "seed": seeds[replica], "step": int(at)}
            | ({"reason": reasons[replica]} if replica in reasons else {})
            for replica, at in enumerate(diverged_at)
            if at >= 0
        ]
        status = {"state": state, "step": simulation.step, "steps": simulation.steps, "diverged": diverged}
        try:
            with whole(self._path) as fresh:
                fresh.write_text(json.dumps(status, indent=2) + "\n", "utf-8")
        except OSError as error:
            raise RunError(f"{self._path}: cannot be written ({error.strerror})") from None


def run(
    spec: Spec | Path | str,
    out: Path | str = "outputs",
    backend: str = "auto",
    resume: Path | str | None = None,
    sinks: Sequence[Sink] = (),
) -> Run:
    """Simulate a spec into a new directory `out/<name>/<run id>`, or go on with one.

    Ctrl-C or SIGTERM stops the run between two steps, or within one that an integrator makes; all that was
    computed is written, and the run can be resumed. What happened is in `Run.status`.

    Args:
        spec: what to run, or the file that says it.
        out: where runs are kept.
        backend: `auto`, `numpy` or `cupy`.
        resume: directory of an interrupted run of the same spec.
        sinks: followers of the run besides the files, e.g. a progress bar.

    Raises:
        SpecError: the file is no valid spec, or something that it names is not on this machine.
        BackendError: the backend cannot be used.
        RunError: the directory cannot be written, or the run to resume does not fit the spec.
    """
    if not isinstance(spec, Spec):
        spec = load_spec(spec)
    if resume is None and (flaws := list(unusable(spec))):
        raise SpecError(Problem(spec.where(f.path), spell(f.path), printable(f.message)) for f in flaws)
    simulation = Simulation(spec, backend)
    directory = (
        _new_directory(spec, Path(out)) if resume is None else _resumed(spec, simulation, Path(resume))
    )
    files = (TrajectoryWriter(directory, resume=resume is not None), StatusSink(directory))
    with Interrupt() as interrupted:
        simulation.run((*files, *sinks), interrupted)
    return Run(directory)


def unusable(spec: Spec) -> Iterator[Flaw]:
    """What the options of the spec's analyzers name and this machine does not have."""
    for index, options in enumerate(spec.analyzers):
        cls: type[Analyzer] = registry.get("analyzer", options.kind)
        try:
            flaws = list(cls(options).check())
        except UnusableOption as error:
            flaws = [Flaw(error.path, error.message)]
        except Exception as error:  # a plugin may raise anything
            flaws = [Flaw((), f"the analyzer '{options.kind}' cannot be checked: {_reason(error, cls)}")]
        yield from (flaw._replace(path=("analyzers", index, *flaw.path)) for flaw in flaws)


def open_run(directory: Path | str) -> Run:
    """The run in a directory.

    Raises:
        RunError: it is not one.
    """
    return Run(directory)


def _unwritable(results: dict[str, xr.Dataset]) -> dict[str, RunError]:
    """Why netCDF cannot hold some results, each tried by itself."""
    refused = {}
    for name, result in results.items():
        try:
            with TemporaryDirectory() as folder:
                result.to_netcdf(Path(folder) / ANALYSIS, engine="netcdf4")
        except (TypeError, ValueError) as error:
            refused[name] = RunError(f"its result cannot be written: {' '.join(str(error).split())}")
    return refused


def _reason(error: Exception, analyzer: type[Analyzer]) -> str:
    """Why an analyzer failed, on one line; where in its code, unless it says so in words."""
    if isinstance(error, AttndynError | UnusableOption):
        return printable(" ".join(str(error).split()))
    return printable(blame(error, analyzer.__module__))


def _new_directory(spec: Spec, out: Path) -> Path:
    """A fresh directory named after the time and the spec's hash."""
    stem = f"{datetime.now():%Y%m%d-%H%M%S}-{spec.sha256[:8]}"
    for attempt in range(1000):
        directory = out / spec.name / (stem if attempt == 0 else f"{stem}-{attempt}")
        try:
            directory.mkdir(parents=True)
            with whole(directory / SPEC) as fresh:
                fresh.write_text(spec.to_yaml(), "utf-8")
        except FileExistsError:
            continue
        except OSError as error:
            raise RunError(f"{directory}: cannot be written ({error.strerror})") from None
        return directory
    raise RunError(f"{out / spec.name}: no free name for a new run")


def _resumed(spec: Spec, simulation: Simulation, directory: Path) -> Path:
    """The directory of a run to go on with; restores the simulation from its checkpoint."""
    earlier = Run(directory)
    if earlier.spec.sha256 != spec.sha256:
        raise RunError(f"{directory}: is a run of another spec; resume it without one, or run this one anew")
    if earlier.status["state"] == "complete":
        raise RunError(f"{directory}: is complete; there is nothing to resume")
    _refuse_changed_plugins(earlier)
    _refuse_changed_texts(earlier, simulation)
    try:
        simulation.restore(read_checkpoint(directory))
    except ValueError as error:
        raise RunError(f"{directory / CHECKPOINT}: not a checkpoint of this run: {error}") from None
    return directory


def _refuse_changed_plugins(run: Run) -> None:
    """One run is the work of one code: that of its plugins' files when it was begun."""
    now = registry.digests(run.spec.plugins)
    if not now:
        return
    began_with = json.loads(run.trajectory.attrs["plugins"]).values()
    run.close()  # it is about to be written to
    changed = [file for file, sha256 in now.items() if sha256 not in began_with]
    if changed:
        raise RunError(f"{run.directory}: was begun before {changed[0]} was changed; run it anew")


def _refuse_changed_texts(run: Run, simulation: Simulation) -> None:
    """One run reads one text: what its files held when it was begun."""
    now = dict(simulation.data.sha256)
    if not now:
        return
    began_with = json.loads(run.trajectory.attrs["texts"])
    run.close()  # it is about to be written to
    changed = [name for name, sha256 in now.items() if began_with.get(name) != sha256]
    if changed:
        raise RunError(f"{run.directory}: was begun before {changed[0]} was changed; run it anew")
