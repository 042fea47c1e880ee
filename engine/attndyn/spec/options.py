"""A plugin's options in words: what `attndyn plugins` shows of its `Options` class."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from attndyn.spec.base import Section

BOUNDS = {"gt": ">", "ge": "≥", "lt": "<", "le": "≤"}


class Option(NamedTuple):
    """One option: its path in the plugin's section of a spec, and the rest in words."""

    path: str
    type: str
    default: str
    description: str


def options_of(section: type[Section], prefix: str = "") -> Iterator[Option]:
    """The options of a section, each followed by those inside it; without those that can only be one thing.

    What depends on a `kind` is not listed: the option's type says which kinds there are.
    """
    for name, field in section.model_fields.items():
        if get_origin(field.annotation) is Literal and len(get_args(field.annotation)) == 1:
            continue
        yield Option(prefix + name, _type(field), _default(field), field.description or "")
        inner = _sections(field.annotation)
        if len(inner) == 1:
            yield from options_of(inner[0], f"{prefix}{name}.")


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, Section):
        return "see below"
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _type(field: FieldInfo) -> str:
    bounds = [
        f"{sign} {getattr(mark, name)}"
        for mark in field.metadata
        for name, sign in BOUNDS.items()
        if hasattr(mark, name)
    ]
    return ", ".join([_spell(field.annotation), *bounds])


def _spell(annotation: Any) -> str:
    """A type in the words of YAML: `float`, `inv_sqrt | none`, `list of int`."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _spell(arguments[0])
    if origin is Literal:
        return " | ".join(map(str, arguments))
    if origin in (Union, types.UnionType):
        return " | ".join(_spell(argument) for argument in arguments)
    if origin in (list, tuple):
        return f"list of {_spell(arguments[0])}"
    if origin is dict:
        return f"mapping to {_spell(arguments[1])}"
    if annotation is type(None):
        return "null"
    if isinstance(annotation, type) and issubclass(annotation, Section):
        kind = annotation.model_fields.get("kind")
        return "mapping" if kind is None else f"{{kind: {_spell(kind.annotation)}}}"
    return getattr(annotation, "__name__", str(annotation))


def _sections(annotation: Any) -> list[type[Section]]:
    """The sections that are one value of an annotation such as `A | B | None`."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return [annotation]
    if get_origin(annotation) in (Union, types.UnionType, Annotated):
        return [section for inner in get_args(annotation) for section in _sections(inner)]
    return []
