"""Where a text comes from: files of this machine, files of a data set on the Hugging Face hub, the spec."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BeforeValidator, Field

from attndyn.errors import UnusableOption
from attndyn.spec.base import Flaw, LocalFile, Section

MAX_CHARACTERS = 2**30
"""Most characters of a text: what is tokenized is held in memory."""


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
            UnusableOption: one is missing, or is a folder.
        """
        found = [Located(file, Path(file), ("files", index)) for index, file in enumerate(self.files)]
        for file, path, place in found:
            if path.is_dir():
                raise UnusableOption(place, f"{file}: is a folder; a file of text is needed")
            if not path.is_file():
                raise UnusableOption(place, f"{file}: no such file")
        return found

    def absent(self) -> str | None:
        """See `DataOptions.absent`: a file that there is not."""
        missing = [file for file in self.files if not Path(file).exists()]
        return f"{missing[0]}: no such file" if missing else None


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
        """Refuse a file twice."""
        yield from _twice(self.file, "file")

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
            place = ("file", index) if len(self.file) > 1 else ("file",)
            try:
                path = try_to_load_from_cache(self.repo, file, revision=self.revision, repo_type="dataset")
                if not isinstance(path, str):
                    path = hf_hub_download(self.repo, file, revision=self.revision, repo_type="dataset")
            except Exception as error:  # the library raises its own errors and those of what it is built on
                said = " ".join(str(error).split())[:200] or type(error).__name__
                message = f"{name}: is not in the cache and cannot be fetched ({said})"
                raise UnusableOption(place, message) from None
            yield Located(name, Path(path), place)

    def absent(self) -> str | None:
        """See `DataOptions.absent`: what is not in the cache, though a run might fetch it."""
        try:
            from huggingface_hub import try_to_load_from_cache
        except ImportError:
            return f"{self._name(self.file[0])}: needs the package huggingface-hub"
        for file in self.file:
            path = try_to_load_from_cache(self.repo, file, revision=self.revision, repo_type="dataset")
            if not isinstance(path, str):
                return f"{self._name(file)}: is not in the cache"
        return None

    def _name(self, file: str) -> str:
        """What a file is called in the record of a run."""
        return f"{self.repo}@{self.revision}/{file}"


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
