"""Pydantic's errors in plain words: what was found, and what is allowed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from attndyn.registry import nearest
from attndyn.spec.base import NAME, Flaw, Path
from attndyn.spec.words import describe, quote, shorten

WANTED = {
    "bool_type": "true or false is needed",
    "dict_type": "a mapping is needed",
    "finite_number": "a finite number is needed",
    "float_type": "a number is needed",
    "int_type": "a whole number is needed",
    "list_type": "a list is needed",
    "model_attributes_type": "a mapping is needed",
    "model_type": "a mapping is needed",
    "string_type": "a string is needed",
    "tuple_type": "a list is needed",
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "too_short": "needs at least {min_length}",
    "too_long": "may have at most {max_length}",
    "string_too_short": "needs at least {min_length} characters",
    "string_too_long": "may have at most {max_length} characters",
}

PATTERNS = {NAME: "letters, digits, dots, dashes and underscores are allowed, a letter or digit first"}
"""Regular expressions in words."""


def translate(error: ValidationError, model: type[BaseModel]) -> Iterator[Flaw]:
    """Each error of validating something against `model`, with its place in it."""
    for detail in error.errors(include_url=False):
        path, allowed = _place(detail["loc"], model, detail["type"])
        yield from _explain(detail, path, allowed)


def _explain(detail: ErrorDetails, path: Path, allowed: list[str]) -> Iterator[Flaw]:
    kind, found, context = detail["type"], detail["input"], detail.get("ctx", {})
    if kind == "flaws":
        for flaw in context["flaws"]:
            yield flaw._replace(path=(*path, *flaw.path))
    elif kind == "missing":
        yield Flaw(path, "is missing; this key is required")
    elif kind == "extra_forbidden":
        yield Flaw(path, f"unknown key; {nearest(shorten(str(path[-1])), allowed)}", at_key=True)
    elif kind == "literal_error":
        yield Flaw(path, unknown(found, _names(context["expected"])))
    elif kind == "union_tag_invalid":
        key = context["discriminator"].strip("'")
        yield Flaw((*path, key), unknown(found[key], _names(context["expected_tags"])))
    elif kind == "union_tag_not_found":
        key = context["discriminator"].strip("'")
        yield Flaw((*path, key), "is missing; this key is required")
    elif kind == "too_short" and len(found) >= context["min_length"]:
        return  # Pydantic counts valid items only; the invalid ones have been reported
    elif kind == "string_pattern_mismatch" and (said := PATTERNS.get(context["pattern"])):
        yield Flaw(path, f"found {describe(found)}; {said}")
    elif kind == "value_error":
        yield Flaw(path, f"found {describe(found)}; {context['error']}")
    else:
        limits = {key: f"{v:g}" if isinstance(v, float) else v for key, v in context.items()}
        wanted = WANTED.get(kind, "").format(**limits) or detail["msg"]
        yield Flaw(path, f"found {describe(found)}; {wanted}")


def unknown(found: Any, allowed: list[str]) -> str:
    """Message for a name that is none of those allowed."""
    if not isinstance(found, str):
        return f"found {describe(found)}; {nearest('', allowed)}"
    return f"found {quote(found)}; {nearest(shorten(found), allowed)}"


def _names(listed: str) -> list[str]:
    """The names in Pydantic's `'a', 'b' or 'c'`."""
    return listed.split("'")[1::2]


def _place(loc: Path, model: type[BaseModel], kind: str) -> tuple[Path, list[str]]:
    """A Pydantic location without the tags of unions, and the keys allowed beside the last one."""
    path: list[str | int] = []
    models, around = [model], [model]
    for depth, step in enumerate(loc):
        fields = [m.model_fields[step] for m in models if isinstance(step, str) and step in m.model_fields]
        # of several models, the tag of one comes before its keys, one of which may have the tag's name
        tagged = [m for m in models if (not fields or len(models) > 1) and _has_tag(m, step)]
        if tagged and not (kind == "extra_forbidden" and depth == len(loc) - 1):
            models = tagged
            continue
        path.append(step)
        around = models
        if isinstance(step, str):
            models = [m for f in fields for m in _members(f.annotation)]
    return tuple(path), [name for m in around for name in m.model_fields]


def _has_tag(model: type[BaseModel], tag: str | int) -> bool:
    return any(tag in get_args(field.annotation) for field in model.model_fields.values())


def _members(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models inside an annotation such as `list[A | B] | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _members(inner)
