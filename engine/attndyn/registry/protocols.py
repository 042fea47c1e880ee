"""What makes a class a plugin of its kind, by name only: the registry is below all that it registers."""

from __future__ import annotations

import inspect
import re
from typing import Any, NamedTuple, get_args

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}", re.ASCII)


class Protocol(NamedTuple):
    """What every plugin of a kind has in common.

    Attributes:
        base: the class that it inherits from.
        options: the class that its `Options` inherits from.
        tag: the option that holds its name in a spec; empty where the name is a key.
    """

    base: str
    options: str
    tag: str


PROTOCOLS = {
    "data": Protocol("attndyn.data.source.DataSource", "attndyn.spec.base.DataOptions", "kind"),
    "architecture": Protocol(
        "attndyn.layers.architecture.Architecture", "attndyn.spec.base.ModelOptions", "architecture"
    ),
    "optimizer": Protocol("attndyn.optim.optimizer.Optimizer", "attndyn.spec.base.OptimizerOptions", "kind"),
    "probe": Protocol("attndyn.simulation.probe.Probe", "attndyn.spec.base.ProbeOptions", ""),
    "analyzer": Protocol("attndyn.analysis.analyzer.Analyzer", "attndyn.spec.base.AnalyzerOptions", "kind"),
    "expectation": Protocol(
        "attndyn.conformance.expectation.Expectation", "attndyn.spec.base.ExpectationOptions", "kind"
    ),
}
KINDS = tuple(PROTOCOLS)


def flaw(kind: str, name: str, cls: type) -> str | None:
    """What keeps `cls` from being a plugin of that kind and name; None if nothing does."""
    if kind not in PROTOCOLS:
        return f"there is no kind of plugin '{kind}'; allowed: {', '.join(KINDS)}"
    if not isinstance(name, str) or not NAME.fullmatch(name):
        return f"{name!r} is no name for a plugin: a letter, then letters, digits, _ and -, at most 64"
    protocol = PROTOCOLS[kind]
    if not isinstance(cls, type):
        return f"{name} is no class; a plugin is one that inherits from {protocol.base}"
    base = _ancestor(cls, protocol.base)
    if base is None:
        return f"{cls.__qualname__} does not inherit from {protocol.base}"
    declared = [
        attribute
        for attribute, annotation in inspect.get_annotations(base).items()
        if str(annotation).startswith("ClassVar") and attribute != "name"
    ]
    missing = [a for a in declared if not hasattr(cls, a)]
    missing += sorted(getattr(cls, "__abstractmethods__", ()))
    if missing:
        return f"{cls.__qualname__} lacks {', '.join(missing)}; see {protocol.base}"
    return _flaw_of_options(protocol, name, cls)


def _flaw_of_options(protocol: Protocol, name: str, cls: Any) -> str | None:
    options = cls.Options
    if not isinstance(options, type) or _ancestor(options, protocol.options) is None:
        return f"{cls.__qualname__}.Options does not inherit from {protocol.options}"
    if protocol.tag:
        allowed = get_args(options.model_fields[protocol.tag].annotation)  # type: ignore[attr-defined]
        if allowed and name not in allowed:
            return f"{cls.__qualname__}.Options.{protocol.tag} allows {allowed[0]!r}, not the name {name!r}"
    return None


def _ancestor(cls: type, dotted: str) -> type | None:
    return next((c for c in cls.__mro__ if f"{c.__module__}.{c.__qualname__}" == dotted), None)
