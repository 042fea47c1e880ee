"""Random numbers that can be made again: a Philox counter keyed by seed, purpose and step.

Numbers for one purpose and step do not depend on which others were drawn before, so that a step's batch, or
a replica's, can be made again alone. Raw 64-bit output is used: NumPy keeps a bit generator's stream fixed
across versions, which it does not promise for the distributions of `Generator`.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np


class Purpose(IntEnum):
    """What the numbers are for: the second word of the key, so that no two purposes share a stream."""

    INIT = 1
    CONTEXTS = 2
    SHUFFLE = 3
    SURROGATE = 4


def stream(seed: int, purpose: Purpose, step: int, part: int = 0) -> np.random.Philox:
    """The generator for a seed, a purpose, a step, and a part of it (a parameter, a chunk)."""
    # word 0 counts the blocks drawn, so that streams of different steps cannot overlap
    counter = np.array([0, step, part, 0], dtype=np.uint64)
    return np.random.Philox(counter=counter, key=np.array([seed, purpose], dtype=np.uint64))


def uniform(seed: int, purpose: Purpose, step: int, shape: tuple[int, ...]) -> np.ndarray:
    """Uniform integers from 0 to 2**31 - 1 of that shape, as 32-bit ones.

    One bit is left free, so that the thresholds of 0 and of 1, which is 2**31, are numbers of the same type.
    """
    n = int(np.prod(shape))
    raw = stream(seed, purpose, step).random_raw((n + 1) // 2)
    halves = raw.astype("<u8", copy=False).view("<u4")[:n]
    halves >>= np.uint32(1)
    return halves.reshape(shape)


def below(seed: int, purpose: Purpose, step: int, n: int, bound: int) -> np.ndarray:
    """`n` uniform whole numbers from 0 to `bound - 1`, int64; `bound` is at most 2**40."""
    raw = stream(seed, purpose, step).random_raw(n)
    # 53 random bits: a number is drawn more often than another by a factor of 1 + 2**-13 at most
    return ((raw >> np.uint64(11)).astype(np.float64) * (bound * 2.0**-53)).astype(np.int64)


def normals(seed: int, purpose: Purpose, part: int, shape: tuple[int, ...]) -> np.ndarray:
    """Independent standard normals, by inversion of the uniform numbers' distribution."""
    from scipy.special import ndtri

    raw = stream(seed, purpose, 0, part).random_raw(int(np.prod(shape)))
    # the centres of 2**53 equal cells: never 0 or 1
    return ndtri(((raw >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53).reshape(shape)


def permutation(seed: int, epoch: int, n: int, purpose: Purpose = Purpose.SHUFFLE) -> np.ndarray:
    """A random order of `n` items for an epoch."""
    return np.argsort(stream(seed, purpose, epoch).random_raw(n), kind="stable")
