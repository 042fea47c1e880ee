"""The plugins that a spec names by file or folder: loaded before anything else in it is judged."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path as FilePath

from attndyn import registry
from attndyn.errors import PluginError
from attndyn.spec.base import Path
from attndyn.spec.overrides import AFTER_THE_FILE
from attndyn.spec.source import Findings, Node, Origin
from attndyn.spec.words import printable

MAX_PLUGINS = 100


def load_plugins(
    root: Node, folder: FilePath, extra: Sequence[str | FilePath], findings: Findings
) -> Node | None:
    """Load the spec's plugins, then those of the command line; what is wrong goes to `findings`.

    Args:
        root: the spec.
        folder: what its relative paths start from.
        extra: paths from the command line, relative to the working directory.
        findings: a plugin that does not load is laid to its entry.

    Returns:
        `root` with all of them under `plugins`, as absolute paths: it means the same wherever it is kept.
        None if one did not load.
    """
    listed = root.child("plugins") or Node([], root.origin)
    if not isinstance(listed.value, list) or not all(_is_path(item) for item in listed.value):
        return root  # whoever checks types says so
    named: list[tuple[FilePath, Origin, Path]] = [
        (folder / str(item.value), item.origin, ("plugins", index))
        for index, item in enumerate(listed.value[:MAX_PLUGINS])
    ]
    for number, path in enumerate(extra):
        origin = Origin(f"--plugins {printable(str(path))}", (AFTER_THE_FILE, number))
        named.append((FilePath(path), origin, ()))
    loaded: dict[str, Node] = {}
    failed = False
    for path, origin, place in named:
        try:
            registry.load_file(path)
        except PluginError as error:
            findings.add(origin, place, printable(str(error)))
            failed = True
        else:
            loaded.setdefault(absolute := str(path.resolve()), Node(absolute, origin))
    if failed:
        return None
    plugins = Node([*loaded.values(), *listed.value[MAX_PLUGINS:]], listed.origin)
    keys = {**root.keys, "plugins": root.keys.get("plugins", root.origin)}
    return Node({**root.value, "plugins": plugins}, root.origin, keys)  # type: ignore[dict-item]


def _is_path(item: Node) -> bool:
    return isinstance(item.value, str) and item.value != ""
