"""The data-source protocol: weighted contexts for any step, made from the options of every replica."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from attndyn.data.contexts import Contexts
from attndyn.spec.base import DataOptions


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
        representations: those that carry this data without loss.
    """

    name: ClassVar[str]
    Options: ClassVar[type[DataOptions]]

    tokens: list[str]
    pi: np.ndarray
    transition: np.ndarray
    representations: tuple[str, ...]

    @abstractmethod
    def __init__(self, options: Sequence[DataOptions], seeds: Sequence[int], loss_positions: str): ...

    @abstractmethod
    def batch(self, step: int, representation: str) -> Contexts:
        """The contexts of a step, as host arrays; the same ones whenever it is asked."""
