"""The page: one HTML file that holds its style and its figures, runs no script and asks for nothing."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import cleandoc
from typing import Any

import jinja2
import xarray as xr

from attndyn.analysis.analyzer import Analyzer
from attndyn.analysis.settings import replica_names, settings
from attndyn.report import tables
from attndyn.report.files import Image
from attndyn.report.numbers import number_tables
from attndyn.report.overview import in_words
from attndyn.report.settings_figure import compared
from attndyn.report.snapshots import has_time
from attndyn.report.views import View
from attndyn.spec import Spec

STATES = {
    "complete": "complete",
    "running": "not finished when this report was made",
    "interrupted": "interrupted; what was computed until then is shown",
    "diverged": "diverged; what was computed until then is shown",
}


@dataclass(frozen=True)
class Content:
    """What a page shows.

    Attributes:
        spec: the spec that was run.
        status: the run's status.
        trajectory: the run's trajectory.
        analysis: results by analyzer, in order.
        views: the settings that are shown.
        overviews: by name of the file, the overview of each of them and, of several, what compares them.
        notes: what is left out of the overviews, and why.
        analyzers: by name, each analyzer and its figure, in order.
    """

    spec: Spec
    status: Mapping[str, Any]
    trajectory: xr.DataTree
    analysis: Mapping[str, xr.Dataset]
    views: Sequence[View]
    overviews: Mapping[str, Image]
    notes: Sequence[str]
    analyzers: Mapping[str, tuple[Analyzer, Image]]


def render_page(content: Content) -> str:
    """The HTML of a report. All text is escaped, whatever the spec holds."""
    root, stages = content.trajectory.dataset, content.analysis.get("stages")
    found, names = settings(content.trajectory), replica_names(content.trajectory)
    attrs = {str(name): value for name, value in content.trajectory.attrs.items()}
    return (
        environment()
        .get_template("report.html.j2")
        .render(
            spec=content.spec,
            status=content.status,
            state=STATES.get(content.status["state"], content.status["state"]),
            overviews=[
                (name, view.setting.label, view.shown_name, data_uri(content.overviews[name]), in_words(view))
                for name, view in zip(content.overviews, content.views, strict=False)
            ],
            comparison=data_uri(content.overviews["settings"]) if "settings" in content.overviews else None,
            compared=compared(content.views),
            settings=[setting.label for setting in found],
            left_out=[setting.label for setting in found[len(content.views) :]],
            notes=content.notes,
            stages=_stages(stages, names) if stages is not None else None,
            replica_count=root.sizes["replica"],
            analyses=[
                _analysis(name, analyzer, image, content)
                for name, (analyzer, image) in content.analyzers.items()
            ],
            spec_yaml=attrs.get("spec_yaml") or content.spec.to_yaml(),
            provenance=tables.provenance(attrs, root["seed"].values),
            attrs=attrs,
        )
    )


def _stages(stages: xr.Dataset, names: Sequence[str]) -> dict[str, Any]:
    """What the section on the stages shows."""
    return {
        "rows": tables.stage_rows(stages),
        "summaries": tables.stage_summary(stages),
        "coarse": tables.coarse_boundaries(stages),
        "replicas": tables.replica_rows(stages, names),
        "timed": has_time(stages),
        "heads": stages.sizes["layer"] * stages.sizes["head"],
    }


def _analysis(name: str, analyzer: Analyzer, image: Image, content: Content) -> dict[str, Any]:
    return {
        "name": name,
        "title": analyzer.title,
        "summary": first_paragraph(type(analyzer).__doc__),
        "caption": first_paragraph(type(analyzer).draw.__doc__),
        "image": data_uri(image),
        "numbers": [
            (view.setting.label, table)
            for view in content.views
            for table in number_tables(view.analysis[name], analyzer.numbers)
        ],
        "variables": tables.variables(content.analysis[name]),
    }


def environment() -> jinja2.Environment:
    """Where pages come from: every text that a template is given is escaped."""
    return jinja2.Environment(
        loader=jinja2.PackageLoader("attndyn.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def first_paragraph(doc: str | None) -> str:
    """The first paragraph of a docstring, on one line."""
    return " ".join(cleandoc(doc or "").partition("\n\n")[0].split())


def data_uri(image: Image) -> str:
    """A figure as the source of an `img`."""
    # as an image, an SVG is sharp at any size, keeps its names to itself, and cannot run anything
    return f"data:image/svg+xml;base64,{base64.b64encode(image.svg).decode()}"
