"""From text to pieces: words, characters, bytes, or what a file of the `tokenizers` library says.

An encoder numbers pieces as it meets them; which of them become tokens of the vocabulary, and in what order,
is not its concern (`vocabulary`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal
from unicodedata import category

import numpy as np
from pydantic import Field

from attndyn.data.corpus.sources import not_plain
from attndyn.errors import UnusableOption
from attndyn.spec.base import LocalFile, Section

MAX_SIZE = 2**17
SIZE = Field(default=None, ge=2, le=MAX_SIZE, description="most tokens, <unk> included; null: all there are")

# a special token such as <unk>, a word with its apostrophes and joiners, a single other character;
# letters go with the marks after them, which Python does not count among \w: vowels of Hindi, accents
_WORDS = r"<\|?\w+\|?>|W(?:['’\u200c\u200d]W)*|[^\w\s]"


@cache
def _words() -> str:
    """The pattern of words and single signs."""
    points = [p for p in (*range(0x300, 0x20000), *range(0xE0100, 0xE01F0)) if category(chr(p))[0] == "M"]
    runs: list[list[int]] = []
    for point in points:
        if runs and point == runs[-1][1] + 1:
            runs[-1][1] = point
        else:
            runs.append([point, point])
    marks = "".join(f"{chr(first)}-{chr(last)}" for first, last in runs)
    return _WORDS.replace("W", rf"\w+(?:[{marks}]+\w*)*")


class Encoder:
    """What every encoder does; a fresh one for every text.

    Attributes:
        sha256: of the file it was made from, if any, by its path.
    """

    sha256: dict[str, str]

    def __init__(self) -> None:
        self.sha256 = {}

    def ids(self, text: str) -> np.ndarray:
        """The pieces of a text by number, int32."""
        raise NotImplementedError

    def names(self, ids: np.ndarray) -> list[str]:
        """The pieces of these numbers."""
        raise NotImplementedError


class Word(Section):
    """Words and punctuation; the vocabulary is the most frequent of them."""

    kind: Literal["word"] = "word"
    size: int = Field(default=2000, ge=2, le=MAX_SIZE, description="most words; with `token`, <unk> is one")
    unknown: Literal["token", "drop", "split"] = Field(
        default="token", description="other words: the token <unk>, left out, or spelled in characters"
    )
    case: Literal["keep", "fold"] = Field(default="keep", description="fold: all letters small")
    split: Literal["punctuation", "spaces"] = Field(
        default="punctuation", description="words and single signs, or whatever stands between spaces"
    )
    spaces: bool = Field(default=False, description="a run of spaces is the token <space>")
    line_breaks: bool = Field(default=False, description="a line break is the token <newline>")

    def encoder(self) -> Encoder:
        """A fresh encoder."""
        return _Words(self)


class Char(Section):
    """Characters."""

    kind: Literal["char"]
    size: int | None = SIZE
    case: Literal["keep", "fold"] = Field(default="keep", description="fold: all letters small")

    def encoder(self) -> Encoder:
        """A fresh encoder."""
        return _Characters(self.case == "fold")


class Byte(Section):
    """Bytes of the text in UTF-8."""

    kind: Literal["byte"]

    def encoder(self) -> Encoder:
        """A fresh encoder."""
        return _Bytes()


class TokenizerFile(Section):
    """A file of the `tokenizers` library, `tokenizer.json`; texts are encoded line by line."""

    kind: Literal["file"]
    file: LocalFile = Field(description="relative to the spec's file")
    size: int | None = SIZE

    def encoder(self) -> Encoder:
        """A fresh encoder.

        Raises:
            UnusableOption: the library is missing, or the file is none of its files.
        """
        return _Library(self.file)


Tokenizer = Annotated[Word | Char | Byte | TokenizerFile, Field(discriminator="kind")]


class _Numbers(dict[str, int]):
    """Numbers pieces in the order in which they come; one to be folded has the number of the folded one."""

    def __init__(self, fold: bool):
        self._fold = fold
        self.pieces: list[str] = []

    def __missing__(self, piece: str) -> int:
        folded = piece.lower() if self._fold else piece
        if folded != piece:
            number = self[folded]
        else:
            number = len(self.pieces)
            self.pieces.append(piece)
        self[piece] = number
        return number


class _Words(Encoder):
    def __init__(self, options: Word):
        super().__init__()
        pattern = r"\S+" if options.split == "spaces" else _words()
        if options.line_breaks:
            pattern += r"|\n"
        if options.spaces:
            pattern += r"|[^\S\n]+"
        self._find: Callable[[str], list[str]] = re.compile(pattern).findall
        self._numbers = _Numbers(options.case == "fold")

    def ids(self, text: str) -> np.ndarray:
        words = self._find(text)
        return np.fromiter(map(self._numbers.__getitem__, words), np.int32, len(words))

    def names(self, ids: np.ndarray) -> list[str]:
        found = [self._numbers.pieces[i] for i in ids]
        return [" " if piece.isspace() and piece != "\n" else piece for piece in found]


class _Characters(Encoder):
    def __init__(self, fold: bool):
        super().__init__()
        self._fold = fold

    def ids(self, text: str) -> np.ndarray:
        text = text.lower() if self._fold else text
        return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<i4").astype(np.int32)

    def names(self, ids: np.ndarray) -> list[str]:
        return [chr(i) for i in ids]


class _Bytes(Encoder):
    def ids(self, text: str) -> np.ndarray:
        return np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8).astype(np.int32)

    def names(self, ids: np.ndarray) -> list[str]:
        return [chr(i) if 32 <= i < 127 or i == 10 else f"<0x{i:02X}>" for i in ids]


class _Library(Encoder):
    def __init__(self, file: str):
        super().__init__()
        try:
            from tokenizers import Tokenizer as Library
        except ImportError:
            message = "needs the package tokenizers: pip install 'attndyn[corpora]'"
            raise UnusableOption(("kind",), message) from None
        if (reason := not_plain(file)) is not None:
            raise UnusableOption(("file",), f"{file}: {reason}")
        try:
            content = Path(file).read_bytes()
            self._library: Any = Library.from_buffer(content)
        except OSError as error:
            raise UnusableOption(("file",), f"{file}: cannot be read: {error.strerror}") from None
        except Exception as error:  # the library raises plain Exceptions
            raise UnusableOption(("file",), f"{file}: no tokenizer: {_said(error)}") from None
        self._library.no_truncation()
        self._library.no_padding()
        self._file = file
        self._numbers: dict[int, int] = {}
        self.sha256 = {file: sha256(content).hexdigest()}

    def ids(self, text: str) -> np.ndarray:
        lines = text.splitlines(keepends=True)
        try:
            encoded = self._library.encode_batch_fast(lines, add_special_tokens=False)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # plain Exceptions, and panics, which are none
            message = f"{self._file}: cannot encode the text: {_said(error)}"
            raise UnusableOption(("file",), message) from None
        ids = np.fromiter(chain.from_iterable(line.ids for line in encoded), np.int64)
        # the library's numbers go up to 2^32, and tables have a place for every number up to the largest
        found, place = np.unique(ids, return_inverse=True)
        numbers = [self._numbers.setdefault(i, len(self._numbers)) for i in found.tolist()]
        return np.array(numbers, np.int32)[place]

    def names(self, ids: np.ndarray) -> list[str]:
        own = list(self._numbers)
        return [self._library.id_to_token(own[i]) or f"<{own[i]}>" for i in ids]


def _said(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
