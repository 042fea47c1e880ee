"""The report of a run: its figures as files, and one page that holds everything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, cast

import xarray as xr
from matplotlib.figure import Figure, FigureBase, SubFigure
from numpy.typing import NDArray

from attndyn.analysis.analyzer import Analyzer
from attndyn.errors import AnalyzersFailed, RunError
from attndyn.files import whole
from attndyn.report import page, style
from attndyn.report.files import Image, new_figure, render
from attndyn.report.overview import draw_overview, stage_legend
from attndyn.report.settings_figure import draw_comparison
from attndyn.report.views import View, views
from attndyn.spec import Spec

REPORT, FIGURES = "report.html", "figures"
PART = 0.85  # height of one setting's part of a figure, that of a whole one being 1


class Reportable(Protocol):
    """What a report needs of a run; `attndyn.runs.Run` has it."""

    directory: Path

    @property
    def spec(self) -> Spec:
        """The spec that was run."""

    @property
    def status(self) -> Mapping[str, Any]:
        """`state`, `step`, `steps`, and `diverged`: `replica`, `step` and perhaps `reason` of each loss."""

    @property
    def trajectory(self) -> xr.DataTree:
        """The labelled trajectory."""

    @property
    def analysis(self) -> dict[str, xr.Dataset]:
        """Results by analyzer, as far as they were made."""

    def analyzer(self, name: str) -> Analyzer:
        """The analyzer of that name, with the run's options."""

    def analyze(self, names: Sequence[str] | None = None) -> dict[str, xr.Dataset]:
        """Run analyzers and keep their results."""


def write_report(run: Reportable) -> Path:
    """Draw the figures of a run and write its page; the spec's analyzers are run if they were not.

    Writes `figures/overview` and `figures/<analyzer>`, each as `.svg` and `.png`, and `report.html` into the
    run's directory; for a run of several settings also `figures/overview-2` and so on, one for each of the
    first six, and `figures/settings`, which compares them. The same run gives the same figures, byte for
    byte, under the same libraries.

    Returns:
        The path of `report.html`.

    Raises:
        RunError: the run cannot be read, or its directory cannot be written.
        AnalyzersFailed: once a page is written that shows the others and says so.
    """
    analysis, failure = _analysis(run)
    lost = {entry["replica"] for entry in run.status.get("diverged", [])}
    shown = views(run.trajectory, analysis, lost)
    with style.style():
        overviews = {_overview_name(number): draw_overview(view) for number, view in enumerate(shown)}
        images = {name: render(figure) for name, (figure, _) in overviews.items()}
        if len(shown) > 1:
            images["settings"] = render(draw_comparison(shown))
        figures = {
            name: render(_figure(run.analyzer(name), name, analysis[name], shown, run)) for name in analysis
        }
    content = page.Content(
        spec=run.spec,
        status=run.status,
        trajectory=run.trajectory,
        analysis=analysis,
        views=shown,
        overviews=images,
        notes=[*overviews[_overview_name(0)][1], *_failures(failure)],
        analyzers={name: (run.analyzer(name), image) for name, image in figures.items()},
    )
    path = run.directory / REPORT
    try:
        write_figures(run.directory / FIGURES, {**images, **figures})
        with whole(path) as fresh:
            fresh.write_text(page.render_page(content), "utf-8")
    except OSError as error:
        raise RunError(f"{error.filename or path}: cannot be written ({error.strerror})") from None
    if failure is not None:
        raise failure
    return path


def _analysis(run: Reportable) -> tuple[dict[str, xr.Dataset], AnalyzersFailed | None]:
    """All results, those of the spec's analyzers first and in the spec's order; what some failed of."""
    wanted = [options.kind for options in run.spec.analyzers]
    found = run.analysis
    missing = [name for name in wanted if name not in found]
    failure = None
    if missing:
        try:
            found |= run.analyze(missing)
        except AnalyzersFailed as error:
            found, failure = run.analysis, error
    ordered = {name: found[name] for name in dict.fromkeys([*wanted, *found]) if name in found}
    return ordered, failure


def _failures(failure: AnalyzersFailed | None) -> list[str]:
    return [f"{name} (failed: {why})" for name, why in failure.failed.items()] if failure else []


def _overview_name(number: int) -> str:
    return "overview" if number == 0 else f"overview-{number + 1}"


def _figure(
    analyzer: Analyzer, name: str, result: xr.Dataset, shown: Sequence[View], run: Reportable
) -> Figure:
    """An analyzer's figure: all settings at once if it shows the whole run, else one part below the other."""
    if analyzer.whole_run:
        figure = new_figure(analyzer.height)
        analyzer.draw(result, run.trajectory, figure)
        return figure
    figure = new_figure(analyzer.height * (1 if len(shown) == 1 else PART * len(shown)))
    if len(shown) == 1:
        _draw_part(analyzer, name, shown[0], figure)
        return figure
    parts = list(cast(NDArray[Any], figure.subfigures(len(shown), 1)))
    for part, view in zip(parts, shown, strict=True):
        part.suptitle(style.shorten(view.setting.label, 100), fontweight="bold", fontsize=8)
        below_the_title = cast(SubFigure, part.subfigures())
        _draw_part(analyzer, name, view, below_the_title)
    style.same_y(parts)
    return figure


def _draw_part(analyzer: Analyzer, name: str, view: View, figure: FigureBase) -> None:
    analyzer.draw(view.analysis[name], view.trajectory, figure)
    axes = style.step_axes(figure)
    if axes and view.spans:
        for ax in axes:
            style.shade_stages(ax, style.spans_on_axis(view.spans, view.analysis[name]))
        stage_legend(figure, view.spans, view.stage_names)


def write_figures(directory: Path, images: Mapping[str, Image]) -> None:
    """Write every figure as `<name>.svg` and `<name>.png`."""
    directory.mkdir(exist_ok=True)
    for name, image in images.items():
        for kind, content in image._asdict().items():
            with whole(directory / f"{name}.{kind}") as fresh:
                fresh.write_bytes(content)
