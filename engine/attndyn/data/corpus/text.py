"""A text as tokens with its counts: what is read once at the beginning of a run."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse

from attndyn.data.corpus.blocks import Blocks
from attndyn.data.corpus.options import CorpusOptions
from attndyn.data.corpus.reading import Reading
from attndyn.data.corpus.surrogate import Surrogate, surrogate
from attndyn.data.corpus.tokenizers import MAX_SIZE, Encoder, TokenizerFile
from attndyn.data.corpus.vocabulary import Tokens, Unknown, build
from attndyn.errors import UnusableOption

_PAIRS = 2**20  # counted at once


@dataclass(frozen=True)
class Text:
    """The tokens of a text, the last of them held out.

    Attributes:
        tokens: all of them, by index.
        labels: of the vocabulary, the most frequent first.
        ends: where documents end in the training part, exclusive.
        held_out_ends: the same in the held-out part, from its beginning.
        count: how often each token occurs in the training part, `(token,)`.
        sha256: of the text of each file that was read, and of the tokenizer's file if it has one.
        short: documents that were left out for being too short to train on, and their tokens.
    """

    tokens: np.ndarray
    labels: list[str]
    ends: np.ndarray
    held_out_ends: np.ndarray
    count: np.ndarray
    sha256: dict[str, str]
    short: tuple[int, int]

    @property
    def train(self) -> np.ndarray:
        """Tokens of the training part."""
        return self.tokens[: self.ends[-1]]

    @property
    def held_out(self) -> np.ndarray:
        """Tokens of the held-out part."""
        return self.tokens[self.ends[-1] :]

    @cached_property
    def pairs(self) -> scipy.sparse.csr_array:
        """How often a token is followed by another one in a document of the training part."""
        return self._pairs(self.ends)

    def chain(self) -> np.ndarray:
        """The empirical transition matrix, dense; the frequencies are stationary for it.

        The training part is read as a circle, the last token followed by the first one, so that every token
        has a successor; documents follow one another. A token that is only in the held-out part is followed
        by the frequencies.
        """
        matrix = self._pairs(self.ends[-1:]).toarray().astype(np.float64)
        matrix[self.train[-1], self.train[0]] += 1
        pi = self.count / self.count.sum()
        total = self.count[:, None]
        return np.where(total > 0, matrix / np.maximum(total, 1), pi)

    def shuffled(self, order: Surrogate) -> Text:
        """The same with its training part made again as a chain; documents end where they did."""
        return replace(self, tokens=np.concatenate([surrogate(self.train, order), self.held_out]))

    def _pairs(self, ends: np.ndarray) -> scipy.sparse.csr_array:
        n, d = len(self.train), len(self.labels)
        found = scipy.sparse.csr_array((d, d), dtype=np.int64)
        last = ends - 1  # the last token of a document is followed by none of it
        for begin in range(0, n - 1, _PAIRS):
            end = min(begin + _PAIRS, n - 1)
            within = np.ones(end - begin, bool)
            within[last[np.searchsorted(last, begin) : np.searchsorted(last, end)] - begin] = False
            first = self.train[begin:end][within].astype(np.int32)
            following = self.train[begin + 1 : end + 1][within].astype(np.int32)
            ones = np.ones(len(first), np.int64)
            found = found + scipy.sparse.coo_array((ones, (first, following)), shape=(d, d)).tocsr()
        return found


def read(options: CorpusOptions) -> Text:
    """The text that the options name, without documents that are too short to train on.

    Raises:
        UnusableOption: it cannot be read, or is too poor to train on.
    """
    tokenizer = options.tokenizer
    unknown: Unknown = getattr(tokenizer, "unknown", "token")
    shortest = options.n_ctx + 1
    # spelled in characters, a document has more tokens than pieces: which ones are too short is not known yet
    gathered = _Gathered(1 if unknown == "split" else shortest)
    reading = Reading(options.source)
    with _laid_to("tokenizer"):
        encoder = tokenizer.encoder()
    for pieces, ends_document in _encoded(options, reading, encoder):
        gathered.add(pieces, ends_document)
    if not gathered.longest and isinstance(tokenizer, TokenizerFile) and reading.n_characters:
        raise UnusableOption(("tokenizer", "file"), f"{tokenizer.file}: makes no token of the text")
    if not gathered.longest:
        raise UnusableOption(("source",), "the text is empty: it has no tokens")
    if options.documents is not None and not reading.n_separators:
        hint = "; of CR LF and CR, LF is read" if "\r" in options.documents else ""
        message = f"{options.documents!r} is nowhere in the text{hint}; null: a file is one document"
        raise UnusableOption(("documents",), message)
    if not gathered.ends:
        raise _too_short(options, gathered.longest, gathered.n_documents)
    n_train = gathered.cut(options.held_out)
    size = getattr(tokenizer, "size", None)
    ends = np.array(gathered.ends)
    with _laid_to("tokenizer"):
        tokens = build(gathered.pieces, ends, encoder.names, size, unknown, n_train, shortest)
    _refuse_poor(tokens, options, gathered.n_documents)
    split = tokens.ends <= tokens.n_train
    return Text(
        tokens.tokens,
        tokens.labels,
        tokens.ends[split],
        tokens.ends[~split] - tokens.n_train,
        tokens.count,
        reading.sha256 | encoder.sha256,
        (gathered.short[0] + tokens.short[0], gathered.short[1] + tokens.short[1]),
    )


class _Gathered:
    """The pieces of a text, document by document, less those that are too short.

    Args:
        shortest: pieces of the shortest document that is kept.

    Attributes:
        pieces: by number.
        ends: where documents end, exclusive.
        n_documents: those with any piece at all.
        longest: pieces of the longest of them.
        short: how many were too short, and their pieces.
    """

    def __init__(self, shortest: int):
        self._shortest = shortest
        self._waiting: list[np.ndarray] = []
        self._length = 0
        self.pieces = Blocks()
        self.ends = array("q")
        self.n_documents = self.longest = 0
        self.short = 0, 0

    def add(self, pieces: np.ndarray, ends_document: bool) -> None:
        """Put pieces at the end of the document."""
        self._waiting.append(pieces)
        self._length += len(pieces)
        if self._length >= self._shortest:
            for some in self._waiting:
                self.pieces.append(some)
            self._waiting = []
        if ends_document:
            self._end()

    def cut(self, held_out: float) -> int:
        """Where the held-out part begins; it takes all of a document too little of which would be left."""
        n = len(self.pieces)
        at = n - int(n * held_out)
        document = bisect_right(self.ends, at)
        begin = self.ends[document - 1] if document else 0
        return begin if begin and at - begin < self._shortest else at

    def _end(self) -> None:
        if self._length >= self._shortest:
            self.ends.append(len(self.pieces))
        elif self._length:
            self.short = self.short[0] + 1, self.short[1] + self._length
        self.longest = max(self.longest, self._length)
        self.n_documents += self._length > 0
        self._waiting, self._length = [], 0


def _encoded(options: CorpusOptions, reading: Reading, encoder: Encoder) -> Iterator[tuple[np.ndarray, bool]]:
    """The pieces of the text, each part with whether a document ends with it."""
    documents = reading.documents(options.documents)
    while True:
        with _laid_to("source"):
            found = next(documents, None)
        if found is None:
            return
        text, ends_document = found
        with _laid_to("tokenizer"):
            pieces = encoder.ids(text)
        yield pieces, ends_document


def _refuse_poor(tokens: Tokens, options: CorpusOptions, n_documents: int) -> None:
    """Refuse a vocabulary that is too large, and a training part that teaches nothing."""
    d_vocab, n, n_train = len(tokens.labels), len(tokens.tokens), tokens.n_train
    if d_vocab > MAX_SIZE:
        raise UnusableOption(
            ("tokenizer",), f"the text has {d_vocab} tokens; at most {MAX_SIZE}: give a size"
        )
    held_out, needed = options.held_out, options.n_ctx + 1
    if held_out and n_train == n:
        raise UnusableOption(("held_out",), f"found {held_out:g}, which holds out none of the {n} tokens")
    longest = _longest(tokens.ends[tokens.ends <= n_train])
    if longest < needed and _longest(tokens.ends[tokens.ends != n_train]) >= needed:
        message = f"found {held_out:g}, which leaves {n_train} of {n} tokens to train on; "
        message += f"a context and the token after it are {needed} tokens of one document"
        raise UnusableOption(("held_out",), message)
    if longest < needed:
        raise _too_short(options, longest, n_documents)
    if np.count_nonzero(tokens.count) < 2:
        part = " outside its held-out part" if held_out else ""
        message = (
            f"the text{part} is one token repeated, '{tokens.labels[0]}'; at least two tokens are needed"
        )
        raise UnusableOption(("source",), message)


def _longest(ends: np.ndarray) -> int:
    return int(np.diff(ends, prepend=0).max(initial=0))


def _too_short(options: CorpusOptions, longest: int, n_documents: int) -> UnusableOption:
    what = "the text" if n_documents == 1 else "the longest document"
    message = f"a context and the token after it are {options.n_ctx + 1} tokens; {what} has {longest}"
    return UnusableOption(("n_ctx",), message)


class _laid_to:
    """Lays an unusable option to a section around it."""

    def __init__(self, section: str):
        self._section = section

    def __enter__(self) -> None: ...

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, UnusableOption):
            error.path = (self._section, *error.path)
