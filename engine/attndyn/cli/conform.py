"""`attndyn conform`: verdicts on the claims of specs, and checks of plugins."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from attndyn.errors import AttndynError, RunError

if TYPE_CHECKING:
    from attndyn.conformance.suite import Judged

FELL_SHORT, USAGE, INTERRUPTED = 1, 2, 130
RESULTS = "conformance"
SPECS = Path("specs")

Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[SPEC|DIR|PLUGIN]...",
        help="specs, folders of specs or plugins, KIND:NAME or a plugin's name; default: the folder specs",
        show_default=False,
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="change the specs, or give a plugin's option one value",
        show_default=False,
    ),
]


def conform(
    names: Names = None,
    overrides: Set = None,
    suite: Annotated[
        str,
        typer.Option(
            help="of specs: core (what any run must keep), science (its claims) or all", metavar="SUITE"
        ),
    ] = "science",
    quick: Annotated[
        bool, typer.Option("--quick", help="only specs marked quick: all of them take minutes at most")
    ] = False,
    out: Annotated[Path, typer.Option(metavar="DIR", help="where runs are kept")] = Path("outputs"),
    ledger: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="write the ledger of claims here, too", show_default=False),
    ] = None,
    backend: Annotated[str, typer.Option(help="auto, numpy or cupy")] = "auto",
    limit: Annotated[int, typer.Option(min=1, help="of plugins: sets of options to check, at most")] = 24,
    plugins: Annotated[
        list[Path] | None,
        typer.Option("--plugins", metavar="PATH", help="files and folders of plugins; their code is run"),
    ] = None,
) -> None:
    """Judge the claims of specs; check that plugins keep what their kind promises.

    Of specs: runs what is missing (finished runs of the same simulation by the same code are used again),
    prints a verdict for each claim and writes conformance.json, junit.xml and claims.md to DIR/conformance.
    A suite that was interrupted goes on where it stopped.

    Exit codes: 0 all as recorded in the specs; 1 a verdict differs from the one on record, or a check
    fails; 2 a spec is wrong or one of its checks cannot be made; 130 interrupted.
    """
    from attndyn import registry

    if suite not in ("core", "science", "all"):
        _refuse(f"--suite: found '{suite}'; allowed: core, science, all")
    if ledger is not None and (quick or suite == "core"):
        _refuse("--ledger lists all claims; it needs the whole suite, without --quick or --suite core")
    for path in plugins or ():
        registry.load_file(path)
    found, named = _targets(names or _default())
    codes = []
    if named:
        codes.append(_check_plugins(named, overrides or (), limit))
    if found:
        runner = _Runner(out, backend, overrides or (), plugins or ())
        codes.append(runner.run(found, suite, quick, ledger))
    raise typer.Exit(max(codes))


def _default() -> list[str]:
    if not SPECS.is_dir():
        _refuse("give a SPEC, DIR or PLUGIN: there is no folder specs here")
    return [str(SPECS)]


def _targets(names: Sequence[str]) -> tuple[dict[Path, Path], list[str]]:
    """Specs, each with the folder it was found in, and what is not one: plugins."""
    from attndyn.conformance.plan import SUFFIXES, spec_files

    specs: dict[Path, Path] = {}
    plugins = []
    for name in names:
        path = Path(name)
        if path.suffix in SUFFIXES:
            specs.setdefault(path, path.parent)
        elif name and path.is_dir() and not any(path.glob("*.py")):
            specs |= {file: path for file in spec_files(path) if file not in specs}
        else:
            plugins.append(name)
    return specs, plugins


def _check_plugins(names: Sequence[str], overrides: Sequence[str], limit: int) -> int:
    from attndyn.cli.verdicts import show_report
    from attndyn.conformance.options import given_options
    from attndyn.conformance.plugins import check_plugin, find

    given = given_options(overrides)
    keys = dict.fromkeys(key for name in names for key in find(name))
    reports = [check_plugin(kind, name, given, limit) for kind, name in keys]
    for report in reports:
        show_report(report)
    return 0 if all(report.passed for report in reports) else FELL_SHORT


class _Runner:
    """Judges specs one after the other; a spec that is wrong does not keep the others from being judged."""

    def __init__(self, out: Path, backend: str, overrides: Sequence[str], plugins: Sequence[Path]):
        self.out, self.backend, self.overrides, self.plugins = out, backend, overrides, plugins
        self.judged: list[Judged] = []
        self.code = 0

    def run(self, specs: dict[Path, Path], suite: str, quick: bool, ledger: Path | None) -> int:
        from attndyn.conformance.suite import SuiteInterrupted

        for path in specs:
            try:
                self._one(path, suite, quick)
            except SuiteInterrupted as interrupted:
                print(interrupted, file=sys.stderr)
                self.code = INTERRUPTED
                break
            except AttndynError as error:
                print(error, file=sys.stderr)
                self.code = max(self.code, error.exit_code)
        if self.judged:
            folder = next(iter(specs.values()))
            self._write(folder, ledger if self.code in (0, FELL_SHORT) else None)
        return self.code

    def _one(self, path: Path, suite: str, quick: bool) -> None:
        from attndyn.cli.progress import Progress, announce
        from attndyn.cli.verdicts import show_findings, show_report
        from attndyn.conformance.spec_core import check_spec
        from attndyn.conformance.suite import Suite
        from attndyn.spec import load_spec

        spec = load_spec(path, self.overrides, self.plugins)
        if quick and not spec.quick:
            return
        if suite != "science":
            with announce(f"checking {spec.name}"):
                report = check_spec(spec)
            show_report(report)
            self.code = max(self.code, 0 if report.passed else FELL_SHORT)
        if suite == "core" or not spec.expect:
            return
        with Progress() as progress:
            judge = Suite(self.out, self.backend, lambda: [progress]).judge
            judged = judge(path, self.overrides, self.plugins)
        self.judged.append(judged)
        show_findings(judged)
        verdicts = [finding.verdict for finding in judged.findings]
        differ = not all(finding.as_recorded for finding in judged.findings)
        self.code = max(self.code, USAGE if None in verdicts else FELL_SHORT if differ else 0)

    def _write(self, folder: Path, ledger: Path | None) -> None:
        from attndyn.conformance import record
        from attndyn.conformance.ledger import ledger as written
        from attndyn.conformance.plan import read_plan
        from attndyn.files import whole

        results = self.out / RESULTS
        now = datetime.now(UTC)
        made_by = ", ".join(f"{name} {number}" for name, number in record.versions().items())
        versions = f"{now:%Y-%m-%d}, {made_by}"

        def claims(place: Path) -> str:
            command = f"attndyn conform {folder} --ledger {place.as_posix()}"
            return written(self.judged, read_plan(folder), folder, place.parent, command, versions)

        files = {
            results / "conformance.json": record.as_json(self.judged, now.isoformat(timespec="seconds")),
            results / "junit.xml": record.as_junit(self.judged),
            results / "claims.md": claims(results / "claims.md"),
        }
        if ledger is not None:
            files[ledger] = claims(ledger)
        for file, text in files.items():
            try:
                file.parent.mkdir(parents=True, exist_ok=True)
                with whole(file) as fresh:
                    fresh.write_text(text, "utf-8")
            except OSError as error:
                raise RunError(f"{file}: cannot be written ({error.strerror})") from None
        print(f"verdicts of {len(self.judged)} specs: {results}")


def _refuse(message: str) -> NoReturn:
    print(message, file=sys.stderr)
    raise typer.Exit(USAGE)
