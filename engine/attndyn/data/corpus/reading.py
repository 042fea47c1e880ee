"""From files to text, block by block, and from blocks to documents; no file is held in memory as a whole."""

from __future__ import annotations

import codecs
import gzip
import hashlib
import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

from attndyn.data.corpus.sources import MAX_CHARACTERS, FileOptions, HubSource, PathSource, TextSource
from attndyn.errors import UnusableOption

BLOCK = 2**20
#: a stretch so long without a space is cut where it may be cut in the middle of a word
LONGEST = 2**24
#: of a .zst taken at once: four of them may stand for 128 KiB
ZSTANDARD_BYTES = 2**10


class Reading:
    """One pass over a text.

    Args:
        source: where it comes from.

    Attributes:
        sha256: of the text that was taken from each file, by its name; complete when the pass is.
        n_separators: how often what stands between two documents was found.
        n_characters: that were taken.
    """

    def __init__(self, source: PathSource | HubSource | TextSource):
        self._source = source
        self.sha256: dict[str, str] = {}
        self.n_separators = self.n_characters = 0

    def documents(self, separator: str | None) -> Iterator[tuple[str, bool]]:
        """The text in pieces that cut no word, each with whether a document ends with it.

        Args:
            separator: what stands between two documents; it is no part of them. A file ends a document too.

        Raises:
            UnusableOption: a file cannot be read.
        """
        for blocks in self._files():
            yield from self._cut(blocks, separator)

    def _files(self) -> Iterator[Iterator[str]]:
        """The blocks of every file of which something is read."""
        source = self._source
        if isinstance(source, TextSource):
            yield self._noted("text", iter([source.text.replace("\r\n", "\n").replace("\r", "\n")]))
            return
        self._left = MAX_CHARACTERS if source.characters is None else source.characters
        for name, path, place in source.located():
            blocks = _parquet(path, source) if path.suffix == ".parquet" else _decoded(path, source)
            yield self._noted(name, self._limited(_explained(blocks, path, place), place))
            if not self._left and source.characters is not None:
                return  # of the other files nothing is read, nor fetched

    def _cut(self, blocks: Iterator[str], separator: str | None) -> Iterator[tuple[str, bool]]:
        """See `documents`; of one file."""
        kept = ""
        for block in blocks:
            kept += block
            if separator is not None:
                *whole, kept = kept.split(separator)
                self.n_separators += len(whole)
                yield from ((document, True) for document in whole)
            if len(kept) >= BLOCK:
                at = _seam(kept, len(separator or ""))
                if at:
                    yield kept[:at], False
                    kept = kept[at:]
        yield kept, True

    def _noted(self, name: str, blocks: Iterator[str]) -> Iterator[str]:
        digest = hashlib.sha256()
        for block in blocks:
            self.n_characters += len(block)
            digest.update(block.encode("utf-8", "surrogatepass"))
            yield block
        self.sha256[name] = digest.hexdigest()

    def _limited(self, blocks: Iterator[str], place: tuple[str | int, ...]) -> Iterator[str]:
        """No more characters than are asked for; no more than are allowed."""
        assert not isinstance(self._source, TextSource)
        for block in blocks:
            if len(block) > self._left and self._source.characters is None:
                message = f"the text has more than {MAX_CHARACTERS} characters; take fewer (characters)"
                raise UnusableOption(place, message)
            taken = block[: self._left]
            self._left -= len(taken)
            if taken:
                yield taken
            if not self._left and self._source.characters is not None:
                return


class _Unreadable(Exception):
    """A file cannot be read; says why."""


def _explained(blocks: Iterator[str], path: Path, place: tuple[str | int, ...]) -> Iterator[str]:
    """The blocks; what goes wrong in between names the file and lays it to the option."""
    try:
        for block in blocks:
            before, zero, _ = block.partition("\0")
            if before:
                yield before
            if zero:  # but not if enough has been read before it
                raise _Unreadable("is no text: it has a zero byte")
    except UnusableOption:
        raise
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UnusableOption(place, f"{path}: damaged: {' '.join(str(error).split())}") from None
    except OSError as error:
        raise UnusableOption(place, f"{path}: cannot be read: {error.strerror or error}") from None
    except _Unreadable as error:
        raise UnusableOption(place, f"{path}: {error}") from None


def _decoded(path: Path, options: FileOptions) -> Iterator[str]:
    """UTF-8 with or without a byte order mark; CR LF and CR are line breaks like LF."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")(options.errors)
    lines = io.IncrementalNewlineDecoder(None, translate=True)
    n_lines = 1
    with _opened(path) as file:
        while True:
            data, bad = file.read(BLOCK), None
            try:
                text = decoder.decode(data, final=not data)
            except UnicodeDecodeError as error:
                bad = error
                text = error.object[: error.start].decode()
            block = lines.decode(text, final=not data or bad is not None)
            if block:
                yield block
            if bad is not None:  # but not if enough has been read before it
                line = n_lines + bad.object[: bad.start].count(b"\n")
                raise _not_utf8(bad, f"line {line}")
            n_lines += data.count(b"\n")
            if not data:
                return


def _not_utf8(error: UnicodeDecodeError, place: str) -> _Unreadable:
    found = f"the byte 0x{error.object[error.start]:02x} in {place}"
    return _Unreadable(f"not UTF-8: {found}; errors: replace puts U+FFFD in the place of such bytes")


def _opened(path: Path) -> BinaryIO:
    if path.suffix == ".gz":
        return cast(BinaryIO, gzip.open(path, "rb"))
    if path.suffix == ".zst":
        return cast(BinaryIO, _Zstandard(path))
    return path.open("rb")


class _Zstandard:
    """A compressed file to be read once, which notices its end: a truncated one is an error."""

    def __init__(self, path: Path):
        try:
            import zstandard
        except ImportError:
            raise _Unreadable("needs the package zstandard: pip install 'attndyn[corpora]'") from None
        self._error = zstandard.ZstdError
        self._decompressor = zstandard.ZstdDecompressor()
        self._frame: Any = None
        self._rest = b""
        self._file = path.open("rb")

    def __enter__(self) -> _Zstandard:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, size: int) -> bytes:
        """Some `size` bytes; none at the end."""
        found: list[bytes] = []
        while size > 0 and (data := self._rest or self._file.read(ZSTANDARD_BYTES)):
            self._rest = b""
            self._frame = self._frame or self._decompressor.decompressobj()
            try:
                found.append(self._frame.decompress(data))
            except self._error as error:
                raise _Unreadable(f"damaged: {error}") from None
            size -= len(found[-1])
            if self._frame.eof:
                self._rest, self._frame = self._frame.unused_data, None
        if size > 0 and not any(found) and self._frame is not None:
            raise EOFError("ends in the middle")
        return b"".join(found)


def _parquet(path: Path, options: FileOptions) -> Iterator[str]:
    """The rows of a column, each ended by a line break unless it has one."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise _Unreadable("needs the package pyarrow: pip install 'attndyn[corpora]'") from None
    column, n_rows = options.column, 0
    try:
        file = pyarrow.parquet.ParquetFile(path)
        names = file.schema_arrow.names
        if column not in names:
            raise _Unreadable(f"has no column '{column}'; it has {', '.join(names)}")
        if names.count(column) > 1:
            raise _Unreadable(f"has the column '{column}' {names.count(column)} times")
        kind = file.schema_arrow.field(column).type
        is_text = (pyarrow.types.is_string, pyarrow.types.is_large_string, pyarrow.types.is_string_view)
        if not any(judge(getattr(kind, "value_type", kind)) for judge in is_text) or pyarrow.types.is_nested(
            kind
        ):
            raise _Unreadable(f"the column '{column}' holds {kind}, no text")
        for batch in file.iter_batches(batch_size=4096, columns=[column]):
            found = batch.column(0)
            if pyarrow.types.is_dictionary(kind):
                found = found.dictionary_decode()
            rows = found.cast(
                pyarrow.binary()
            ).to_pylist()  # of a string nobody has looked whether it is UTF-8
            decoded, bad = _rows(rows, options.errors)
            block = "".join(row if row.endswith("\n") else f"{row}\n" for row in decoded)
            yield block.replace("\r\n", "\n").replace("\r", "\n")
            if bad is not None:  # but not if enough has been read before it
                raise _not_utf8(bad[1], f"row {n_rows + bad[0] + 1} of the column '{column}'")
            n_rows += len(rows)
    except pyarrow.ArrowException as error:
        raise _Unreadable(f"damaged: {' '.join(str(error).split())[:200]}") from None


def _rows(rows: list[bytes | None], errors: str) -> tuple[list[str], tuple[int, UnicodeDecodeError] | None]:
    """The rows that are not null, up to the first that is not UTF-8: which one that is, and why."""
    decoded: list[str] = []
    for number, row in enumerate(rows):
        try:
            if row is not None:
                decoded.append(row.decode("utf-8", errors))
        except UnicodeDecodeError as error:
            return decoded, (number, error)
    return decoded, None


def _seam(text: str, margin: int) -> int:
    """Where to cut a text that goes on: after a line break, or before spaces; 0 if nowhere.

    The last `margin` characters may be the beginning of a separator.
    """
    end = len(text) - margin
    at = text.rfind("\n", 0, end) + 1
    if not at:
        space = text.rfind(" ", 0, end)
        at = len(text[: space + 1].rstrip()) if space > 0 else 0
    return end if not at and end >= LONGEST else at
