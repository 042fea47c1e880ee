"""`attndyn` and its commands."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from attndyn import __version__
from attndyn.cli.common import DIVERGED, INTERRUPTED, OUTPUTS, USAGE, Backend, Out, Overrides, Plugins
from attndyn.cli.conform import conform
from attndyn.cli.theory import theory
from attndyn.errors import AnalyzersFailed, AttndynError

if TYPE_CHECKING:
    from attndyn.runs import Run

app = typer.Typer(
    name="attndyn",
    help="Simulate, from a YAML spec, how attention learns.",
    epilog="First run:  attndyn run specs/paper/figure2.yaml",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

SpecPath = Annotated[Path, typer.Argument(metavar="SPEC", help="a spec, as YAML", show_default=False)]
RunPath = Annotated[Path, typer.Argument(metavar="RUN", help="a run's directory", show_default=False)]


def main() -> None:
    """Entry point: a user's mistake is one clear message and an exit code, never a traceback."""
    try:
        app()
    except AttndynError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except MemoryError as error:
        print(f"not enough memory: {error}", file=sys.stderr)
        sys.exit(USAGE)
    except BrokenPipeError:
        # the reader of a pipe has gone, e.g. `attndyn schema | head`
        sys.stderr.close()
        sys.exit(0)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"attndyn {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="show the version and exit")
    ] = False,
) -> None:
    pass


@app.command(epilog="Example:  attndyn run specs/paper/figure2.yaml --set replicas.seeds=8 --out results")
def run(
    spec: Annotated[
        Path | None, typer.Argument(metavar="SPEC", help="a spec, as YAML", show_default=False)
    ] = None,
    out: Out = OUTPUTS,
    overrides: Overrides = None,
    backend: Backend = "auto",
    resume: Annotated[
        Path | None, typer.Option(metavar="RUN", help="go on with an interrupted run", show_default=False)
    ] = None,
    analyze: Annotated[bool, typer.Option(help="run the spec's analyzers when it is done")] = True,
    plugins: Plugins = None,
) -> None:
    """Run a spec; the last line printed is the run's directory.

    Exit codes: 0 done; 2 a bad spec or usage; 3 the run diverged (what was computed is kept);
    4 an analyzer failed (what the others made is kept); 130 interrupted (ditto; go on with --resume).
    """
    from attndyn import runs
    from attndyn.cli.progress import Progress
    from attndyn.conformance.rehearsal import rehearse
    from attndyn.spec import load_spec

    if spec is not None:
        loaded = load_spec(spec, overrides or (), plugins or (), check=rehearse)
    elif resume is None:
        _usage("give a SPEC to run, or --resume RUN")
    elif overrides:
        _usage("--set changes a SPEC; a resumed run keeps its own")
    else:
        _load(plugins)
        loaded = runs.open_run(resume).spec
    with Progress() as progress:
        result = runs.run(loaded, out, backend, resume, sinks=[progress])
    status = result.status
    code = 0
    if analyze and status["state"] != "interrupted" and result.spec.analyzers:
        with closing(result):
            code = _kept("analyzing", result.analyze)
    _report_state(status, result)
    print(result.directory)
    raise typer.Exit({"diverged": DIVERGED, "interrupted": INTERRUPTED}.get(status["state"], code))


@app.command(epilog="Example:  attndyn validate specs/paper/*.yaml")
def validate(
    specs: Annotated[
        list[Path], typer.Argument(metavar="SPEC...", help="specs, as YAML", show_default=False)
    ],
    overrides: Overrides = None,
    plugins: Plugins = None,
) -> None:
    """Check specs without running them; every problem is listed with its place.

    The plugins that a spec names by file or folder are run for it: they say which options there are. So are
    two steps of a spec with expectations, and of the specs that these refer to, which show the variables and
    labels that they may name.
    """
    from attndyn.conformance.rehearsal import check_references, rehearse
    from attndyn.spec import load_spec

    failed = False
    for path in specs:
        try:
            spec = load_spec(path, overrides or (), plugins or (), check=rehearse)
            check_references(spec, path, overrides or (), plugins or ())
        except AttndynError as error:
            failed = True
            print(error, file=sys.stderr)
        else:
            print(f"{path}: valid")
    raise typer.Exit(USAGE if failed else 0)


@app.command(epilog="Example:  attndyn schema > attndyn.schema.json")
def schema(plugins: Plugins = None) -> None:
    """Print the JSON Schema of specs, for an editor's completion and checks."""
    from attndyn.spec import json_schema

    _load(plugins)
    print(json.dumps(json_schema(), indent=2))


@app.command(epilog="Example:  attndyn plugins architecture transformer")
def plugins(
    kind: Annotated[
        str | None, typer.Argument(metavar="[KIND]", help="those of one kind", show_default=False)
    ] = None,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="one of them, with options", show_default=False)
    ] = None,
    options: Annotated[bool, typer.Option("--options", help="show the options of each")] = False,
    paths: Plugins = None,
) -> None:
    """List the plugins there are: kind, name, where each comes from, and what it is."""
    from attndyn.cli.listing import show_plugins

    _load(paths)
    show_plugins(kind, name, options or name is not None)


@app.command(epilog="Example:  attndyn new-plugin architecture learned_temperature --out my_plugins")
def new_plugin(
    kind: Annotated[
        str, typer.Argument(metavar="architecture|analyzer", help="what to write", show_default=False)
    ],
    name: Annotated[str, typer.Argument(metavar="NAME", help="its name in specs", show_default=False)],
    out: Annotated[Path, typer.Option(metavar="DIR", help="where to write it")] = Path("."),
) -> None:
    """Write a plugin that works, NAME.py, and its test, test_NAME.py, to be changed into your own."""
    from attndyn import scaffold

    for path in scaffold.write(kind, name, out):
        print(path)


@app.command(epilog="Example:  attndyn analyze outputs/figure2/20261130-101500-1a2b3c4d stages norms")
def analyze(
    run: RunPath,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="analyzers; default: the spec's")
    ] = None,
    plugins: Plugins = None,
) -> None:
    """Run analyzers on a run; the last line printed is the file with their results.

    Exit codes: 0 done; 2 bad usage; 4 an analyzer failed (what the others made is kept).
    """
    from attndyn import runs

    _load(plugins)
    with closing(runs.open_run(run)) as opened:
        code = _kept("analyzing", lambda: opened.analyze(names or None))
    if (path := opened.directory / runs.ANALYSIS).exists():
        print(path)
    raise typer.Exit(code)


@app.command(epilog="Example:  attndyn report outputs/figure2/20261130-101500-1a2b3c4d")
def report(run: RunPath, plugins: Plugins = None) -> None:
    """Write a run's figures and its report.html; the last line printed is the report.

    Exit codes: 0 done; 2 bad usage; 4 an analyzer failed (the report shows the others).
    """
    from attndyn import runs
    from attndyn.report import write_report
    from attndyn.report.writer import REPORT

    _load(plugins)
    with closing(runs.open_run(run)) as opened:
        code = _kept("drawing", lambda: write_report(opened))
    print(opened.directory / REPORT)
    raise typer.Exit(code)


app.command(epilog="Example:  attndyn conform specs --quick")(conform)
app.command(epilog="Example:  attndyn theory specs/paper/theory-rates.yaml")(theory)


def _kept(doing: str, what: Callable[[], object]) -> int:
    """Do it, and say which analyzers failed, if some did; the exit code."""
    from attndyn.cli.progress import announce

    try:
        with announce(doing):
            what()
    except AnalyzersFailed as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


def _load(plugins: list[Path] | None) -> None:
    """Load the plugins that `--plugins` names, where there is no spec to note them in."""
    from attndyn import registry

    for path in plugins or ():
        registry.load_file(path)


@app.command(epilog="Example:  attndyn compare outputs/residual/RUN outputs/residual-padding-mask/RUN")
def compare(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN RUN...", help="directories of runs", show_default=False)
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="where to; default: a new one in outputs/compare", show_default=False
        ),
    ] = None,
) -> None:
    """Lay runs side by side: compare.html and its figures; the last line printed is the page."""
    from attndyn.cli.progress import announce
    from attndyn.report import write_comparison
    from attndyn.runs import open_run

    with announce("comparing"):
        path = write_comparison([open_run(run) for run in runs], out)
    print(path)


def _report_state(status: dict[str, Any], run: Run) -> None:
    if status["state"] == "interrupted":
        print(
            f"interrupted at step {status['step']} of {status['steps']}; "
            f"go on with: attndyn run --resume {run.directory}",
            file=sys.stderr,
        )
    varied = run.spec.replicas_expanded().varied if status["diverged"] else {}
    for lost in status["diverged"]:
        own = "".join(f", {path} {values[lost['replica']]}" for path, values in varied.items())
        reason = f": {lost['reason']}" if "reason" in lost else ""
        print(
            f"replica {lost['replica']} (seed {lost['seed']}{own}) diverged at step {lost['step']}{reason}; "
            "what was computed is kept",
            file=sys.stderr,
        )
    if sys.stderr.isatty():
        print(f"draw it with: attndyn report {run.directory}", file=sys.stderr)


def _usage(message: str) -> NoReturn:
    print(message, file=sys.stderr)
    raise typer.Exit(USAGE)
