"""The data source: windows of a text as weighted contexts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attndyn import registry
from attndyn.data.contexts import Contexts
from attndyn.data.corpus.options import CorpusOptions
from attndyn.data.corpus.text import read
from attndyn.data.corpus.windows import Draws, Windows
from attndyn.data.labels import UNKNOWN
from attndyn.data.source import DataSource

MAX_DENSE = 512
"""Most tokens for which the transition matrix is made: beyond, there are the counts of pairs only."""


@registry.data("corpus")
class CorpusData(DataSource):
    """Contexts from a text; see `DataSource`.

    All replicas read the same text. Which windows of it a replica sees depends on its seed and the step only
    (`windows: sequential`: on the step only).
    """

    Options = CorpusOptions

    def __init__(self, options: Sequence[CorpusOptions], seeds: Sequence[int], loss_positions: str):
        self._options = options[0]  # nothing of them may vary
        self._loss_positions = loss_positions
        self.text = read(self._options)
        if self._options.surrogate is not None:
            self.text = self.text.shuffled(self._options.surrogate)
        self.tokens = self.text.labels
        self.count, self.pairs, self.sha256 = self.text.count, self.text.pairs, self.text.sha256
        n_replicas, d_vocab = len(seeds), len(self.tokens)
        self.pi = np.broadcast_to(self.count / self.count.sum(), (n_replicas, d_vocab))
        if d_vocab <= MAX_DENSE:
            self.transition = np.broadcast_to(self.text.chain(), (n_replicas, d_vocab, d_vocab))
        self.representations = ("positions",)
        order = self._options.windows
        windows = Windows(self.text.ends, self._options.n_ctx, overlapping=order == "random")
        self.facts = self._facts(windows)
        self._draws = Draws(windows, order, self._options.batch)
        # replicas of equal seed share their contexts, which are then drawn once
        self._seeds = [0] if order == "sequential" else list(dict.fromkeys(seeds))
        self._group = np.array([0 if order == "sequential" else self._seeds.index(seed) for seed in seeds])

    def batch(self, step: int, representation: str) -> Contexts:
        """See `DataSource.batch`."""
        starts = np.stack([self._draws.starts(seed, step) for seed in self._seeds])
        return self._contexts(self.text.train, starts[self._group])

    def probe_contexts(self, n_contexts: int) -> Contexts:
        """Contexts of the training part, for all replicas the same: windows side by side, evenly spread.

        Args:
            n_contexts: how many; all of them where there are fewer.

        Returns:
            Contexts like those of `batch`.
        """
        return self._spread(self.text.train, self.text.ends, n_contexts)

    def summary(self) -> str:
        """See `DataSource.summary`."""
        has = self.facts
        line = f"text: {_many(has['tokens'], 'token')} to train on, of {_many(has['documents'], 'document')}"
        line += f" and in {_many(has['windows'], 'window')}; {has['held_out']} held out; "
        line += f"vocabulary of {has['vocabulary']}"
        if has["unknown"]:
            line += f", {UNKNOWN} {has['unknown'] / has['tokens']:.1%}"
        if has["short_documents"]:
            line += f"; left out as too short: {_many(has['short_documents'], 'document')}"
            line += f" of {_many(has['short_tokens'], 'token')}"
        return line

    def _facts(self, windows: Windows) -> dict[str, int]:
        text = self.text
        unknown = text.count[text.labels.index(UNKNOWN)] if UNKNOWN in text.labels else 0
        short_documents, short_tokens = text.short
        return {
            "tokens": len(text.train),
            "documents": len(text.ends),
            "windows": windows.count,
            "held_out": len(text.held_out),
            "vocabulary": len(text.labels),
            "unknown": int(unknown),
            "short_documents": short_documents,
            "short_tokens": short_tokens,
        }

    def held_out(self, n_contexts: int) -> Contexts | None:
        """Contexts of the held-out part, for all replicas the same: windows side by side, evenly spread.

        Args:
            n_contexts: how many, at most.

        Returns:
            Contexts like those of `batch`; None if no window of the text is held out.
        """
        if not len(self.text.held_out_ends):
            return None
        if not Windows(self.text.held_out_ends, self._options.n_ctx, overlapping=False).count:
            return None
        return self._spread(self.text.held_out, self.text.held_out_ends, n_contexts)

    def _spread(self, text: np.ndarray, ends: np.ndarray, n_contexts: int) -> Contexts:
        """The same windows for all replicas; there is one at least."""
        windows = Windows(ends, self._options.n_ctx, overlapping=False)
        index = np.unique(np.linspace(0, windows.count - 1, n_contexts).astype(np.intp))
        starts = np.repeat(windows.starts(index)[None], len(self._group), axis=0)
        return self._contexts(text, starts)

    def _contexts(self, text: np.ndarray, starts: np.ndarray) -> Contexts:
        """Windows of a text that begin at `starts (R, B)`."""
        n_ctx = self._options.n_ctx
        places = starts[:, None, :] + np.arange(n_ctx + 1)[None, :, None]
        tokens = text[places]
        n_queries = n_ctx if self._loss_positions == "all" else 1
        n_replicas, n_contexts = starts.shape
        return Contexts(
            representation="positions",
            query=tokens[:, n_ctx - n_queries : -1],
            keys=tokens[:, :-1],
            log_weights=np.zeros((n_replicas, 1, 1)),
            targets=tokens[:, -n_queries:],
            sample_weights=np.full((n_replicas, 1, 1), 1.0 / (n_queries * n_contexts)),
        )


def _many(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"
