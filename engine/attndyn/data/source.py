"""The data-source protocol: weighted contexts for any step, made from the options of every replica."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import ClassVar

import numpy as np
from scipy.sparse import csr_array

from attndyn.data.contexts import Contexts
from attndyn.spec.base import DataOptions

#: number of the first step that probes look at: none that is ever trained on
PROBE_STEP = 2**62


class DataSource(ABC):
    """Base of all data sources, registered with `@attndyn.registry.data("kind")`.

    Args:
        options: the data section of every replica; they differ only in fields marked `Varies`.
        seeds: seed of every replica.
        loss_positions: `last` or `all`.

    Attributes:
        tokens: labels of the tokens, `d_vocab` of them.
        pi: stationary distribution `(R, d_vocab)`.
        transition: `(R, d_vocab, d_vocab)`, rows sum to 1.
            None where it would be too large; `pairs` then says what there is to know.
        representations: those that carry this data without loss.
        count: how often each token occurs in the text, `(d_vocab,)`; None if there is none.
        pairs: how often a token is followed by another one in it, sparse `(d_vocab, d_vocab)`; None likewise.
        sha256: hexadecimal SHA-256 of everything that was read, by its name.
        facts: what the data turned out to be, in numbers, by name; empty if the spec says it all.
    """

    name: ClassVar[str]
    Options: ClassVar[type[DataOptions]]

    tokens: list[str]
    pi: np.ndarray
    transition: np.ndarray | None = None
    representations: tuple[str, ...]
    count: np.ndarray | None = None
    pairs: csr_array | None = None
    sha256: Mapping[str, str] = MappingProxyType({})
    facts: Mapping[str, int] = MappingProxyType({})

    @abstractmethod
    def __init__(self, options: Sequence[DataOptions], seeds: Sequence[int], loss_positions: str): ...

    @abstractmethod
    def batch(self, step: int, representation: str) -> Contexts:
        """The contexts of a step, as host arrays; the same ones whenever it is asked."""

    def probe_contexts(self, n_contexts: int) -> Contexts:
        """Contexts of positions that probes look at all through a run, as host arrays.

        Here those of steps that never come, as many as it takes; a source of finitely many contexts spreads
        them over what it has.

        Args:
            n_contexts: how many.

        Returns:
            The same ones whenever it is asked. Targets and sample weights are not to be used.
        """
        batches = [self.batch(PROBE_STEP, "positions")]
        while sum(batch.n_contexts for batch in batches) < n_contexts:
            batches.append(self.batch(PROBE_STEP + len(batches), "positions"))
        keys, query = (
            np.concatenate([getattr(batch, name) for batch in batches], axis=-1)[..., :n_contexts]
            for name in ("keys", "query")
        )
        return replace(batches[0], keys=keys, query=query)

    def summary(self) -> str | None:
        """What the data turned out to be, in a line; None if the spec says it all, as here."""
        return None

    def held_out(self, n_contexts: int) -> Contexts | None:
        """Contexts of positions that are never trained on, as host arrays; targets are tokens.

        Args:
            n_contexts: how many, at most.

        Returns:
            The same ones whenever it is asked; None if nothing is held out, as here.
        """
        return None
