"""Option sets to check a plugin with, made from the types and bounds of its `Options` class."""

from __future__ import annotations

import itertools
import types
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import numpy as np
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from attndyn.errors import PluginError
from attndyn.spec.base import Section
from attndyn.spec.overrides import apply_overrides
from attndyn.spec.source import Findings, Node, Origin
from attndyn.spec.words import describe

#: option sets of a nested section
NESTED = 6


def option_sets(
    options: type[Section], fixed: Mapping[str, Any], limit: int, seed: int = 0
) -> list[tuple[str, Section]]:
    """Valid option sets, each with a label of what it sets: all there are, or a balanced choice of `limit`.

    Booleans and literals take every value, whole numbers their default and the three smallest, other numbers
    their default and one within the bounds, nested sections a few sets of theirs; any
    field takes its `examples`. What has no such values keeps its default.

    Args:
        options: the plugin's class of options.
        fixed: values of some options, the same in every set.
        limit: most sets to return.
        seed: of the choice, where there are more.

    Raises:
        PluginError: no valid set was found; the message says why.
    """
    choices = _choices(options, fixed)
    found: dict[str, Section] = {}
    reason = ""
    for values in _rows(choices, limit, seed):
        given = dict(zip(choices, values, strict=True))
        try:
            section = options.model_validate(given)
        except ValidationError as error:
            reason = reason or "; ".join(
                f"{'.'.join(map(str, e['loc']))}: {e['msg']}".removeprefix(": ") for e in error.errors()
            )
            continue
        except Exception as error:  # the plugin's own code may raise anything
            raise PluginError(f"its options raise {type(error).__name__}: {error}") from None
        changed = {k: v for k, v in given.items() if k not in fixed and v != choices[k][0]}
        label = ", ".join(f"{k}={_spell(v)}" for k, v in changed.items()) or "default options"
        found.setdefault(label, section)
        if len(found) == limit:
            break
    if not found:
        raise PluginError(f"no valid options for the checks could be made up: {reason}; give some with --set")
    return list(found.items())


def given_options(overrides: Sequence[str]) -> dict[str, Any]:
    """Values of options from `path=value` texts, read as a spec's are.

    Raises:
        SpecError: a text is not of that form, or its value is no YAML.
    """
    findings = Findings()
    values = apply_overrides(Node({}, Origin("options", (0, 0))), overrides, findings).plain()
    if findings:
        raise findings.error()
    return values


def _choices(options: type[Section], fixed: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Values to try of every option; the default, where there is one, comes first."""
    unknown = [name for name in fixed if name not in options.model_fields]
    if unknown:
        raise PluginError(f"it has no option '{unknown[0]}'; allowed: {', '.join(options.model_fields)}")
    choices = {}
    for name, field in options.model_fields.items():
        values = [fixed[name]] if name in fixed else _of_field(field)
        if not values:
            raise PluginError(f"no value for the option '{name}' could be made up; give one with --set")
        choices[name] = values
    return choices


def _of_field(field: FieldInfo) -> list[Any]:
    bounds = _bounds(field.metadata)
    values = [] if field.is_required() else [field.get_default(call_default_factory=True)]
    values += [*(field.examples or ()), *_of_type(field.annotation, *bounds)]
    return [v for i, v in enumerate(values) if not any(v is w or v == w for w in values[:i])]


def _bounds(metadata: Sequence[Any]) -> tuple[float | None, float | None]:
    """Least and largest value allowed, open bounds taken as closed ones."""
    low = [getattr(mark, side) for mark in metadata for side in ("ge", "gt") if hasattr(mark, side)]
    high = [getattr(mark, side) for mark in metadata for side in ("le", "lt") if hasattr(mark, side)]
    return next(iter(low), None), next(iter(high), None)


def _of_type(annotation: Any, low: float | None, high: float | None) -> list[Any]:
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *marks = get_args(annotation)
        flat = [m for mark in marks for m in (mark.metadata if isinstance(mark, FieldInfo) else [mark])]
        own = _bounds(flat)
        return _of_type(inner, own[0] if low is None else low, own[1] if high is None else high)
    if origin in (Union, types.UnionType):
        return [value for part in get_args(annotation) for value in _of_type(part, low, high)]
    if origin is Literal:
        return list(get_args(annotation))
    if annotation is type(None):
        return [None]
    if annotation is bool:
        return [False, True]
    if annotation is int:
        first = 1 if low is None else int(low)
        return [n for n in range(first, first + 3) if high is None or n <= high]
    if annotation is float:
        return [0.5 if low is None else low + 0.5 if high is None else (low + high) / 2]
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return _of_section(annotation)
    return []


def _of_section(section: type[Section]) -> list[Section]:
    """A few valid sets of a nested section; none where one of its options cannot be made up."""
    try:
        return [valid for _, valid in option_sets(section, {}, NESTED)]
    except PluginError:
        return []


def _rows(choices: Mapping[str, list[Any]], limit: int, seed: int) -> Iterator[tuple[Any, ...]]:
    """Every combination if there are no more than `limit`, else the defaults and then a random choice.

    Every option cycles through its values in an order of its own, so that each comes equally often.
    """
    columns = list(choices.values())
    if prod(len(values) for values in columns) <= limit:
        yield from itertools.product(*columns)
        return
    yield tuple(values[0] for values in columns)
    rng = np.random.default_rng(seed)
    streams = [_shuffled(values, rng) for values in columns]
    yield from itertools.islice(zip(*streams, strict=False), 50 * limit)


def _shuffled(values: list[Any], rng: np.random.Generator) -> Iterator[Any]:
    while True:
        for index in rng.permutation(len(values)):
            yield values[index]


def _spell(value: Any) -> str:
    if isinstance(value, Section):
        inner = {k: v for k, v in value.model_dump().items() if v is not None}
        return "{" + ", ".join(f"{k}: {v}" for k, v in inner.items()) + "}"
    return str(value) if isinstance(value, str | bool | int | float) or value is None else describe(value)
