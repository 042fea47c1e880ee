"""A text as tokens with its counts: what is read once at the beginning of a run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse

from attndyn.data.corpus.options import CorpusOptions
from attndyn.data.corpus.reading import Reading
from attndyn.data.corpus.surrogate import Surrogate, surrogate
from attndyn.data.corpus.tokenizers import MAX_SIZE
from attndyn.data.corpus.vocabulary import Tokens, build
from attndyn.errors import UnusableOption

_PAIRS = 2**22  # counted at once


@dataclass(frozen=True)
class Text:
    """The tokens of a text, the last of them held out.

    Attributes:
        tokens: all of them, by index.
        labels: of the vocabulary, the most frequent first.
        ends: where documents end in the training part, exclusive.
        held_out_ends: the same in the held-out part, from its beginning.
        sha256: of the text of each file that was read, and of the tokenizer's file if it has one.
    """

    tokens: np.ndarray
    labels: list[str]
    ends: np.ndarray
    held_out_ends: np.ndarray
    sha256: dict[str, str]

    @property
    def train(self) -> np.ndarray:
        """Tokens of the training part."""
        return self.tokens[: self.ends[-1]]

    @property
    def held_out(self) -> np.ndarray:
        """Tokens of the held-out part."""
        return self.tokens[self.ends[-1] :]

    @cached_property
    def count(self) -> np.ndarray:
        """How often each token occurs in the training part, `(token,)`."""
        return np.bincount(self.train, minlength=len(self.labels))

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
        inner = np.ones(n, bool)
        inner[ends - 1] = False  # the last token of a document is followed by none of it
        for begin in range(0, n - 1, _PAIRS):
            end = min(begin + _PAIRS, n - 1)
            within = inner[begin:end]
            first = self.train[begin:end][within].astype(np.int32)
            following = self.train[begin + 1 : end + 1][within].astype(np.int32)
            ones = np.ones(len(first), np.int64)
            found = found + scipy.sparse.coo_array((ones, (first, following)), shape=(d, d)).tocsr()
        return found


def read(options: CorpusOptions) -> Text:
    """The text that the options name.

    Raises:
        UnusableOption: it cannot be read, or is too poor to train on.
    """
    reading = Reading(options.source)
    tokenizer = options.tokenizer
    with _laid_to("tokenizer"):
        encoder = tokenizer.encoder()
    parts: list[np.ndarray] = []
    ends: list[int] = []
    n = 0
    with _laid_to("source"):
        for piece, ends_document in reading.documents(options.documents):
            ids = encoder.ids(piece)
            parts.append(ids)
            n += len(ids)
            if ends_document:
                ends.append(n)
    if not n:
        raise UnusableOption(("source",), "the text is empty: it has no tokens")
    pieces = np.concatenate(parts)
    del parts
    tokens = build(
        pieces,
        np.array([*ends, n]),
        encoder.names,
        getattr(tokenizer, "size", None),
        getattr(tokenizer, "unknown", "token"),
        options.held_out,
    )
    _refuse_poor(tokens)
    split = tokens.ends <= tokens.n_train
    return Text(
        tokens.tokens,
        tokens.labels,
        tokens.ends[split],
        tokens.ends[~split] - tokens.n_train,
        reading.sha256 | encoder.sha256,
    )


def _refuse_poor(tokens: Tokens) -> None:
    d_vocab = len(tokens.labels)
    if d_vocab > MAX_SIZE:
        raise UnusableOption(
            ("tokenizer",), f"the text has {d_vocab} tokens; at most {MAX_SIZE}: give a size"
        )
    if len(np.unique(tokens.tokens[: tokens.n_train])) < 2:
        found = f"is one token repeated, '{tokens.labels[0]}'" if d_vocab else "has no tokens"
        part = " outside its held-out part" if tokens.n_train < len(tokens.tokens) else ""
        raise UnusableOption(("source",), f"the text{part} {found}; at least two tokens are needed")


class _laid_to:
    """Lays an unusable option to a section around it."""

    def __init__(self, section: str):
        self._section = section

    def __enter__(self) -> None: ...

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, UnusableOption):
            error.path = (self._section, *error.path)
