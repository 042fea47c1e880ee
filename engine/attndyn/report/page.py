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
from attndyn.report import tables
from attndyn.report.files import Image
from attndyn.report.snapshots import has_time
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
        overview: the overview figure.
        shown: the replica whose snapshots it shows.
        notes: what is left out of it, and why.
        analyzers: by name, each analyzer and its figure, in order.
    """

    spec: Spec
    status: Mapping[str, Any]
    trajectory: xr.DataTree
    analysis: Mapping[str, xr.Dataset]
    overview: Image
    shown: int
    notes: Sequence[str]
    analyzers: Mapping[str, tuple[Analyzer, Image]]


def render_page(content: Content) -> str:
    """The HTML of a report. All text is escaped, whatever the spec holds."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("attndyn.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    root, stages = content.trajectory.dataset, content.analysis.get("stages")
    attrs = {str(name): value for name, value in content.trajectory.attrs.items()}
    return environment.get_template("report.html.j2").render(
        spec=content.spec,
        status=content.status,
        state=STATES.get(content.status["state"], content.status["state"]),
        overview=_data_uri(content.overview),
        shown=tables.replica_name(root, content.shown),
        notes=content.notes,
        stage_rows=tables.stage_rows(stages) if stages is not None else [],
        stage_summary=tables.stage_summary(stages) if stages is not None else [],
        timed=stages is not None and has_time(stages),
        heads=stages.sizes["layer"] * stages.sizes["head"] if stages is not None else 1,
        replicas=tables.replica_names(root),
        replica_count=root.sizes["replica"],
        analyses=[
            _analysis(name, analyzer, image, content.analysis[name])
            for name, (analyzer, image) in content.analyzers.items()
        ],
        spec_yaml=attrs.get("spec_yaml") or content.spec.to_yaml(),
        provenance=tables.provenance(attrs, root["seed"].values),
        attrs=attrs,
    )


def _analysis(name: str, analyzer: Analyzer, image: Image, result: xr.Dataset) -> dict[str, Any]:
    return {
        "name": name,
        "title": analyzer.title,
        "summary": _first_paragraph(type(analyzer).__doc__),
        "caption": _first_paragraph(type(analyzer).draw.__doc__),
        "image": _data_uri(image),
        "variables": tables.variables(result),
    }


def _first_paragraph(doc: str | None) -> str:
    return " ".join(cleandoc(doc or "").partition("\n\n")[0].split())


def _data_uri(image: Image) -> str:
    # as an image, an SVG is sharp at any size, keeps its names to itself, and cannot run anything
    return f"data:image/svg+xml;base64,{base64.b64encode(image.svg).decode()}"
