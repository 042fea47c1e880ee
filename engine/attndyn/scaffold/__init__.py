"""Skeletons of plugins: a file that works and a test of it, to be changed into somebody's own."""

from __future__ import annotations

import importlib.util
import keyword
import re
from pathlib import Path
from string import Template

from attndyn import registry
from attndyn.errors import PluginError

KINDS = ("architecture", "analyzer")
NAME = re.compile(r"[a-z][a-z0-9_]{0,39}", re.ASCII)
TEMPLATES = Path(__file__).with_name("templates")


def write(kind: str, name: str, out: Path) -> tuple[Path, Path]:
    """Write `NAME.py`, a plugin, and `test_NAME.py`, its test.

    Args:
        kind: `architecture` or `analyzer`.
        name: what specs will call it.
        out: the folder to write into; made if it is not there.

    Returns:
        The two files, the plugin first.

    Raises:
        PluginError: the kind has no skeleton, the name cannot be used, or a file is there already.
    """
    if kind not in KINDS:
        raise PluginError(f"no skeleton of the kind '{kind}'; {registry.nearest(kind, list(KINDS))}")
    _refuse_name(kind, name)
    words = {"name": name, "cls": "".join(map(str.capitalize, name.split("_"))) + kind.capitalize()}
    files = {
        out / f"{name}.py": (TEMPLATES / f"{kind}.py.txt"),
        out / f"test_{name}.py": (TEMPLATES / f"test_{kind}.py.txt"),
    }
    for path in files:
        if path.exists():
            raise PluginError(f"{path}: exists already, and nothing is overwritten")
    try:
        out.mkdir(parents=True, exist_ok=True)
        for path, template in files.items():
            with path.open("x", encoding="utf-8") as file:
                file.write(Template(template.read_text("utf-8")).substitute(words))
    except OSError as error:
        raise PluginError(f"{error.filename or out}: cannot be written: {error.strerror}") from None
    plugin, test = files
    return plugin, test


def _refuse_name(kind: str, name: str) -> None:
    """A name must make a module, a class and a plugin, and must not hide any of those there are."""
    if not NAME.fullmatch(name) or keyword.iskeyword(name):
        raise PluginError(f"{name!r}: a name is a lower-case letter, then letters, digits and _, at most 40")
    if name.startswith("test_") or name == "conftest":
        raise PluginError(f"'{name}': is a test's name, which is not loaded as a plugin")
    if name in registry.names(kind):
        raise PluginError(f"'{name}': is an {kind} already, from {registry.origin(kind, name)}")
    if importlib.util.find_spec(name) is not None:
        raise PluginError(f"'{name}': is a Python module already, which {name}.py might hide")
