"""The `data` section of a spec with `kind: markov`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from attndyn.data.labels import REST
from attndyn.data.stationary import SUM_TOLERANCE, Stationary
from attndyn.data.transition import Explicit, Transition, stationary_of
from attndyn.spec.base import DataOptions, Flaw

MAX_TOKENS = 10**9
"""Most tokens of a fixed set of contexts, so that a typo does not fill a machine."""


class MarkovOptions(DataOptions):
    """Contexts from a first-order Markov chain in its stationary state."""

    kind: Literal["markov"]
    stationary: Stationary | None = Field(
        default=None, description="stationary distribution π; may be left out beside an explicit matrix"
    )
    transition: Transition = Field(description="transition matrix P")
    targets: Literal["sampled", "exact"] = Field(
        default="sampled", description="the next token drawn, or the distribution it would be drawn from"
    )
    size: int | None = Field(
        default=None, ge=1, description="null: fresh contexts each step; N: N contexts, shuffled each epoch"
    )
    tokens: (
        Annotated[tuple[Annotated[str, Field(min_length=1, max_length=64)], ...], Field(strict=False)] | None
    ) = Field(default=None, description="labels of the tokens; 0, 1, … if left out")

    def flaws(self) -> Iterator[Flaw]:
        """Problems of the chain, then of the sizes, then of the labels."""
        chain = list(self._chain_flaws())
        yield from chain
        if not chain:
            yield from self._label_flaws()
        yield from self._size_flaws()

    @property
    def d_vocab(self) -> int:
        """Number of tokens."""
        if self.stationary is not None:
            return self.stationary.d_vocab
        assert isinstance(self.transition, Explicit)  # else a flaw
        return len(self.transition.matrix)

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of the tokens."""
        return self.tokens or tuple(str(token) for token in range(self.d_vocab))

    @property
    def pi(self) -> np.ndarray:
        """Stationary distribution π `(token,)`, float64, read-only."""
        return _chain(self)[0]

    @property
    def P(self) -> np.ndarray:
        """Transition matrix `(token, next_token)`, float64, read-only."""
        return _chain(self)[1]

    def _chain_flaws(self) -> Iterator[Flaw]:
        if not isinstance(self.transition, Explicit):
            if self.stationary is None:
                yield Flaw(("stationary",), "is missing; only an explicit matrix has a π of its own")
            return
        place = ("transition", "matrix")
        matrix = self.transition.probabilities()
        if self.stationary is None:
            try:
                stationary_of(matrix)
            except ValueError as error:
                yield Flaw(place, str(error))
        elif len(matrix) != self.d_vocab:
            yield Flaw(
                place, f"has {len(matrix)} rows; the stationary distribution has {self.d_vocab} tokens"
            )
        else:
            pi = self.stationary.vector()
            change = np.max(np.abs(pi @ matrix - pi))
            if change > SUM_TOLERANCE:
                message = (
                    f"is not stationary: the matrix changes it by {change:.3g}, more than {SUM_TOLERANCE}"
                )
                yield Flaw(("stationary",), f"{message}; leave it out to have it computed")

    def _size_flaws(self) -> Iterator[Flaw]:
        if self.size is None:
            return
        if self.regime == "population":
            yield Flaw(("size",), "found a fixed set of contexts; the population regime has none (null)")
        elif self.size < self.batch:
            yield Flaw(("size",), f"found {self.size}; at least the batch, {self.batch}, is needed")
        elif self.size * self.n_ctx > MAX_TOKENS:
            message = f"size × n_ctx = {self.size * self.n_ctx:.3g} tokens; at most {MAX_TOKENS:.0e}"
            yield Flaw(("size",), message)

    def _label_flaws(self) -> Iterator[Flaw]:
        if self.tokens is None:
            return
        if len(self.tokens) != self.d_vocab:
            yield Flaw(("tokens",), f"found {len(self.tokens)} labels; the chain has {self.d_vocab} tokens")
        for index, label in enumerate(self.tokens):
            if label in self.tokens[:index]:
                yield Flaw(("tokens", index), f"the label '{label}' is given twice")
            if label == REST:
                yield Flaw(("tokens", index), f"'{REST}' is what probes call all other tokens together")
            if not label.isprintable():
                yield Flaw(("tokens", index), "a label may have printable characters only")


@lru_cache(maxsize=64)
def _chain(options: MarkovOptions) -> tuple[np.ndarray, np.ndarray]:
    """π and P, which are asked for often; not kept on the options, which are copied with changes."""
    if options.stationary is not None:
        pi = options.stationary.vector()
        matrix = options.transition.probabilities(pi)
    else:
        assert isinstance(options.transition, Explicit)  # else a flaw
        matrix = options.transition.probabilities()
        pi = stationary_of(matrix)
    pi.setflags(write=False)
    matrix.setflags(write=False)
    return pi, matrix
