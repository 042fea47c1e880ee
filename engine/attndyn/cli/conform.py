"""`attndyn conform`: verdicts on the claims of specs, and checks of plugins."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from attndyn.cli.common import FELL_SHORT, OUTPUTS, USAGE, Backend, Out, Plugins

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
    out: Out = OUTPUTS,
    ledger: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="write the ledger of claims here, too", show_default=False),
    ] = None,
    backend: Backend = "auto",
    limit: Annotated[int, typer.Option(min=1, help="of plugins: sets of options to check, at most")] = 24,
    plugins: Plugins = None,
) -> None:
    """Judge the claims of specs; check that plugins keep what their kind promises.

    Of specs: runs what is missing (finished runs of the same simulation by the same code are used again),
    prints a verdict for each claim and writes conformance.json, junit.xml and claims.md to DIR/conformance;
    the first two have the checks of core, too. A spec that claims nothing is named, and is no failure.
    A suite that was interrupted goes on where it stopped. A spec whose data are not on this machine is left
    out, with a line that says so; nothing is fetched.

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
    given = names or _default()
    found, named = _targets(given)
    codes = []
    if named:
        codes.append(_check_plugins(named, overrides or (), limit))
    if found:
        from attndyn.cli.judging import Runner

        changes = [f"--set {shlex.quote(change)}" for change in overrides or ()]
        command = " ".join(["attndyn conform", *map(shlex.quote, given), *changes, *(["--quick"] * quick)])
        runner = Runner(out, backend, overrides or (), plugins or (), suite, quick)
        codes.append(runner.run(found, command, ledger))
    raise typer.Exit(max(codes))


def _default() -> list[str]:
    if not SPECS.is_dir():
        _refuse("give a SPEC, DIR or PLUGIN: there is no folder specs here")
    return [str(SPECS)]


def _targets(names: Sequence[str]) -> tuple[dict[Path, Path], list[str]]:
    """Specs, each with the folder it was found in, and what is not one: plugins. A folder may have both."""
    from attndyn.conformance.plan import SUFFIXES, spec_files

    specs: dict[Path, Path] = {}
    plugins = []
    for name in names:
        path = Path(name)
        if path.suffix in SUFFIXES:
            specs.setdefault(path, path.parent)
            continue
        is_folder = bool(name) and path.is_dir()
        has_plugins = is_folder and any(path.glob("*.py"))
        if has_plugins or not is_folder:
            plugins.append(name)
        if is_folder:
            within = spec_files(path)
            if not within and not has_plugins:
                _refuse(f"{path}: there is no spec (*.yaml) in this folder")
            specs |= {file: path for file in within if file not in specs}
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


def _refuse(message: str) -> NoReturn:
    print(message, file=sys.stderr)
    raise typer.Exit(USAGE)
