"""The page of a comparison; like that of a report, it runs no script and asks for nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attndyn.report import compare_figures, compare_tables
from attndyn.report.compared import Compared
from attndyn.report.files import Image
from attndyn.report.page import STATES, data_uri, environment, first_paragraph

TITLES = {
    "curves": ("Curves", compare_figures.draw_curves),
    "boundaries": ("Stage boundaries", compare_figures.draw_boundaries),
    "retractions": ("Retractions of the embeddings", compare_figures.draw_retractions),
}
TABLES = {
    "boundaries": (
        "Step: median (10th – 90th percentile), and in how many replicas, layers and heads it is found.",
        compare_tables.boundary_rows,
    ),
    "retractions": (
        "Deepest retraction: median depth (10th – 90th percentile), 0 counted where there is none; then the "
        "median steps start → trough → recovery of those there are. Medium tokens: neither the most frequent "
        "nor the rarest.",
        compare_tables.retraction_rows,
    ),
}


def render_comparison(compared: Sequence[Compared], images: Mapping[str, Image]) -> str:
    """The HTML of a comparison. All text is escaped, whatever the specs hold."""
    sections = [
        {
            "name": name,
            "title": title,
            "image": data_uri(images[name]) if name in images else "",
            "caption": _caption(name, compared) or first_paragraph(draw.__doc__),
            "table": TABLES[name][0] if name in TABLES else "",
            "rows": TABLES[name][1](compared) if name in TABLES else [],
        }
        for name, (title, draw) in TITLES.items()
    ]
    runs = [
        {
            "label": run.label,
            "color": run.color,
            "directory": str(run.run.directory),
            "description": run.run.spec.description,
            "architecture": run.run.spec.model.architecture,
            "optimizer": run.run.spec.optimizer.kind,
            "replicas": run.root.sizes["replica"],
            "state": STATES.get(run.run.status["state"], run.run.status["state"]),
        }
        for run in compared
    ]
    return (
        environment()
        .get_template("compare.html.j2")
        .render(
            title=" · ".join(run.label for run in compared),
            runs=runs,
            caveats=compare_tables.caveats(compared),
            sections=sections,
            differences=compare_tables.spec_rows(compared),
            provenance=compare_tables.provenance_rows(compared),
        )
    )


def _caption(name: str, compared: Sequence[Compared]) -> str:
    """The curves that are drawn, in words."""
    if name != "curves":
        return ""
    titles = "; ".join(compare_figures.curve_titles(compared))
    heads = " Attention is a mean over layers and heads, and over queries." if "attention" in titles else ""
    return f"{titles[:1].upper()}{titles[1:]}.{heads}"
