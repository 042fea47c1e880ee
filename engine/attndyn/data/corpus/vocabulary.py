"""From numbered pieces to tokens: which pieces are in the vocabulary, what becomes of the others, the labels.

Tokens are in the order of their frequency in the training part of the text, the most frequent first; ties in
the order of their labels. That order and the choice depend on the text only. Tables are small and composed
first: each piece of the text is looked up once, or twice where pieces are dropped or spelled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Literal

import numpy as np

from attndyn.data.chain import token_dtype
from attndyn.data.corpus.blocks import Blocks
from attndyn.data.labels import OTHERS, REST, UNKNOWN

MAX_LABEL = 64
#: pieces that could not be shown, or that mean something else to probes and analyzers
_SPELLED = {
    " ": "<space>",
    "\n": "<newline>",
    "": "<empty>",
    REST: f"{REST}_",
    OTHERS: f"{OTHERS}_",
    "[high]": "[high]_",
    "[medium]": "[medium]_",
    "[low]": "[low]_",
}

Unknown = Literal["token", "drop", "split"]


@dataclass(frozen=True)
class Tokens:
    """A text as tokens.

    Attributes:
        tokens: by index in the vocabulary, `(n,)`.
        labels: of the vocabulary, the most frequent token first.
        ends: where documents end, exclusive, increasing; the last one is `n`.
        n_train: where the held-out part begins; a document that goes on there was cut in two.
        count: how often each token occurs in the training part, `(token,)`.
        short: documents of the training part that were left out for being too short, and their tokens.
    """

    tokens: np.ndarray
    labels: list[str]
    ends: np.ndarray
    n_train: int
    count: np.ndarray
    short: tuple[int, int]


def build(
    pieces: Blocks,
    ends: np.ndarray,
    names: Callable[[np.ndarray], list[str]],
    size: int | None,
    unknown: Unknown,
    n_train: int,
    shortest: int,
) -> Tokens:
    """Tokens of a text.

    Args:
        pieces: the text by number of piece; they are used up.
        ends: where documents end, exclusive, increasing; the last one at the end of the text.
        names: the pieces of some numbers.
        size: most tokens (`split`: most words); None for all.
        unknown: what becomes of pieces outside the vocabulary.
        n_train: where the held-out part begins, which the choice of the vocabulary does not see.
        shortest: tokens of the shortest document to train on. Where pieces are dropped or spelled, shorter
            ones are left out of the training part here, unless it has no others.
    """
    if n_train:
        ends = np.unique(np.append(ends, n_train))
    of_piece, labels, spelled = _types(pieces.count(len(pieces)), names)
    ranked = _ranked(_by_type(pieces.count(n_train), of_piece, len(labels)), labels, 1)
    short = 0, 0
    if unknown == "token":
        to_known, labels = _with_unknown(labels, ranked, size)
        table = to_known[of_piece]
    else:
        known = ranked[:size]
        spelling, labels = _dropped(labels, known) if unknown == "drop" else _split(labels, spelled, known)
        cut = int(np.searchsorted(ends, n_train, side="right"))  # documents in the training part
        pieces, ends = _spelled(pieces, ends, [spelling[t] for t in of_piece])
        pieces, ends, short = _without_short(pieces, ends, cut, shortest)
        n_train = int(ends[cut - short[0] - 1]) if cut else 0
        table = np.arange(len(labels))
    present = _by_type(pieces.count(len(pieces)), table, len(labels)) > 0
    count = _by_type(pieces.count(n_train), table, len(labels))
    order = [t for t in _ranked(count, labels, 0) if present[t]]
    rank = np.zeros(len(labels), token_dtype(len(order)))
    rank[order] = np.arange(len(order))
    tokens = pieces.through(rank[table])
    ends = np.unique(ends[ends > 0])
    return Tokens(tokens, [labels[t] for t in order], ends, n_train, count[order], short)


def label(piece: str) -> str:
    """How a piece is called: printable, of at most 64 characters, never what others call something else."""
    found = _SPELLED.get(piece)
    if found is None:
        found = "".join(c if c.isprintable() else f"<U+{ord(c):04X}>" for c in piece)
    if len(found) > MAX_LABEL:
        found = f"{found[: MAX_LABEL - 9]}…{sha256(piece.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
    return found


def _types(
    count: np.ndarray, names: Callable[[np.ndarray], list[str]]
) -> tuple[np.ndarray, list[str], list[str]]:
    """The type of each piece, a type's label, and the piece it was first; equal labels are one type."""
    numbers = np.flatnonzero(count)
    index: dict[str, int] = {}
    spelled: list[str] = []
    of_piece = np.zeros(len(count), np.int32)
    for number, piece in zip(numbers, names(numbers), strict=True):
        called = label(piece)
        if called not in index:
            index[called] = len(index)
            spelled.append(piece)
        of_piece[number] = index[called]
    return of_piece, list(index), spelled


def _by_type(count: np.ndarray, type_of: np.ndarray, n_types: int) -> np.ndarray:
    """Counts of types, given those of pieces."""
    found = np.zeros(n_types, np.int64)
    np.add.at(found, type_of[: len(count)], count)
    return found


def _ranked(count: np.ndarray, labels: list[str], least: int) -> list[int]:
    """Types that occur `least` times by falling count, equal ones by label."""
    return sorted(np.flatnonzero(count >= least).tolist(), key=lambda t: (-count[t], labels[t]))


def _with_unknown(labels: list[str], ranked: list[int], size: int | None) -> tuple[np.ndarray, list[str]]:
    """All types outside the `size` most frequent made one; a text may have `<unk>` already."""
    if len(labels) <= (size or len(labels)) and len(ranked) == len(labels):
        return np.arange(len(labels)), labels
    words = [t for t in ranked if labels[t] != UNKNOWN]
    known = words[: None if size is None else size - 1]
    to_known = np.full(len(labels), len(known))
    to_known[known] = np.arange(len(known))
    return to_known, [*(labels[t] for t in known), UNKNOWN]


def _dropped(labels: list[str], known: list[int]) -> tuple[list[list[int]], list[str]]:
    """No spelling for a type that is not known."""
    kept = set(known)
    return [[t] if t in kept else [] for t in range(len(labels))], labels


def _split(labels: list[str], spelled: list[str], known: list[int]) -> tuple[list[list[int]], list[str]]:
    """Every type that is not known spelled in characters, which are types of their own; and all labels."""
    kept = set(known)
    index = {name: t for t, name in enumerate(labels)}
    spelling: list[list[int]] = []
    for t, piece in enumerate(spelled):
        whole = t in kept or len(piece) == 1
        spelling.append([t] if whole else [index.setdefault(label(c), len(index)) for c in piece])
    return spelling, list(index)


def _spelled(pieces: Blocks, ends: np.ndarray, spelling: list[list[int]]) -> tuple[Blocks, np.ndarray]:
    """The text with its pieces spelled, and where documents end in it."""
    lengths = np.array([len(letters) for letters in spelling])
    firsts = np.cumsum(lengths) - lengths
    letters = np.array([letter for one in spelling for letter in one], np.int32)
    found, ends_in_it = Blocks(), np.empty_like(ends)
    begin = first_end = 0
    for block in pieces.taken():
        n_each = lengths[block]
        after = np.cumsum(n_each)
        last_end = int(np.searchsorted(ends, begin + len(block), side="right"))
        ends_in_it[first_end:last_end] = len(found) + after[ends[first_end:last_end] - begin - 1]
        within = np.arange(after[-1]) - np.repeat(after - n_each, n_each)
        found.append(letters[np.repeat(firsts[block], n_each) + within])
        begin, first_end = begin + len(block), last_end
    return found, ends_in_it


def _without_short(
    pieces: Blocks, ends: np.ndarray, cut: int, shortest: int
) -> tuple[Blocks, np.ndarray, tuple[int, int]]:
    """The text without the first `cut` documents that are too short: what is left, its ends, what is not."""
    lengths = np.diff(ends, prepend=0)
    keep = (lengths >= shortest) | (np.arange(len(ends)) >= cut)
    if keep.all() or not keep[:cut].any():
        return pieces, ends, (0, 0)
    found, begin = Blocks(), 0
    for block in pieces.taken():
        end = begin + len(block)
        some = slice(np.searchsorted(ends, begin, side="right"), np.searchsorted(ends, end) + 1)
        inside = np.diff(np.clip(ends[some], begin, end), prepend=begin)
        found.append(block[np.repeat(keep[some], inside)])
        begin = end
    return found, np.cumsum(lengths[keep]), (int((~keep).sum()), int(lengths[~keep].sum()))
