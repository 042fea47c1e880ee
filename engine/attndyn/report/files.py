"""Figures and files: made without pyplot, the same bytes for the same content, written whole."""

from __future__ import annotations

import re
import warnings
from io import BytesIO
from typing import NamedTuple

from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

WIDTH = 7.2
# control characters of a token's name, which Matplotlib repeats in a comment; no XML file may hold them
NOT_XML = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")


class Image(NamedTuple):
    """A figure's two files."""

    svg: bytes
    png: bytes


def new_figure(height: float, width: float = WIDTH) -> Figure:
    """An empty figure, sizes in inches, that makes room for labels by itself."""
    return Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(w_pad=0.05, h_pad=0.05))


def render(figure: Figure) -> Image:
    """The bytes of a figure; neither a date nor random names, so that they depend on the figure alone."""
    svg, png = BytesIO(), BytesIO()
    with warnings.catch_warnings():
        # a token may be named in any script; what Matplotlib's font lacks is drawn as a box
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.draw_without_rendering()
        figure.set_layout_engine(None)  # all is in its place now, and finding it is slow
        figure.savefig(svg, format="svg", metadata={"Date": None})
        figure.savefig(png, format="png")
    return Image(NOT_XML.sub(b"", svg.getvalue()), png.getvalue())
