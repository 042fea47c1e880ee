"""Figures and files: made without pyplot, the same bytes for the same content, written whole."""

from __future__ import annotations

import os
import warnings
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

from matplotlib.figure import Figure

WIDTH = 7.2


class Image(NamedTuple):
    """A figure's two files."""

    svg: bytes
    png: bytes


def new_figure(height: float, width: float = WIDTH) -> Figure:
    """An empty figure, sizes in inches, that makes room for labels by itself."""
    return Figure(figsize=(width, height), layout="constrained")


def render(figure: Figure) -> Image:
    """The bytes of a figure; neither a date nor random names, so that they depend on the figure alone."""
    with warnings.catch_warnings():
        # a token may be named in any script; what Matplotlib's font lacks is drawn as a box
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        files = []
        for kind in ("svg", "png"):
            buffer = BytesIO()
            metadata = {"Date": None} if kind == "svg" else {}
            figure.savefig(buffer, format=kind, metadata=metadata)
            files.append(buffer.getvalue())
    return Image(*files)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that a reader sees the old one or the new one, never a part."""
    fresh = path.with_name(path.name + ".tmp")
    fresh.write_bytes(content)
    os.replace(fresh, path)
