"""The `data` section of a spec with `kind: corpus`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from attndyn.data.corpus.sources import Source
from attndyn.data.corpus.surrogate import Surrogate
from attndyn.data.corpus.tokenizers import Tokenizer, Word
from attndyn.data.corpus.windows import Order
from attndyn.spec.base import DataOptions


class CorpusOptions(DataOptions):
    """Contexts from a text."""

    kind: Literal["corpus"]
    regime: Literal["sampled"] = Field(
        default="sampled", description="a text has finite contexts only; there is no population limit"
    )
    source: Source = Field(description="where the text comes from")
    tokenizer: Tokenizer = Field(default=Word(), description="how the text becomes tokens")
    documents: str | None = Field(
        default=None,
        min_length=1,
        max_length=100,
        description="what stands between two documents, which no window crosses; null: a file is one",
    )
    windows: Order = Field(
        default="random",
        description="contexts begin anywhere, or are all windows side by side, shuffled or in order",
    )
    held_out: float = Field(
        default=0.0, ge=0, lt=1, description="share of the text, at its end, that is never trained on"
    )

    surrogate: Surrogate | None = Field(
        default=None,
        description="train on the text made again as a chain: its tokens shuffled (unigram), or shuffled so "
        "that every pair of successive tokens is as frequent (bigram); the held-out part stays",
    )

    def absent(self) -> str | None:
        """See `DataOptions.absent`."""
        return self.source.absent()
