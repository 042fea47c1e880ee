"""The claims of specs, judged: what is missing is run, what is there already is used.

A finished run counts if it simulated the very same thing by the same code (`attndyn.conformance.earlier`); an
unfinished one is resumed. A suite that was killed therefore goes on where it stopped, and ends with the same
findings.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import xarray as xr

from attndyn import registry, runs
from attndyn.conformance.earlier import earlier_runs
from attndyn.conformance.expectation import Evidence, Expectation
from attndyn.conformance.faults import blame
from attndyn.conformance.measured import Measured
from attndyn.conformance.rehearsal import check_references, referred, rehearse
from attndyn.conformance.verdicts import Finding, finding, no_verdict
from attndyn.errors import AttndynError
from attndyn.simulation import Sink
from attndyn.spec import Spec, load_spec
from attndyn.spec.base import ExpectationOptions
from attndyn.spec.selection import Reference


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
        backend: of new runs; one that is named is also that of the runs that are used again.
        sinks: makes followers of a new run, e.g. a progress bar.
        doing: what is entered while something is done that may take long and is no run, given its name.
        say: is told, in a line, what the user may not expect.
    """

    def __init__(
        self,
        out: Path,
        backend: str = "auto",
        sinks: Callable[[], Sequence[Sink]] = lambda: (),
        doing: Callable[[str], AbstractContextManager[None]] = lambda what: nullcontext(),
        say: Callable[[str], None] = lambda line: None,
    ):
        self._out = out
        self._backend = backend
        self._sinks = sinks
        self._doing = doing
        self._say = say
        self._made: list[Path] = []
        self._used: list[Path] = []

    def judge(self, path: Path, overrides: Sequence[str] = (), plugins: Sequence[Path] = ()) -> Judged:
        """Run a spec, unless that was done, and judge its expectations.

        Raises:
            SpecError: it is no valid spec, or names what its run will not have.
            SuiteInterrupted: the user wants to stop.
        """
        with self._doing(f"{path.stem}: checking what its claims name"):
            spec = load_spec(path, overrides, plugins, check=rehearse)
            check_references(spec, path, overrides, plugins)
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
            with self._doing(f"{spec.name}: judging"):
                findings = tuple(_judged(options, Evidence(own, other)) for options in spec.expect)
        finally:
            for each in open_runs.values():
                each.trajectory.close()
        return Judged(path, spec, findings, tuple(dict.fromkeys(self._used)), not self._made)

    def _trajectory(self, spec: Spec) -> xr.DataTree:
        """The trajectory of a finished run of the spec, made if there is none."""
        found = earlier_runs(spec, self._out, self._backend)
        done = [directory for directory, state in found if state in ("complete", "diverged")]
        unfinished = [directory for directory, _ in found if directory not in done]
        run = runs.open_run(done[-1]) if done else self._computed(spec, unfinished)
        if run.status["state"] == "interrupted":
            raise SuiteInterrupted(f"interrupted; what was computed is kept in {run.directory}")
        for lost in run.status["diverged"]:
            if "reason" in lost:  # the optimizer's, not the claim's
                where = f"{run.directory}: replica {lost['replica']}"
                self._say(f"{where} diverged at step {lost['step']}: {lost['reason']}")
        self._used.append(run.directory)
        return run.trajectory

    def _computed(self, spec: Spec, unfinished: Sequence[Path]) -> runs.Run:
        """The run, gone on with where that can be, else made anew."""
        for directory in unfinished:
            try:
                before = runs.open_run(directory).spec
                run = runs.run(before, self._out, self._backend, directory, self._sinks())
            except AttndynError as error:  # damaged, or another process goes on with it
                self._say(f"not gone on with, but run anew: {error}")
            else:
                self._made.append(directory)
                return run
        run = runs.run(spec, self._out, self._backend, sinks=self._sinks())
        self._made.append(run.directory)
        return run


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
