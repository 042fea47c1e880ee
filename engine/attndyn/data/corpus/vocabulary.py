"""From numbered pieces to tokens: which pieces are in the vocabulary, what becomes of the others, the labels.

Tokens are in the order of their frequency in the training part of the text, the most frequent first; ties in
the order of their labels. That order and the choice depend on the text only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Literal

import numpy as np

from attndyn.data.chain import token_dtype

UNKNOWN = "<unk>"
MAX_LABEL = 64
#: pieces that could not be shown, or that mean something else to the probes
_SPELLED = {" ": "<space>", "\n": "<newline>", "": "<empty>", "<rest>": "<rest>_"}

Unknown = Literal["token", "drop", "split"]


@dataclass(frozen=True)
class Tokens:
    """A text as tokens.

    Attributes:
        tokens: by index in the vocabulary, `(n,)`.
        labels: of the vocabulary, the most frequent token first.
        ends: where documents end, exclusive, increasing; the last one is `n`.
        n_train: where the held-out part begins; a document that goes on there was cut in two.
    """

    tokens: np.ndarray
    labels: list[str]
    ends: np.ndarray
    n_train: int


def build(
    pieces: np.ndarray,
    ends: np.ndarray,
    names: Callable[[np.ndarray], list[str]],
    size: int | None,
    unknown: Unknown,
    held_out: float,
) -> Tokens:
    """Tokens of a text.

    Args:
        pieces: the text by number of piece, `(n,)`.
        ends: where documents end, exclusive, the last one at `n`.
        names: the pieces of some numbers.
        size: most tokens (`split`: most words); None for all.
        unknown: what becomes of pieces outside the vocabulary.
        held_out: share of the pieces, at the end, that the choice of the vocabulary does not see.
    """
    n_train = len(pieces) - int(len(pieces) * held_out)
    ends = np.unique(np.append(ends, n_train)) if n_train else ends
    types, labels, spelled = _types(pieces, names)
    count = np.bincount(types[:n_train], minlength=len(labels))
    ranked = [t for t in _ranked(count, labels) if count[t]]
    if unknown == "token":
        types, labels = _with_unknown(types, labels, ranked, size)
    elif unknown == "drop":
        keep = np.zeros(len(labels), bool)
        keep[ranked[:size]] = True
        kept = keep[types]
        types, before = types[kept], np.concatenate([[0], np.cumsum(kept)])
        ends, n_train = before[ends], int(before[n_train])
    else:
        types, labels, before = _split(types, labels, spelled, set(ranked[:size]))
        ends, n_train = before[ends], int(before[n_train])
    count = np.bincount(types[:n_train], minlength=len(labels))
    present = np.bincount(types, minlength=len(labels)) > 0
    order = [t for t in _ranked(count, labels) if present[t]]
    rank = np.zeros(len(labels), token_dtype(len(order)))
    rank[order] = np.arange(len(order))
    return Tokens(rank[types], [labels[t] for t in order], np.unique(ends[ends > 0]), n_train)


def label(piece: str) -> str:
    """How a piece is called: printable, of at most 64 characters, never what probes call other tokens."""
    found = _SPELLED.get(piece)
    if found is None:
        found = "".join(c if c.isprintable() else f"<U+{ord(c):04X}>" for c in piece)
    if len(found) > MAX_LABEL:
        found = f"{found[: MAX_LABEL - 9]}…{sha256(piece.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
    return found


def _types(
    pieces: np.ndarray, names: Callable[[np.ndarray], list[str]]
) -> tuple[np.ndarray, list[str], list[str]]:
    """The text by type, a type's label, and the piece it was first; pieces of equal labels are one type."""
    numbers = np.flatnonzero(np.bincount(pieces)) if len(pieces) else np.array([], np.intp)
    index: dict[str, int] = {}
    spelled: list[str] = []
    of_piece = np.zeros(int(pieces.max(initial=0)) + 1, np.int32)
    for number, piece in zip(numbers, names(numbers), strict=True):
        called = label(piece)
        if called not in index:
            index[called] = len(index)
            spelled.append(piece)
        of_piece[number] = index[called]
    return of_piece[pieces], list(index), spelled


def _ranked(count: np.ndarray, labels: list[str]) -> list[int]:
    """Types by falling count, equal ones by label."""
    return sorted(range(len(labels)), key=lambda t: (-count[t], labels[t]))


def _with_unknown(
    types: np.ndarray, labels: list[str], ranked: list[int], size: int | None
) -> tuple[np.ndarray, list[str]]:
    """All types outside the `size` most frequent made one; a text may have `<unk>` already."""
    if len(labels) <= (size or len(labels)) and len(ranked) == len(labels):
        return types, labels
    words = [t for t in ranked if labels[t] != UNKNOWN]
    known = words[: None if size is None else size - 1]
    to_known = np.full(len(labels), len(known), np.int32)
    to_known[known] = np.arange(len(known))
    return to_known[types], [*(labels[t] for t in known), UNKNOWN]


def _split(
    types: np.ndarray, labels: list[str], spelled: list[str], known: set[int]
) -> tuple[np.ndarray, list[str], np.ndarray]:
    """Every type that is not known spelled in characters, which are types of their own.

    Returns:
        The text, the labels, and how many tokens stand before each of the old ones, `(n + 1,)`.
    """
    labels = list(labels)
    index = {name: t for t, name in enumerate(labels)}
    spelling: list[list[int]] = []
    for t, piece in enumerate(spelled):
        if t in known or len(piece) == 1:
            spelling.append([t])
            continue
        spelling.append([index.setdefault(label(c), len(index)) for c in piece])
    labels = list(index)
    lengths = np.array([len(letters) for letters in spelling])
    firsts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    letters = np.concatenate([np.array(s, np.int32) for s in spelling])
    n_each = lengths[types]
    before = np.concatenate([[0], np.cumsum(n_each)])
    within = np.arange(before[-1]) - np.repeat(before[:-1], n_each)
    return letters[np.repeat(firsts[types], n_each) + within], labels, before
