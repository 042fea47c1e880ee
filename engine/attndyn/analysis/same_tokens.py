"""Which token of one run is which of another one, trained on a chain made of the first one's text."""

from __future__ import annotations

import json
from collections.abc import Sequence

import xarray as xr

from attndyn.data.labels import OTHERS
from attndyn.errors import RunError


def same_tokens(text: xr.DataTree, chain: xr.DataTree, kept: Sequence[str]) -> dict[str, str]:
    """Labels of the tokens that both have: those of `text`, and what `chain` calls them.

    By label; but a chain whose tokens are only numbered is taken to be the one of the text's tokens `kept`,
    in that order. What stands for all others is no token of the text.

    Args:
        text: trajectory of the run to compare.
        chain: that of the other one.
        kept: labels of the tokens of a smaller chain, which may end in `OTHERS`.

    Raises:
        RunError: the other run is of the same simulation, or of another text; it has none of the tokens, or
            another number of them.
    """
    _refuse_another(text, chain)
    labels = chain.dataset["token"].values.tolist()
    if _numbered(chain) and not _numbered(text):
        if len(labels) != len(kept):
            raise RunError(
                f"has {len(labels)} tokens that are only numbered, the chain of the text {len(kept)}: "
                "make the option tokens fit, or name the tokens in data.tokens"
            )
        return {word: number for word, number in zip(kept, labels, strict=True) if word != OTHERS}
    known = set(labels) - {OTHERS}
    found = {word: word for word in text.dataset["token"].values.tolist() if word in known}
    if not found:
        raise RunError("has no token of the text")
    return found


def _refuse_another(text: xr.DataTree, chain: xr.DataTree) -> None:
    same = [tree.attrs.get("simulation_sha256") for tree in (text, chain)]
    if same[0] is not None and same[0] == same[1]:
        raise RunError("is of the same simulation, which says nothing of a chain")
    ours, others = (set(json.loads(tree.attrs.get("texts", "{}")).values()) for tree in (text, chain))
    if ours and others and ours != others:
        raise RunError("was trained on another text")


def _numbered(trajectory: xr.DataTree) -> bool:
    """Whether tokens have no other labels than their numbers."""
    labels = trajectory.dataset["token"].values.tolist()
    return bool(labels == [str(number) for number in range(len(labels))])
