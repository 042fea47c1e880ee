"""How messages spell values, paths and choices: short, on one line, safe to print whatever was found."""

from __future__ import annotations

import re
from typing import Any

from attndyn.spec.base import Path

SHORT = 40
PLAIN_KEY = re.compile(r"[\w.-]{1,80}\Z")


def shorten(text: str) -> str:
    """At most some forty characters of `text`."""
    return text if len(text) <= SHORT else f"{text[: SHORT - 1]}…"


def describe(value: Any) -> str:
    """A value found in a spec, in the words of YAML."""
    if value is None:
        return "nothing (null)"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"the number {shorten(repr(value))}"
    if isinstance(value, str):
        return f"the string {quote(value)}"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    if isinstance(value, dict):
        return "a mapping"
    return f"a {type(value).__name__}"


def quote(text: str) -> str:
    """`text` in single quotes, escaped and shortened."""
    return f"'{printable(shorten(text))}'"


def printable(text: str) -> str:
    """`text` with whatever a terminal could not show, or would obey, escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def spell(path: Path) -> str:
    """A path as the user writes it: `data.stationary.pi[2]`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += ("." if text else "") + (step if PLAIN_KEY.match(step) else quote(step))
    return text
