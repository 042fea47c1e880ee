"""The door through which every plugin enters, those that ship with the engine included.

A plugin is a class with a decorator (`@architecture("pure_attention")`) that an installed package announces
in an entry-point group (`attndyn.architecture`). Announced plugins are imported when first asked for, so a
broken plugin that a spec does not name does no harm.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from attndyn.errors import PluginError

KINDS = ("data", "architecture", "optimizer", "probe", "analyzer")

Class = TypeVar("Class", bound=type)
_registered: dict[tuple[str, str], type] = {}


def register(kind: str, name: str) -> Callable[[Class], Class]:
    """Class decorator that registers a plugin of `kind` (one of `KINDS`) under `name`.

    Raises:
        PluginError: another class holds the same name already.
    """

    def decorate(cls: Class) -> Class:
        holder = _registered.get((kind, name))
        if holder is not None and _origin(holder) != _origin(cls):
            raise PluginError(f"{kind} '{name}' is registered twice: by {_origin(holder)} and {_origin(cls)}")
        _registered[kind, name] = cls
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


def names(kind: str) -> list[str]:
    """All names of a kind, registered or announced, sorted; nothing is imported for it."""
    return sorted({n for k, n in _registered if k == kind} | set(_announced(kind)))


def get(kind: str, name: str) -> Any:
    """The plugin class of that kind and name, importing it if need be.

    Raises:
        PluginError: the name is unknown (the nearest is named), announced twice, or fails to load.
    """
    if (kind, name) not in _registered:
        _load(kind, name)
    return _registered[kind, name]


def origin(kind: str, name: str) -> str:
    """Where a plugin comes from: `package version (module:Class)`, or `module:Class` if not announced."""
    entries = _announced(kind).get(name)
    if entries:
        entry = entries[0]
        package = f"{entry.dist.name} {entry.dist.version}" if entry.dist else "?"
        return f"{package} ({entry.value})"
    return _origin(_registered[kind, name])


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
        packages = " and ".join(sorted({e.dist.name if e.dist else e.value for e in entries}))
        raise PluginError(f"{kind} '{name}' is announced by more than one package: {packages}")
    try:
        entries[0].load()
    except Exception as error:  # a plugin's import may raise anything
        reason = f"{type(error).__name__}: {error}"
        raise PluginError(f"{kind} '{name}' from {origin(kind, name)} failed to load: {reason}") from error
    if (kind, name) not in _registered:
        raise PluginError(f"{origin(kind, name)} does not register the {kind} '{name}' it announces")


@cache
def _announced(kind: str) -> dict[str, list[EntryPoint]]:
    found: dict[str, list[EntryPoint]] = {}
    for entry in entry_points(group=f"attndyn.{kind}"):
        found.setdefault(entry.name, []).append(entry)
    return found


def _origin(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"
