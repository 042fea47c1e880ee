"""Which specs a suite has, and what `ledger.yaml` beside them adds: chapters, and claims that wait."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from pydantic import Field, ValidationError

from attndyn.spec.base import NAME, Flaw, Section
from attndyn.spec.problems import translate
from attndyn.spec.source import Findings, read_file, read_yaml

PLAN = "ledger.yaml"
SUFFIXES = (".yaml", ".yml")


class Waiting(Section):
    """A claim that nothing can be run for yet."""

    id: str = Field(max_length=64, pattern=NAME, description="short name")
    claim: str = Field(min_length=1, max_length=500, description="what is said to be so, in words")
    source: str = Field(min_length=1, max_length=200, description="who says so, and where")
    waits_for: str = Field(min_length=1, max_length=200, description="what is missing")


class Chapter(Section):
    """A heading of the ledger and the specs below it."""

    title: str = Field(min_length=1, max_length=100, description="heading")
    text: str = Field(default="", max_length=2000, description="a few lines below it")
    specs: list[str] = Field(min_length=1, description="files, relative to the folder; * stands for anything")


class Plan(Section):
    """Chapters of the ledger, and claims that wait."""

    chapters: list[Chapter] = Field(default=[], description="headings, in order")
    waiting: list[Waiting] = Field(default=[], description="claims that nothing can be run for yet")

    def flaws(self) -> Iterator[Flaw]:
        """Refuse a claim listed twice."""
        ids = [claim.id for claim in self.waiting]
        for index, name in enumerate(ids):
            if name in ids[:index]:
                yield Flaw(("waiting", index, "id"), f"the id '{name}' is given twice")

    def chapter(self, spec: str) -> int:
        """Index of the chapter of a spec, relative to the folder; one beyond the last if it has none."""
        of = (i for i, chapter in enumerate(self.chapters) if any(fnmatch(spec, p) for p in chapter.specs))
        return next(of, len(self.chapters))


def spec_files(folder: Path) -> list[Path]:
    """The specs in a folder and those below it, by name; hidden files and `ledger.yaml` are none."""
    return [
        file
        for file in sorted(folder.rglob("*"))
        if file.suffix in SUFFIXES
        and file.is_file()
        and file.name != PLAN
        and not any(part.startswith(".") for part in file.relative_to(folder).parts)
    ]


def read_plan(folder: Path) -> Plan:
    """What `ledger.yaml` in a folder says; an empty plan if there is none.

    Raises:
        SpecError: it is not as `Plan` has it.
    """
    file = folder / PLAN
    if not file.is_file():
        return Plan()
    findings = Findings()
    root = read_yaml(read_file(file), str(file), findings)
    if root is not None:
        try:
            return Plan.model_validate(root.plain())
        except ValidationError as error:
            for flaw in translate(error, Plan):
                findings.add(root.origin_of(flaw.path, flaw.at_key), flaw.path, flaw.message)
    raise findings.error()
