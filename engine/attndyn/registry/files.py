"""Plugins from files and folders that the user names.

A file is a module, a folder a package of its `*.py` files, so that these can import each other
(`from .shared import f`). Both are imported under a name made from their path: two files of one name do not
clash, and neither can hide an installed module. What runs is the text that is there, never a cached `.pyc`,
and nothing is written beside it; the SHA-256 of what ran is kept.
"""

from __future__ import annotations

import hashlib
import importlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from attndyn.errors import PluginError
from attndyn.registry import classes
from attndyn.registry.blame import blame


@dataclass(frozen=True)
class _Loaded:
    """A file or folder whose plugins are registered."""

    module: str
    plugins: tuple[tuple[str, str], ...]


_loaded: dict[Path, _Loaded] = {}
#: what the finder may find: the name of a top module, and its file or folder
_places: dict[str, Path] = {}
#: SHA-256 of every file that ran
_ran: dict[Path, str] = {}


def load_file(path: str | Path) -> list[tuple[str, str]]:
    """Run a plugin's file, or those of a folder, and register the plugins in it; once in a process.

    Of a folder these are its `*.py` files in the order of their names, `__init__.py` first if there is one,
    without tests (`test_*.py`, `conftest.py`) and without those whose names begin with `_`.

    Args:
        path: a `.py` file or a folder; relative to the working directory.

    Returns:
        Kind and name of each plugin found there, in the order in which they were registered.

    Raises:
        PluginError: it is neither, fails to run, registers nothing, or registers a name that is taken. The
            message begins with file and line; nothing of it stays registered.
    """
    root = _resolve(path)
    if root not in _loaded:
        _loaded[root] = _load(root)
    return list(_loaded[root].plugins)


def digests(paths: Iterable[str | Path]) -> dict[str, str]:
    """SHA-256, hexadecimal, of every file that ran for these plugins, those they imported included.

    Raises:
        PluginError: as `load_file`, which is called for those that are not loaded yet.
    """
    found: dict[str, str] = {}
    for path in paths:
        load_file(path)
        root = _resolve(path)
        found |= {str(file): digest for file, digest in _ran.items() if file.is_relative_to(root)}
    return found


@contextmanager
def isolated() -> Iterator[None]:
    """Forget, at the end, every plugin that was registered inside; for tests."""
    kept = _Kept()
    try:
        yield
    finally:
        kept.restore()


class _Kept:
    """The state of the registry at one time."""

    def __init__(self) -> None:
        tables: tuple[dict[Any, Any], ...] = (classes.registered, _loaded, _places, _ran)
        self._state = [(table, dict(table)) for table in tables]

    def restore(self) -> None:
        """Take up that state; modules of files that came later are gone.

        Plugins of installed packages stay: their modules do, and would not register them a second time.
        """
        stay = {key: cls for key, cls in classes.registered.items() if classes.announced(*key)}
        gone = set(_places)
        for table, contents in self._state:
            table.clear()
            table.update(contents)
        classes.registered.update(stay)
        gone -= set(_places)
        for name in [name for name in sys.modules if name.partition(".")[0] in gone]:
            del sys.modules[name]


def _resolve(path: str | Path) -> Path:
    """The absolute path, no symbolic links in it, of a file or folder that may be loaded."""
    if not str(path).strip():  # an unset variable of a shell, say, is not the working directory
        raise PluginError("an empty path names no file or folder of plugins")
    try:
        root = Path(path).resolve()
        is_file, is_folder = root.is_file(), root.is_dir()
    except (OSError, ValueError, RuntimeError) as error:  # a NUL, a name too long, a loop of links
        raise PluginError(f"{str(path)!r}: cannot be read: {error}") from None
    if not is_file and not is_folder:
        raise PluginError(f"{root}: no such file or folder")
    if is_file and root.suffix != ".py":
        raise PluginError(f"{root}: not a plugin's file, which ends in .py")
    return root


def _load(root: Path) -> _Loaded:
    module = classes.FILE_PREFIX + hashlib.sha256(str(root).encode()).hexdigest()[:12]
    kept = _Kept()
    _places[module] = root
    try:
        for name in _modules(root, module):
            importlib.import_module(name)
        found = tuple(key for key, cls in classes.registered.items() if _top(cls) == module)
        if not found:
            raise PluginError("registers no plugin; a class needs a decorator such as @registry.architecture")
    except BaseException as error:
        kept.restore()
        if not isinstance(error, Exception | SystemExit):
            raise
        why = blame(error, module)
        raise PluginError(why if why.startswith(str(root)) else f"{root}: {why}") from error
    return _Loaded(module, found)


def _modules(root: Path, module: str) -> Sequence[str]:
    """The modules to import for a file, or for a folder."""
    if root.is_file():
        return [module]
    stems = sorted(file.stem for file in root.glob("*.py") if file.is_file())
    skipped = ("_", "test_")
    plugins = [stem for stem in stems if not stem.startswith(skipped) and stem != "conftest"]
    wrong = [stem for stem in plugins if not stem.isidentifier()]
    if wrong:
        raise PluginError(f"{wrong[0]}.py has no name that Python can import: letters, digits and _")
    return [module, *(f"{module}.{stem}" for stem in plugins)]


def _top(cls: type) -> str:
    return cls.__module__.partition(".")[0]


class _Source(SourceFileLoader):
    """Compiles the text of a file whenever it is imported, and notes what it was."""

    def get_code(self, fullname: str) -> CodeType:
        text = self.get_data(self.path)
        _ran[Path(self.path)] = hashlib.sha256(text).hexdigest()
        return self.source_to_code(text, self.path)


class _Finder(MetaPathFinder):
    """Finds modules of the places that were named, and no others."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        top, *inner = fullname.split(".")
        if top not in _places:
            return None
        place = _places[top].joinpath(*inner)
        if place.is_dir() and not (place / "__init__.py").is_file():
            namespace = ModuleSpec(fullname, None, is_package=True)
            namespace.submodule_search_locations = [str(place)]
            return namespace
        if place.is_dir():
            file = place / "__init__.py"
        else:
            file = place.with_suffix(".py")
            if not file.is_file():
                return None
        return spec_from_file_location(fullname, file, loader=_Source(fullname, str(file)))


sys.meta_path.insert(0, _Finder())
