"""The classes that are registered, and the packages that announce others."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from attndyn.errors import PluginError
from attndyn.registry.blame import blame
from attndyn.registry.protocols import flaw

Class = TypeVar("Class", bound=type)
#: how modules that were loaded from a path are called
FILE_PREFIX = "attndyn_file_"
#: plugin classes by kind and name, in the order in which they were registered
registered: dict[tuple[str, str], type] = {}


def register(kind: str, name: str) -> Callable[[Class], Class]:
    """Class decorator that registers a plugin of `kind` (one of `KINDS`) under `name`.

    Raises:
        PluginError: the class is not what a plugin of that kind must be, or the name is another's already.
    """

    def decorate(cls: Class) -> Class:
        wrong = flaw(kind, name, cls)
        if wrong is not None:
            raise PluginError(wrong)
        for entry in _announced(kind).get(name, ()):
            if _top(entry.module) != _top(cls.__module__):
                raise PluginError(f"{kind} '{name}' is taken: {origin(kind, name)} announces it")
        holder = registered.get((kind, name))
        if holder is not None and _origin(holder) != _origin(cls):
            raise PluginError(f"{kind} '{name}' is registered twice: by {_origin(holder)} and {_origin(cls)}")
        registered[kind, name] = cls
        cls.name = name  # type: ignore[attr-defined]  # every protocol declares it
        return cls

    return decorate


def data(name: str) -> Callable[[Class], Class]:
    """Register a data source."""
    return register("data", name)


def architecture(name: str) -> Callable[[Class], Class]:
    """Register an architecture."""
    return register("architecture", name)


def optimizer(name: str) -> Callable[[Class], Class]:
    """Register an optimizer."""
    return register("optimizer", name)


def probe(name: str) -> Callable[[Class], Class]:
    """Register a probe."""
    return register("probe", name)


def analyzer(name: str) -> Callable[[Class], Class]:
    """Register an analyzer."""
    return register("analyzer", name)


def expectation(name: str) -> Callable[[Class], Class]:
    """Register a kind of expectation."""
    return register("expectation", name)


def names(kind: str) -> list[str]:
    """All names of a kind, registered or announced, sorted; nothing is imported for it."""
    return sorted({n for k, n in registered if k == kind} | set(_announced(kind)))


def get(kind: str, name: str) -> Any:
    """The plugin class of that kind and name, importing it if need be.

    Raises:
        PluginError: the name is unknown (the nearest is named), announced twice, or fails to load.
    """
    if (kind, name) not in registered:
        _load(kind, name)
    return registered[kind, name]


def announced(kind: str, name: str) -> bool:
    """Whether an installed package announces a plugin of that kind and name."""
    return name in _announced(kind)


def origin(kind: str, name: str) -> str:
    """Where a plugin comes from: `package version (module:Class)`, its file, or a script's `module:Class`."""
    entries = _announced(kind).get(name)
    if entries:
        entry = entries[0]
        return f"{_package(entry)} ({entry.value})"
    cls = registered[kind, name]
    return _file(cls) or _origin(cls)


def nearest(name: str, allowed: list[str]) -> str:
    """The ending of an error message about an unknown name: a suggestion, and all that is allowed."""
    close = difflib.get_close_matches(name, allowed, n=1, cutoff=0.5)
    hint = f"did you mean '{close[0]}'? " if close else ""
    return f"{hint}allowed: {', '.join(allowed)}"


def _load(kind: str, name: str) -> None:
    entries = _announced(kind).get(name)
    if not entries:
        raise PluginError(f"unknown {kind} '{name}'; {nearest(name, names(kind))}")
    if len({entry.value for entry in entries}) > 1:
        packages = " and ".join(sorted(f"{_package(e)} ({e.value})" for e in entries))
        raise PluginError(f"{kind} '{name}' is announced by more than one package: {packages}")
    entry = entries[0]
    try:
        entry.load()
    except (Exception, SystemExit) as error:  # a plugin's import may raise anything
        reason = blame(error, entry.module)
        raise PluginError(f"{kind} '{name}' from {origin(kind, name)} failed to load: {reason}") from error
    if (kind, name) not in registered:
        raise PluginError(f"{origin(kind, name)} does not register the {kind} '{name}' it announces")


@cache
def _announced(kind: str) -> dict[str, list[EntryPoint]]:
    found: dict[str, list[EntryPoint]] = {}
    for entry in entry_points(group=f"attndyn.{kind}"):
        found.setdefault(entry.name, []).append(entry)
    return found


def _package(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else "?"


def _origin(cls: type) -> str:
    return f"{_file(cls) or cls.__module__}:{cls.__qualname__}"


def _file(cls: type) -> str | None:
    """The file of a class that was loaded from a path, whose module has no name to speak of."""
    if not cls.__module__.startswith(FILE_PREFIX):
        return None
    return sys.modules[cls.__module__].__file__


def _top(module: str) -> str:
    return module.partition(".")[0]
