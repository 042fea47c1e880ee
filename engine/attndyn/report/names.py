"""Names of tokens and replicas in figures: short, visible, and told apart."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def cut(name: Any, width: int) -> str:
    """A name of at most `width` visible characters, as plain text."""
    text = str(name)
    text = text if text.isprintable() and text.strip() else repr(text)
    return text if len(text) <= width else text[: width - 1] + "…"


def shorten(name: Any, width: int = 9) -> str:
    """A token's name for a figure, cut to `width` characters; its dollar signs are no mathematics.

    Neither is a leading underscore a sign that Matplotlib's legends are to leave it out.
    """
    text = cut(name, width).replace("$", r"\$")
    return rf"$\_${text[1:]}" if text.startswith("_") else text


def distinct(names: Iterable[Any], width: int = 9) -> dict[Any, str]:
    """Names cut to `width` characters; those that would be the same show their ends, and more if need be."""
    names = list(dict.fromkeys(names))
    short = {name: shorten(name, width) for name in names}
    alike = [name for name in names if list(short.values()).count(short[name]) > 1]
    while len({short[name] for name in alike}) < len(alike):
        short |= {name: shorten(_ends(str(name), width), width) for name in alike}
        width += 1
    return short


def _ends(text: str, width: int) -> str:
    head = width // 2
    return text if len(text) <= width else f"{text[:head]}…{text[len(text) - (width - 1 - head) :]}"
