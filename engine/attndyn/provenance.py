"""Which code a trajectory is the work of."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable
from functools import cache
from importlib.util import find_spec
from pathlib import Path

#: what decides a trajectory: a change anywhere else leaves the numbers as they are
NUMERICAL = (
    "attndyn.backend",
    "attndyn.data",
    "attndyn.layers",
    "attndyn.optim",
    "attndyn.simulation",
    "attndyn_plugins.architectures",
)


def code_sha256(plugins: Iterable[type] = ()) -> str:
    """Hexadecimal SHA-256 of the source files that a trajectory's numbers depend on.

    Args:
        plugins: classes of the plugins used; the packages of those that are not the engine's count, too.
    """
    tops = {cls.__module__.partition(".")[0] for cls in plugins} - {"attndyn", "attndyn_plugins", "__main__"}
    digest = hashlib.sha256()
    for package in (*NUMERICAL, *sorted(tops)):
        digest.update(_digest(package).encode())
    return digest.hexdigest()


@cache
def _digest(package: str) -> str:
    digest = hashlib.sha256()
    for folder, file in _sources(package):
        digest.update(f"{package}/{file.relative_to(folder).as_posix()}\0".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _sources(package: str) -> list[tuple[Path, Path]]:
    """Folder and file of every source of a package, or of a module that is none."""
    loaded = sys.modules.get(package)
    spec = loaded.__spec__ if loaded is not None else find_spec(package)
    if spec is None:
        return []
    if spec.submodule_search_locations is None:
        file = Path(spec.origin or "")
        return [(file.parent, file)] if file.is_file() else []
    folders = [Path(folder) for folder in spec.submodule_search_locations]
    return [(folder, file) for folder in folders for file in sorted(folder.rglob("*.py"))]
