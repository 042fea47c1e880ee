"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A path beside `path` to write to; moved into its place when all went well, removed when not.

    A reader sees the old file or the new one, never a part, and a process that is killed leaves the old one.
    """
    fresh = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield fresh
        os.replace(fresh, path)
    finally:
        fresh.unlink(missing_ok=True)
