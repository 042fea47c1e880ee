"""From `replicas:` to concrete replicas: every combination of what varies, times every seed."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from attndyn.registry import nearest
from attndyn.spec.base import Flaw, Section, Varies
from attndyn.spec.problems import translate
from attndyn.spec.words import shorten, spell

if TYPE_CHECKING:
    from attndyn.spec.sections import Spec

MAX_REPLICAS = 4096
RESERVED = {"replica", "seed", "step", "time", "token", "next_token", "pi", "transition", "count"}
"""Names that a trajectory's root has already."""


@dataclass(frozen=True)
class Replicas:
    """What the replica axis holds, in its order.

    Attributes:
        specs: one spec a replica, with one seed and nothing varied: run alone, it is that replica.
        seeds: seed of each replica.
        varied: path in the spec to its value in each replica.
        coordinates: path in the spec to the name of its coordinate in the trajectory.
    """

    specs: tuple[Spec, ...]
    seeds: tuple[int, ...]
    varied: dict[str, tuple[Any, ...]]
    coordinates: dict[str, str]

    def __len__(self) -> int:
        return len(self.seeds)


def expand(spec: Spec) -> Replicas:
    """The replicas of a valid spec: first path outermost, seeds innermost."""
    options = spec.replicas
    specs = []
    for chosen in _combinations(spec):
        sections, _ = _with_values(spec, chosen)
        for seed in range(options.base_seed, options.base_seed + options.seeds):
            alone = type(options)(base_seed=seed)
            specs.append(spec.model_copy(update={**sections, "replicas": alone}))
    return Replicas(
        specs=tuple(specs),
        seeds=tuple(each.replicas.base_seed for each in specs),
        varied={path: tuple(_value(each, path) for each in specs) for path in options.vary},
        coordinates=_coordinate_names(list(options.vary)),
    )


def replica_flaws(spec: Spec) -> Iterator[Flaw]:
    """Problems of `replicas`: too many, paths that may not vary, values that are not allowed there."""
    options = spec.replicas
    count = options.count()
    if count > MAX_REPLICAS:
        yield Flaw(("replicas",), f"{count} replicas; at most {MAX_REPLICAS} run side by side")
        return
    allowed = list(_paths_that_vary(spec, ""))
    wrong = [path for path in options.vary if path not in allowed]
    for path in wrong:
        if _exists(spec, path):
            message = f"cannot vary between replicas, which share their shapes; allowed: {', '.join(allowed)}"
        else:
            message = f"no such path; {nearest(shorten(path), allowed)}"
        yield Flaw(("replicas", "vary", path), message, at_key=True)
    lengths = {path: len(values) for path, values in options.vary.items()}
    if options.combine == "zip" and len(set(lengths.values())) > 1:
        listed = ", ".join(f"{path} has {length}" for path, length in lengths.items())
        yield Flaw(("replicas", "vary"), f"zip needs lists of equal length; {listed}")
    elif not wrong:
        found = (
            _blame(flaw, spec, chosen) for chosen in _combinations(spec) for flaw in _flaws_of(spec, chosen)
        )
        yield from dict.fromkeys(found)


def _combinations(spec: Spec) -> Iterator[dict[str, int]]:
    """Which value, by its index in the list, each varied path takes in each combination."""
    vary = spec.replicas.vary
    if not vary:
        yield {}
        return
    ranges = [range(len(values)) for values in vary.values()]
    chosen = itertools.product(*ranges) if spec.replicas.combine == "grid" else zip(*ranges, strict=True)
    for indices in chosen:
        yield dict(zip(vary, indices, strict=True))


def _flaws_of(spec: Spec, chosen: dict[str, int]) -> list[Flaw]:
    return _with_values(spec, chosen)[1]


def _with_values(spec: Spec, chosen: dict[str, int]) -> tuple[dict[str, Section], list[Flaw]]:
    """The sections of one combination, validated, and what is wrong with them."""
    sections: dict[str, Section] = {}
    found: list[Flaw] = []
    for name in dict.fromkeys(path.split(".")[0] for path in chosen):
        before: Section = getattr(spec, name)
        values = {name: before.model_dump()}
        for path, index in chosen.items():
            if path.startswith(f"{name}."):
                _put(values, path.split("."), spec.replicas.vary[path][index])
        try:
            sections[name] = type(before).model_validate(values[name])
        except ValidationError as error:
            found += [f._replace(path=(name, *f.path)) for f in translate(error, type(before))]
    found += _changed_lengths(spec, sections, chosen)
    return sections, found


def _changed_lengths(spec: Spec, sections: dict[str, Section], chosen: dict[str, int]) -> Iterator[Flaw]:
    """Vectors whose length differs from that in the spec: replicas share their shapes."""
    for path in chosen:
        name = path.split(".")[0]
        if name in sections:
            before, after = _value(spec, path), _value(spec.model_copy(update=sections), path)
            if isinstance(before, tuple) and isinstance(after, tuple) and len(before) != len(after):
                message = (
                    f"found a list of {len(after)}; all replicas need the length of {path}, {len(before)}"
                )
                yield Flaw(tuple(path.split(".")), message)


def _blame(flaw: Flaw, spec: Spec, chosen: dict[str, int]) -> Flaw:
    """The flaw of a combination laid to the varied value it is about, else to the last one involved."""
    for path, index in chosen.items():
        steps = tuple(path.split("."))
        if flaw.path[: len(steps)] == steps:
            return Flaw(("replicas", "vary", path, index, *flaw.path[len(steps) :]), flaw.message)
    involved = [path for path in chosen if path.split(".")[0] == flaw.path[0]]
    settings = ", ".join(f"{path} = {spec.replicas.vary[path][chosen[path]]}" for path in involved)
    place = ("replicas", "vary", involved[-1], chosen[involved[-1]])
    return Flaw(place, f"with {settings}: {spell(flaw.path)}: {flaw.message}")


def _paths_that_vary(section: Section, prefix: str) -> Iterator[str]:
    """Paths of the fields marked `Varies`, as the chosen plugins and options have them."""
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        if any(isinstance(mark, Varies) for mark in field.metadata):
            yield prefix + name
        if isinstance(value, Section):
            yield from _paths_that_vary(value, f"{prefix}{name}.")
        elif isinstance(value, dict):
            for key, entry in value.items():
                if isinstance(entry, Section):
                    yield from _paths_that_vary(entry, f"{prefix}{name}.{key}.")


def _exists(spec: Spec, path: str) -> bool:
    try:
        _value(spec, path)
    except (AttributeError, KeyError, TypeError):
        return False
    return all(part.isidentifier() and not part.startswith("_") for part in path.split("."))


def _coordinate_names(paths: list[str]) -> dict[str, str]:
    """The last part of each path, or all of it where the last part is taken."""
    last = [path.rsplit(".", 1)[-1] for path in paths]
    taken = {name for name in last if last.count(name) > 1} | RESERVED
    return {p: p.replace(".", "_") if n in taken else n for p, n in zip(paths, last, strict=True)}


def _put(values: dict[str, Any], steps: list[str], value: Any) -> None:
    for step in steps[:-1]:
        values = values[step]
    values[steps[-1]] = value


def _value(spec: Spec, path: str) -> Any:
    return functools.reduce(_step, path.split("."), spec)


def _step(value: Any, name: str) -> Any:
    return value[name] if isinstance(value, dict) else getattr(value, name)
