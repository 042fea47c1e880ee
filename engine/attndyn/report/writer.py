"""The report of a run: its figures as files, and one page that holds everything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import xarray as xr
from matplotlib.figure import Figure

from attndyn.analysis.analyzer import Analyzer
from attndyn.analysis.timeline import stage_spans
from attndyn.errors import RunError
from attndyn.files import whole
from attndyn.report import page, style
from attndyn.report.files import Image, new_figure, render
from attndyn.report.overview import Spans, draw_overview, stage_legend
from attndyn.spec import Spec

REPORT, FIGURES = "report.html", "figures"
ANALYZER_HEIGHT = 5.0


class Reportable(Protocol):
    """What a report needs of a run; `attndyn.runs.Run` has it."""

    directory: Path

    @property
    def spec(self) -> Spec:
        """The spec that was run."""

    @property
    def status(self) -> Mapping[str, Any]:
        """`state`, `step`, `steps`, and `diverged` with the `replica` and `step` of each loss."""

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
    run's directory. The same run gives the same figures, byte for byte, under the same libraries.

    Returns:
        The path of `report.html`.

    Raises:
        RunError: the run cannot be read, or its directory cannot be written.
    """
    analysis = _analysis(run)
    spans = stage_spans(analysis["stages"]) if "stages" in analysis else []
    with style.style():
        shown = _shown_replica(run.status, run.trajectory.sizes["replica"])
        figure, notes = draw_overview(run.trajectory, analysis, spans, shown)
        overview = render(figure)
        images = {name: render(_figure(run, name, result, spans)) for name, result in analysis.items()}
    content = page.Content(
        spec=run.spec,
        status=run.status,
        trajectory=run.trajectory,
        analysis=analysis,
        overview=overview,
        shown=shown,
        notes=notes,
        analyzers={name: (run.analyzer(name), image) for name, image in images.items()},
    )
    path = run.directory / REPORT
    try:
        _write_figures(run.directory / FIGURES, {"overview": overview, **images})
        with whole(path) as fresh:
            fresh.write_text(page.render_page(content), "utf-8")
    except OSError as error:
        raise RunError(f"{error.filename or path}: cannot be written ({error.strerror})") from None
    return path


def _analysis(run: Reportable) -> dict[str, xr.Dataset]:
    """All results, those of the spec's analyzers first and in the spec's order."""
    wanted = [options.kind for options in run.spec.analyzers]
    found = run.analysis
    missing = [name for name in wanted if name not in found]
    if missing:
        found |= run.analyze(missing)
    return {name: found[name] for name in dict.fromkeys([*wanted, *found])}


def _shown_replica(status: Mapping[str, Any], count: int) -> int:
    """The first replica that did not diverge, or the first of all."""
    lost = {entry["replica"] for entry in status.get("diverged", [])}
    return next((number for number in range(count) if number not in lost), 0)


def _figure(run: Reportable, name: str, result: xr.Dataset, spans: Spans) -> Figure:
    figure = new_figure(ANALYZER_HEIGHT)
    run.analyzer(name).draw(result, run.trajectory, figure)
    axes = style.step_axes(figure)
    if axes and spans and name != "stages":  # whose figure shows them already
        for ax in axes:
            style.shade_stages(ax, style.spans_on_axis(spans, result))
        stage_legend(figure, spans)
    return figure


def _write_figures(directory: Path, images: Mapping[str, Image]) -> None:
    directory.mkdir(exist_ok=True)
    for name, image in images.items():
        for kind, content in image._asdict().items():
            with whole(directory / f"{name}.{kind}") as fresh:
                fresh.write_bytes(content)
