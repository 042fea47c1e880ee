"""Where a text comes from: files of this machine, a file of a data set on the Hugging Face hub, the spec."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from attndyn.errors import UnusableOption
from attndyn.spec.base import LocalFile, Section

MAX_CHARACTERS = 2**30
"""Most characters of a text: what is tokenized is held in memory, at 2 to 4 bytes a token."""


class Located(NamedTuple):
    """A file of text: what it is called in the record of a run, and where it is."""

    name: str
    path: Path


class FileOptions(Section):
    """Options common to all sources that are files: plain UTF-8, `.gz`, `.zst` or `.parquet`."""

    errors: Literal["strict", "replace"] = Field(
        default="strict", description="bytes that are no UTF-8: refused, or each read as U+FFFD"
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

    def located(self) -> list[Located]:
        """The files.

        Raises:
            UnusableOption: one is missing, or is a folder.
        """
        for index, file in enumerate(self.files):
            place = ("files", index)
            if Path(file).is_dir():
                raise UnusableOption(place, f"{file}: is a folder; a file of text is needed")
            if not Path(file).is_file():
                raise UnusableOption(place, f"{file}: no such file")
        return [Located(file, Path(file)) for file in self.files]

    def absent(self) -> str | None:
        """See `DataOptions.absent`: a file that there is not."""
        missing = [file for file in self.files if not Path(file).exists()]
        return f"{missing[0]}: no such file" if missing else None


class HubSource(FileOptions):
    """A file of a data set on the Hugging Face hub, at a pinned revision; kept in the hub's usual cache."""

    kind: Literal["hub"]
    repo: str = Field(pattern=r"^[\w.-]+/[\w.-]+$", description="of the data set, owner/name")
    revision: str = Field(pattern=r"^[0-9a-f]{40}$", description="commit of the data set, 40 digits")
    file: str = Field(min_length=1, description="path of the file in the data set")

    @property
    def _name(self) -> str:
        """What the file is called in the record of a run."""
        return f"{self.repo}@{self.revision}/{self.file}"

    def located(self) -> list[Located]:
        """The file in the cache, where it is put if it is not there.

        Raises:
            UnusableOption: huggingface-hub is missing, or the file cannot be had.
        """
        try:
            from huggingface_hub import hf_hub_download, try_to_load_from_cache
        except ImportError:
            message = "needs the package huggingface-hub: pip install 'attndyn[corpora]'"
            raise UnusableOption(("kind",), message) from None
        name = self._name
        try:
            path = try_to_load_from_cache(self.repo, self.file, revision=self.revision, repo_type="dataset")
            if not isinstance(path, str):
                path = hf_hub_download(self.repo, self.file, revision=self.revision, repo_type="dataset")
        except Exception as error:  # the library raises its own errors and those of what it is built on
            said = " ".join(str(error).split())[:200] or type(error).__name__
            message = f"{name}: is not in the cache and cannot be fetched ({said})"
            raise UnusableOption(("file",), message) from None
        return [Located(name, Path(path))]

    def absent(self) -> str | None:
        """See `DataOptions.absent`: what is not in the cache, though a run might fetch it."""
        try:
            from huggingface_hub import try_to_load_from_cache
        except ImportError:
            return f"{self._name}: needs the package huggingface-hub"
        path = try_to_load_from_cache(self.repo, self.file, revision=self.revision, repo_type="dataset")
        return None if isinstance(path, str) else f"{self._name}: is not in the cache"


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
