"""Where a text comes from: files of this machine, files of a data set on the Hugging Face hub, the spec."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BeforeValidator, Field

from attndyn.errors import UnusableOption
from attndyn.spec.base import Flaw, LocalFile, Section
from attndyn.spec.words import quote

MAX_CHARACTERS = 2**30
"""Most characters of a text: while it is read, it is held in memory at 2 to 7 bytes a token."""


#: what the hub takes for the name of a repository, beside its length
REPO = re.compile(r"(?!.*(--|\.\.|\.git$))\w[\w.-]*/\w[\w.-]*(?<=\w)", re.ASCII)


def not_plain(file: str) -> str | None:
    """Why there is no plain file of this name to be read; None if there is one."""
    try:
        mode = os.stat(file).st_mode
    except FileNotFoundError:
        return "no such file"
    except (OSError, ValueError) as error:  # the latter of a zero byte
        return f"cannot be looked at: {getattr(error, 'strerror', None) or error}"
    if stat.S_ISDIR(mode):
        return "is a folder; a file is needed"
    return None if stat.S_ISREG(mode) else "is not a plain file"


class Located(NamedTuple):
    """A file of text.

    Attributes:
        name: what it is called in the record of a run.
        path: where it is.
        place: where the source's section names it.
    """

    name: str
    path: Path
    place: tuple[str | int, ...]


class FileOptions(Section):
    """Options common to all sources that are files: plain UTF-8, `.gz`, `.zst` or `.parquet`."""

    errors: Literal["strict", "replace"] = Field(
        default="strict", description="bytes that are no UTF-8: refused, or U+FFFD in their place"
    )
    characters: int | None = Field(
        default=None, ge=1, le=MAX_CHARACTERS, description="read no more than so many; null: all there are"
    )
    column: str = Field(default="text", min_length=1, description="of .parquet files: the column with text")


class PathSource(FileOptions):
    """Files of this machine, one after the other."""

    kind: Literal["path"]
    files: tuple[LocalFile, ...] = Field(
        strict=False, min_length=1, max_length=1000, description="relative to the spec's file"
    )

    def flaws(self) -> Iterator[Flaw]:
        """Refuse a file twice."""
        yield from _twice(self.files, "files")

    def located(self) -> list[Located]:
        """The files.

        Raises:
            UnusableOption: one is missing, or is no plain file.
        """
        found = [Located(file, Path(file), ("files", index)) for index, file in enumerate(self.files)]
        for file, _, place in found:
            if (reason := not_plain(file)) is not None:
                hint = "; --set 'data.source.files=[FILE]' names another" if reason == "no such file" else ""
                raise UnusableOption(place, f"{file}: {reason}{hint}")
        return found

    def absent(self) -> str | None:
        """See `DataOptions.absent`: a file that there is not, or that cannot be looked at."""
        reasons = ((file, not_plain(file)) for file in self.files)
        return next((f"{file}: {reason}" for file, reason in reasons if reason is not None), None)


def _twice(files: tuple[str, ...], key: str) -> Iterator[Flaw]:
    """A file has one place in a text, under which its SHA-256 is kept."""
    for index, file in enumerate(files):
        if file in files[:index]:
            yield Flaw((key, index), "is given twice")


def _listed(value: Any) -> Any:
    """One path as a list of one."""
    return [value] if isinstance(value, str) else value


HubFile = Annotated[str, Field(min_length=1, max_length=4096)]
HubFiles = Annotated[
    tuple[HubFile, ...],
    Field(strict=False, min_length=1, max_length=1000),
    BeforeValidator(
        _listed,
        json_schema_input_type=HubFile | Annotated[list[HubFile], Field(min_length=1, max_length=1000)],
    ),
]


class HubSource(FileOptions):
    """Files of a data set on the Hugging Face hub, at a pinned revision; kept in the hub's usual cache."""

    kind: Literal["hub"]
    repo: str = Field(pattern=r"^[\w.-]+/[\w.-]+$", description="of the data set, owner/name")
    revision: str = Field(pattern=r"^[0-9a-f]{40}$", description="commit of the data set, 40 digits")
    file: HubFiles = Field(
        description="path of the file in the data set, or a list of paths, one after the other"
    )

    def flaws(self) -> Iterator[Flaw]:
        """Refuse a file twice, and names that the hub would refuse, or that lead out of the data set."""
        yield from _twice(self.file, "file")
        if not REPO.fullmatch(self.repo) or max(map(len, self.repo.split("/"))) > 96:
            allowed = "the hub has letters, digits and single -, _ and . inside a name, at most 96"
            yield Flaw(("repo",), f"found {quote(self.repo)}, the name of no data set; {allowed}")
        for index, file in enumerate(self.file):
            if any(part in ("", ".", "..") for part in file.split("/")) or not file.isprintable():
                message = f"found {quote(file)}; a path inside the data set is needed"
                yield Flaw(self._place(index), message)

    def located(self) -> Iterator[Located]:
        """The files in the cache, where each is put, if it is not there, when it is asked for.

        Raises:
            UnusableOption: huggingface-hub is missing, or a file cannot be had.
        """
        try:
            from huggingface_hub import hf_hub_download, try_to_load_from_cache
        except ImportError:
            message = "needs the package huggingface-hub: pip install 'attndyn[corpora]'"
            raise UnusableOption(("kind",), message) from None
        for index, file in enumerate(self.file):
            name = self._name(file)
            try:
                path = try_to_load_from_cache(self.repo, file, revision=self.revision, repo_type="dataset")
                if not isinstance(path, str):
                    path = hf_hub_download(self.repo, file, revision=self.revision, repo_type="dataset")
            except Exception as error:  # the library raises its own errors and those of what it is built on
                message = f"{name}: is not in the cache and cannot be fetched ({_said(error)})"
                option = BLAMED.get(type(error).__name__)
                raise UnusableOption((option,) if option else self._place(index), message) from None
            yield Located(name, Path(path), self._place(index))

    def absent(self) -> str | None:
        """See `DataOptions.absent`: what is not in the cache, though a run might fetch it."""
        try:
            from huggingface_hub import try_to_load_from_cache
        except ImportError:
            return f"{self._name(self.file[0])}: needs the package huggingface-hub"
        for file in self.file:
            try:
                path = try_to_load_from_cache(self.repo, file, revision=self.revision, repo_type="dataset")
            except Exception as error:  # see `located`
                return f"{self._name(file)}: cannot be looked up in the cache ({_said(error)})"
            if not isinstance(path, str):
                return f"{self._name(file)}: is not in the cache"
        return None

    def _place(self, index: int) -> tuple[str | int, ...]:
        """Where a file is named; one alone may stand without a list."""
        return ("file", index) if len(self.file) > 1 else ("file",)

    def _name(self, file: str) -> str:
        """What a file is called in the record of a run."""
        return f"{self.repo}@{self.revision}/{file}"


#: options to blame for errors of the library, by their names
BLAMED = {
    "HFValidationError": "repo",
    "RepositoryNotFoundError": "repo",
    "GatedRepoError": "repo",
    "RevisionNotFoundError": "revision",
}


def _said(error: Exception) -> str:
    """What an error says, in a line."""
    return " ".join(str(error).split())[:400] or type(error).__name__


class TextSource(Section):
    """A text that stands in the spec itself: for examples and tests."""

    kind: Literal["text"]
    text: str = Field(
        max_length=2**20,
        description="the text",
        examples=["the cat saw the dog , the dog saw a cat and the cat ran .\n" * 8],
    )

    def absent(self) -> str | None:
        """See `DataOptions.absent`: nothing, it is all here."""
        return None


Source = Annotated[PathSource | HubSource | TextSource, Field(discriminator="kind")]
