"""Selections: which number of a run an expectation speaks of, by labels only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import yaml
from pydantic import Field

from attndyn.spec.base import Flaw, Path, Section
from attndyn.spec.words import describe

#: words for a step beside the boundaries of the `stages` analyzer
ENDS = ("first", "last")


class Selection(Section):
    """One number for each replica: a variable of a probe or an analyzer, its labels, and when.

    A variable over steps needs one of `step`, `at`, `window`; a window, or several labels, what is taken of
    it. Dimensions of length 1 need no label.
    """

    probe: str | None = Field(default=None, description="the probe that recorded it")
    analyzer: str | None = Field(default=None, description="or the analyzer of the spec that computed it")
    variable: str = Field(min_length=1, description="name of the variable")
    labels: dict[str, Any] = Field(default={}, description="by dimension: a label, or a list of labels")
    across: Literal["min", "max", "mean"] | None = Field(
        default=None, description="what is taken over the labels of every dimension that is left"
    )
    step: int | None = Field(default=None, ge=0, description="the step at which it is read")
    at: str | None = Field(
        default=None, min_length=1, description="first, last, or a boundary of the stages at which it is read"
    )
    window: list[Any] | None = Field(
        default=None, min_length=2, max_length=2, description="two of these: from where to where"
    )
    take: Literal["min", "max", "mean", "range", "step_of_min", "step_of_max"] | None = Field(
        default=None, description="what is taken over the window"
    )

    def flaws(self) -> Iterator[Flaw]:
        """Refuse two sources or none, two times, and words that are no labels."""
        if (self.probe is None) == (self.analyzer is None):
            yield Flaw((), "give exactly one of probe, analyzer")
        whens = [name for name in ("step", "at", "window") if getattr(self, name) is not None]
        if len(whens) > 1:
            yield Flaw((whens[1],), f"give one of step, at, window; found {' and '.join(whens)}", at_key=True)
        if (self.window is None) != (self.take is None):
            yield Flaw((), "window and take belong together; found one of them only")
        for dim, label in self.labels.items():
            if not _is_label(label) and not (
                isinstance(label, list) and label and all(map(_is_label, label))
            ):
                yield Flaw(
                    ("labels", dim), f"found {describe(label)}; a label, or a list of labels, is needed"
                )
            elif isinstance(label, list) and len(set(map(str, label))) < len(label):
                yield Flaw(("labels", dim), "a label is given twice")
        window = self.window or []
        if _reversed(window):
            yield Flaw(("window",), f"ends before it begins: {window[0]} to {window[1]}")
        for index, edge in enumerate(window):
            if isinstance(edge, bool) or not (
                (isinstance(edge, int) and edge >= 0) or (isinstance(edge, str) and edge)
            ):
                message = f"found {describe(edge)}; a step, first, last or a boundary of the stages is needed"
                yield Flaw(("window", index), message)

    @property
    def boundaries(self) -> dict[Path, str]:
        """Boundaries of the stages that it names, by their place in the section."""
        named = {("at",): self.at} | {("window", i): edge for i, edge in enumerate(self.window or ())}
        return {path: name for path, name in named.items() if isinstance(name, str) and name not in ENDS}

    @property
    def steps(self) -> dict[Path, int]:
        """Steps that it names, by their place in the section."""
        named = {("step",): self.step} | {("window", i): edge for i, edge in enumerate(self.window or ())}
        return {path: step for path, step in named.items() if isinstance(step, int)}

    def __str__(self) -> str:
        labels = [f"{dim} {_spell(label)}" for dim, label in self.labels.items()]
        when = f"at {self.at}" if self.at else f"at step {self.step}" if self.step is not None else ""
        if self.window:
            when = f"{self.take} from {self.window[0]} to {self.window[1]}"
        inner = ", ".join([*([f"{self.across} of the rest"] if self.across else []), *labels, when]).strip(
            ", "
        )
        return f"{self.probe or self.analyzer}.{self.variable}" + (f" ({inner})" if inner else "")


class Curves(Selection):
    """A selection of all records, entry by entry: it has no time, and dimensions may be left open."""

    step: None = Field(default=None, description="not here: all records are looked at")
    at: None = Field(default=None, description="not here")
    window: None = Field(default=None, description="not here")
    take: None = Field(default=None, description="not here")


class Reference(Section):
    """Another run: of another spec, or of the same one with other values."""

    spec: str | None = Field(
        default=None, min_length=1, description="file of the spec, relative to this one; default: this one"
    )
    set: dict[str, Any] = Field(default={}, description="values to put in, by their path in the spec")

    def flaws(self) -> Iterator[Flaw]:
        """Refuse a run that is not another."""
        if self.spec is None and not self.set:
            yield Flaw((), "names no other run; give spec, set or both")

    @property
    def overrides(self) -> list[str]:
        """The changes as `path=value`, as they are written after `--set`."""
        return [f"{path}={_flow(value)}" for path, value in self.set.items()]

    def __str__(self) -> str:
        changes = ", ".join(f"{path} = {value}" for path, value in self.set.items())
        return " with ".join(part for part in (self.spec, changes) if part)


def selections(options: Section, path: Path = ()) -> Iterator[tuple[Path, Selection]]:
    """Every selection in an expectation's options, with its place; not those of another run's."""
    for name in type(options).model_fields:
        value = getattr(options, name)
        if isinstance(value, Selection):
            yield (*path, name), value
        elif isinstance(value, Section):
            yield from selections(value, (*path, name))


def references(options: Section, path: Path = ()) -> Iterator[tuple[Path, Reference]]:
    """Every other run that an expectation's options name, with its place."""
    for name in type(options).model_fields:
        value = getattr(options, name)
        for index, each in enumerate(value if isinstance(value, list) else [value]):
            place = (*path, name, index) if isinstance(value, list) else (*path, name)
            if isinstance(each, Reference):
                yield place, each
            elif isinstance(each, Section):
                yield from references(each, place)


def _flow(value: Any) -> str:
    """A value as YAML on one line."""
    text: str = yaml.safe_dump(value, default_flow_style=True, width=10**6).strip()
    return text.removesuffix("...").strip()


def _is_label(value: Any) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _reversed(window: Sequence[Any]) -> bool:
    """Whether a window is empty whatever the run does."""
    if len(window) != 2:
        return False
    start, end = window
    if all(isinstance(edge, int) for edge in window):
        return bool(start > end)
    return start != end and (start == "last" or end == "first")


def _spell(label: Any) -> str:
    return "/".join(map(str, label)) if isinstance(label, list) else str(label)
