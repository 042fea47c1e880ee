"""Judging specs one after the other, and writing what was found."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from attndyn import registry
from attndyn.cli.common import FELL_SHORT, INTERRUPTED, USAGE
from attndyn.cli.progress import Progress, announce
from attndyn.cli.verdicts import show_findings, show_report
from attndyn.conformance import record
from attndyn.conformance.faults import blame
from attndyn.conformance.ledger import ledger, summary
from attndyn.conformance.plan import Plan, Waiting, read_plan
from attndyn.conformance.spec_core import check_spec
from attndyn.conformance.suite import Judged, Suite, SuiteInterrupted
from attndyn.errors import AttndynError, RunError
from attndyn.files import whole
from attndyn.spec import Spec, load_spec

RESULTS = "conformance"


class Runner:
    """Judges specs; one that is wrong does not keep the others from being judged.

    Args:
        out: where runs are kept; results are written to a folder in it.
        backend: of new runs.
        overrides: `path=value`, for every spec.
        plugins: files and folders of plugins besides those of the specs.
        suite: `core`, `science` or `all`.
        quick: only specs that are marked so.
    """

    def __init__(
        self,
        out: Path,
        backend: str,
        overrides: Sequence[str],
        plugins: Sequence[Path],
        suite: str,
        quick: bool,
    ):
        self.out, self.suite, self.quick = out, suite, quick
        self.overrides, self.plugins = overrides, plugins
        self.backend = backend
        self.judged: list[Judged] = []
        self.refused: dict[Path, str] = {}
        self.checked: list[record.Checked] = []
        self.left_out: dict[Path, str] = {}  # why there is nothing to judge of a spec
        self.passed_over = 0
        self.waiting: list[Waiting] = []  # claims of specs whose data are not on this machine
        self.code = 0

    def run(self, specs: Mapping[Path, Path], command: str, claims: Path | None) -> int:
        """The exit code.

        Args:
            specs: files, each with the folder it was found in; the first folder's `ledger.yaml` counts.
            command: what the user typed but for where the ledger goes, to be named in it.
            claims: where to write the ledger besides the results.
        """
        folder = next(iter(specs.values()))
        plan = read_plan(folder)  # what is wrong with it, or cannot be written, is said before hours of runs
        files = [self.out / RESULTS / "claims.md", *([claims] if claims is not None else [])]
        for file in files:
            _check_writable(file)
        try:
            for path in specs:
                self._one(path)
        except (SuiteInterrupted, KeyboardInterrupt) as stopped:
            print(str(stopped) or "interrupted", file=sys.stderr)
            self.code = INTERRUPTED
        if claims is not None and self.code not in (0, FELL_SHORT):
            print(f"{claims}: not written, since not all claims have a verdict", file=sys.stderr)
            files = files[:1]
        claims_there_are = bool(self.judged or self.refused or self.waiting) and self.suite != "core"
        if claims_there_are or self.checked or self.code != INTERRUPTED:
            waiting = [*plan.waiting, *self.waiting]
            found = plan.model_copy(update={"waiting": waiting})
            self._write(files if claims_there_are else [], found, folder, command)
        self._summarize(claims_there_are)
        return self.code

    def _one(self, path: Path) -> None:
        try:
            with registry.isolated():  # a spec is judged as if alone: others' plugins are not there
                self._judge(path)
        except SuiteInterrupted:
            raise
        except AttndynError as error:
            self._refuse(path, str(error), error.exit_code)
        except Exception as error:  # of a plugin, say; what was found of the others is not lost
            self._refuse(path, f"{path}: {type(error).__name__} is raised: {blame(error, '')}", USAGE)

    def _refuse(self, path: Path, message: str, code: int) -> None:
        print(message, file=sys.stderr)
        self.refused[path] = message
        self.code = max(self.code, code)

    def _judge(self, path: Path) -> None:
        spec = load_spec(path, self.overrides, self.plugins)
        if self.quick and not spec.quick:
            self.passed_over += 1
            return
        absent = spec.data.absent()
        if absent is not None and (spec.expect or self.suite != "science"):
            self._leave_out(spec, path, absent)
            return
        if self.suite != "science":
            with announce(f"checking {spec.name}"):
                report = check_spec(spec)
            show_report(report)
            self.checked.append(record.Checked(path, spec, report))
            self.code = max(self.code, 0 if report.passed else FELL_SHORT)
        if self.suite == "core":
            return
        if not spec.expect:
            self.left_out[path] = "claims nothing: it has no expect"
            print(f"{path}: {self.left_out[path]}")
            self.passed_over += 1
            return
        with Progress() as progress:
            suite = Suite(self.out, self.backend, lambda: [progress], progress.doing, _say)
            judged = suite.judge(path, self.overrides, self.plugins)
        self.judged.append(judged)
        show_findings(judged)
        verdicts = [finding.verdict for finding in judged.findings]
        differ = not all(finding.as_recorded for finding in judged.findings)
        self.code = max(self.code, USAGE if None in verdicts else FELL_SHORT if differ else 0)

    def _leave_out(self, spec: Spec, path: Path, absent: str) -> None:
        """Say that a spec is not run, for want of its data; its claims are listed as such."""
        self.left_out[path] = f"not run: {absent}"
        print(f"{path}: {self.left_out[path]}", file=sys.stderr)
        wanted = f"the data of {spec.name}"
        self.waiting += [
            Waiting(id=claim.id, claim=claim.claim, source=claim.source, waits_for=wanted)
            for claim in spec.expect
        ]

    def _write(self, claims: Sequence[Path], plan: Plan, folder: Path, command: str) -> None:
        """Write the results, and the ledger to `claims`, the first of which is beside them."""
        results = self.out / RESULTS
        now = datetime.now(UTC)
        made_by = ", ".join(f"{name} {number}" for name, number in record.versions().items())
        versions = f"{now:%Y-%m-%d}, {made_by}"
        created = now.isoformat(timespec="seconds")
        files = {
            results / "conformance.json": record.as_json(
                self.judged, self.refused, created, self.checked, self.left_out
            ),
            results / "junit.xml": record.as_junit(self.judged, self.refused, self.checked, self.left_out),
        }
        for place in claims:
            shown = command if place.parent == results else f"{command} --ledger {place.as_posix()}"
            files[place] = ledger(self.judged, plan, folder, place.parent, shown, versions)
        for file, text in files.items():
            try:
                with whole(file) as fresh:
                    fresh.write_text(text, "utf-8")
            except OSError as error:
                raise RunError(f"{file}: cannot be written ({error.strerror})") from None

    def _summarize(self, claims_there_are: bool) -> None:
        """Say in a line what was found, and where it was written."""
        if self.checked:
            passed = sum(each.report.passed for each in self.checked)
            said = f"{passed} of {len(self.checked)} specs pass all checks of core"
            print(said if claims_there_are else f"{said}: {self.out / RESULTS}")
        if claims_there_are:
            self._summarize_claims()
        elif self.passed_over and not self.checked:
            print(f"nothing to judge: {self.passed_over} specs without claims or not quick")

    def _summarize_claims(self) -> None:
        for each in self.judged:
            for found in each.findings:
                if not found.as_recorded:
                    said = f"{found.verdict or 'no verdict'}; on record is: {found.recorded}"
                    print(f"{each.path}: {found.id}: {said}")
        left = f"; {len(self.refused)} specs could not be judged" if self.refused else ""
        left += f"; {len(self.waiting)} claims wait for their data" if self.waiting else ""
        left += f"; {self.passed_over} without claims or not quick" if self.passed_over else ""
        findings = [found for each in self.judged for found in each.findings]
        print(f"{len(self.judged)} specs with {summary(findings)}{left}: {self.out / RESULTS}")


def _check_writable(file: Path) -> None:
    """Make the file's folder.

    Raises:
        RunError: the file could not be written.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"{file.parent}: cannot be written ({error.strerror})") from None
    if file.is_dir():
        raise RunError(f"{file}: is a folder")
    if not os.access(file.parent, os.W_OK):
        raise RunError(f"{file.parent}: cannot be written (Permission denied)")


def _say(line: str) -> None:
    print(line, file=sys.stderr)
