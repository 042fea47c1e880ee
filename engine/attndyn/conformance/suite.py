"""The claims of specs, judged: what is missing is run, what is there already is used.

A finished run counts if it simulated the very same thing (`Spec.simulation_sha256`) with the same numerical
code and plugins; an unfinished one is resumed. A suite that was killed therefore goes on where it stopped,
and ends with the same findings.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import xarray as xr

from attndyn import registry, runs
from attndyn.conformance.expectation import Evidence, Expectation
from attndyn.conformance.faults import blame
from attndyn.conformance.measured import Measured
from attndyn.conformance.rehearsal import rehearse
from attndyn.conformance.verdicts import Finding, finding, no_verdict
from attndyn.errors import AttndynError
from attndyn.provenance import code_sha256
from attndyn.simulation import Sink
from attndyn.spec import Spec, load_spec
from attndyn.spec.base import ExpectationOptions
from attndyn.spec.selection import Reference, references

Load = Callable[[Reference], Spec]


class SuiteInterrupted(AttndynError):
    """A run was interrupted; those that are done are kept, and so is what it computed."""

    exit_code = 130


@dataclass(frozen=True)
class Judged:
    """A spec and what was found of its expectations.

    Attributes:
        path: the spec's file.
        spec: as loaded.
        findings: one for each expectation.
        runs: directories of the run and of those that it was compared with.
        reused: whether all of them were there already.
    """

    path: Path
    spec: Spec
    findings: tuple[Finding, ...]
    runs: tuple[Path, ...]
    reused: bool


class Suite:
    """Judges specs.

    Args:
        out: where runs are kept.
        backend: of new runs.
        sinks: makes followers of a new run, e.g. a progress bar.
    """

    def __init__(
        self,
        out: Path,
        backend: str = "auto",
        sinks: Callable[[], Sequence[Sink]] = lambda: (),
    ):
        self._out = out
        self._backend = backend
        self._sinks = sinks
        self._made: list[Path] = []
        self._used: list[Path] = []

    def judge(self, path: Path, overrides: Sequence[str] = (), plugins: Sequence[Path] = ()) -> Judged:
        """Run a spec, unless that was done, and judge its expectations.

        Raises:
            SpecError: it is no valid spec, or names what its run will not have.
            SuiteInterrupted: the user wants to stop.
        """
        spec = load_spec(path, overrides, plugins, check=rehearse)
        for options in spec.expect:
            for _, reference in references(
                options
            ):  # what is wrong with them is found before anything is run
                referred(path, reference, overrides, plugins)
        self._made, self._used = [], []
        open_runs: dict[str, Measured] = {}

        def measured(of: Spec) -> Measured:
            # an analyzer's options may differ where the simulation does not
            key = of.model_copy(update={"expect": [], "description": "", "name": "", "quick": False}).sha256
            if key not in open_runs:
                open_runs[key] = Measured(of, self._trajectory(of))
            return open_runs[key]

        def other(reference: Reference) -> Measured:
            return measured(referred(path, reference, overrides, plugins))

        try:
            own = measured(spec)
            findings = tuple(_judged(options, Evidence(own, other)) for options in spec.expect)
        finally:
            for each in open_runs.values():
                each.trajectory.close()
        return Judged(path, spec, findings, tuple(dict.fromkeys(self._used)), not self._made)

    def _trajectory(self, spec: Spec) -> xr.DataTree:
        """The trajectory of a finished run of the spec, made if there is none."""
        found = dict(_earlier(spec, self._out))
        done = [run for run, state in found.items() if state in ("complete", "diverged")]
        resume = None if done else next(iter(found), None)
        if done:
            run = runs.open_run(done[-1])
        else:
            before = spec if resume is None else runs.open_run(resume).spec
            run = runs.run(before, self._out, self._backend, resume, self._sinks())
            self._made.append(run.directory)
        if run.status["state"] == "interrupted":
            raise SuiteInterrupted(f"interrupted; what was computed is kept in {run.directory}")
        self._used.append(run.directory)
        return run.trajectory


def referred(path: Path, reference: Reference, overrides: Sequence[str], plugins: Sequence[Path]) -> Spec:
    """The spec that a reference in the spec at `path` means."""
    file = path if reference.spec is None else path.parent / reference.spec
    before = overrides if reference.spec is None else ()
    return load_spec(file, [*before, *reference.overrides], plugins)


def _judged(options: ExpectationOptions, evidence: Evidence) -> Finding:
    expectation: Expectation = registry.get("expectation", options.kind)(options)
    try:
        return finding(options, expectation.judge(evidence))
    except SuiteInterrupted:
        raise
    except AttndynError as error:
        return no_verdict(options, " ".join(str(error).split()))
    except Exception as error:  # a plugin may raise anything; the other claims are judged all the same
        source = inspect.getsourcefile(type(expectation)) or ""
        return no_verdict(options, f"{type(error).__name__} is raised: {blame(error, source)}")


def _earlier(spec: Spec, out: Path) -> Iterator[tuple[Path, str]]:
    """Runs of the same simulation by the same code, oldest first, each with its state."""
    # the run's name is no part of what was simulated, but runs are filed by it
    for file in sorted(out.glob("*/*/trajectory.nc")):
        wanted = _identity(spec)
        try:
            with xr.open_dataset(file, engine="netcdf4") as root:
                if {name: root.attrs.get(name) for name in wanted} != wanted:
                    continue
            yield file.parent, runs.open_run(file.parent).status["state"]
        except (OSError, AttndynError, ValueError):  # damaged, or being written by someone else
            continue


def _identity(spec: Spec) -> Mapping[str, str]:
    plugins = registry.digests(spec.plugins)
    return {
        "simulation_sha256": spec.simulation_sha256,
        "code_sha256": code_sha256(),
        "plugins": json.dumps(plugins),
    }
