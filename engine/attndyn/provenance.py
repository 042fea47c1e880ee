"""Which code a trajectory is the work of."""

from __future__ import annotations

import hashlib
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


@cache
def code_sha256() -> str:
    """Hexadecimal SHA-256 of the source files that a trajectory's numbers depend on."""
    digest = hashlib.sha256()
    for package in NUMERICAL:
        for file in _sources(package):
            digest.update(f"{package}/{file.name}\0".encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()


def _sources(package: str) -> Iterable[Path]:
    spec = find_spec(package)
    folders = (spec.submodule_search_locations if spec else None) or ()
    return sorted(file for folder in folders for file in Path(folder).rglob("*.py"))
