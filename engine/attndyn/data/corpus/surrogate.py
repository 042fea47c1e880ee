"""A text made again as a Markov chain: what of a run on it is due to frequencies, to pairs, and to the rest.

Surrogates are shuffled, not sampled: they have the very tokens of the text (order 0), and the very pairs of
successive tokens (order 1), as many as there are. What differs from the text is its longer memory only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from attndyn.data import philox

Surrogate = Literal["unigram", "bigram"]

_BLOCK = 2**12  # random numbers drawn at once


def surrogate(tokens: np.ndarray, order: Surrogate, seed: int = 0) -> np.ndarray:
    """The tokens `(n,)` in another order, a pure function of them and the seed.

    `unigram`: any order is equally likely. `bigram`: any order that begins and ends as the text does and has
    each pair of successive tokens as often.
    """
    if order == "unigram":
        return tokens[_permutation(seed, len(tokens))]
    return _euler_walk(tokens, seed)


def _permutation(seed: int, n: int) -> np.ndarray:
    return philox.permutation(seed, 0, n, philox.Purpose.SURROGATE)


def _euler_walk(tokens: np.ndarray, seed: int) -> np.ndarray:
    """A walk that takes every pair of the text once, drawn uniformly.

    Every token's exits are taken in random order, but the last ones of all must be a tree that leads to the
    last token, or the walk would end before it has taken all; a tree drawn as often as it has exits makes all
    walks equally likely (Kandel, Matias, Unger & Winkler 1996).
    """
    n_exits = len(tokens) - 1
    shuffled = _permutation(seed, n_exits)
    by_token = shuffled[np.argsort(tokens[shuffled], kind="stable")]
    exits = tokens[by_token + 1]
    begins = np.searchsorted(tokens[by_token], np.arange(int(tokens.max()) + 2))
    for token, exit_ in _last_exits(exits, begins, int(tokens[-1]), seed).items():
        last = begins[token + 1] - 1
        exits[[exit_, last]] = exits[[last, exit_]]
    walk = np.empty_like(tokens)
    # plain loops over buffers: ten times faster than over arrays
    out, following, place = walk.data, exits.data, begins.tolist()
    token = out[0] = int(tokens[0])
    for step in range(1, len(out)):
        exit_ = place[token]
        place[token] = exit_ + 1
        token = out[step] = following[exit_]
    return walk


def _last_exits(exits: np.ndarray, begins: np.ndarray, root: int, seed: int) -> dict[int, int]:
    """An exit of every token but the root such that they lead there: random walks less their loops.

    Wilson (1996): the tree is drawn as often as it has exits.
    """
    uniform = _uniform(seed)
    first, following = begins.tolist(), exits.data
    chosen: dict[int, int] = {}
    rooted = {root}
    for start in np.flatnonzero(np.diff(begins)).tolist():
        token = start
        while token not in rooted:
            chosen[token] = first[token] + int(next(uniform) * (first[token + 1] - first[token]))
            token = following[chosen[token]]
        token = start
        while token not in rooted:
            rooted.add(token)
            token = following[chosen[token]]
    return chosen


def _uniform(seed: int) -> Iterator[float]:
    """Uniform numbers in [0, 1), without end."""
    numbers = philox.stream(seed, philox.Purpose.SURROGATE, 1)
    while True:
        yield from ((numbers.random_raw(_BLOCK) >> np.uint64(11)) * 2.0**-53).tolist()
