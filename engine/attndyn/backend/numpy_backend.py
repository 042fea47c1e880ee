"""NumPy: the default backend. Overrides what the step spends its time on with in-place forms."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

import numpy as np
from scipy.sparse import csc_array
from threadpoolctl import ThreadpoolController

from attndyn.backend.base import T, U
from attndyn.backend.lookup import ONE_HOT_LIMIT, OneHotLookup, one_hot


class NumpyBackend(OneHotLookup):
    """Arrays in main memory."""

    name = "numpy"
    part_bytes = 2**21

    def __init__(self, dtype: str = "float64", threads: int | None = None):
        super().__init__(np, dtype)
        self._blas = ThreadpoolController().select(user_api="blas")
        self.threads = threads or max((b["num_threads"] for b in self._blas.info()), default=1)
        _keep_freed_memory()

    def map(self, function: Callable[[T], U], items: Sequence[T]) -> Iterator[U]:
        """See `Backend.map`: on as many threads as the BLAS would use, with one of its own for each."""
        with self._blas.limit(limits=1), ThreadPoolExecutor(self.threads) as pool:
            contexts = [copy_context() for _ in items]
            yield from pool.map(lambda context, item: context.run(function, item), contexts, items)

    def add_columns(self, values: np.ndarray, index: np.ndarray, n: int) -> np.ndarray:
        """See `Backend.add_columns`: for many columns a product with a sparse one-hot matrix.

        It adds in the order of the sites, as the reference does (measured: 3 to 35 times faster).
        """
        if n <= ONE_HOT_LIMIT:
            return super().add_columns(values, index, n)
        n_replicas, width, _ = values.shape
        column = (index + n * np.arange(n_replicas)[:, None]).ravel()
        ones = np.ones(column.size, values.dtype)
        every = csc_array((ones, column, np.arange(column.size + 1)), (n_replicas * n, column.size))
        rows = every @ values.swapaxes(1, 2).reshape(-1, width)
        return rows.reshape(n_replicas, n, width).swapaxes(1, 2)

    def weighted_softmax(self, scores: np.ndarray, log_weights: np.ndarray, axis: int) -> np.ndarray:
        """See `Backend.weighted_softmax`."""
        result = scores + log_weights
        if axis == result.ndim - 1 and axis > 0:
            return _softmax_of_rows(result, scores, log_weights)
        result -= result.max(axis=axis, keepdims=True)
        np.exp(result, out=result)
        result /= result.sum(axis=axis, keepdims=True)
        return result

    def softmax_backward(
        self, probabilities: np.ndarray, d_probabilities: np.ndarray, axis: int
    ) -> np.ndarray:
        """See `Backend.softmax_backward`."""
        if axis == probabilities.ndim - 1:
            result = d_probabilities - np.vecdot(probabilities, d_probabilities)[..., None]
        else:
            result = probabilities * d_probabilities
            mean = result.sum(axis=axis, keepdims=True)
            np.subtract(d_probabilities, mean, out=result)
        result *= probabilities
        return result

    def cross_entropy(
        self, logits: np.ndarray, targets: np.ndarray, weights: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """See `Backend.cross_entropy`."""
        shifted = logits - logits.max(axis=1, keepdims=True)
        if targets.ndim == 2:
            if logits.shape[1] > ONE_HOT_LIMIT:
                return _cross_entropy_of_tokens(shifted, targets, weights)
            targets = one_hot(np, targets, logits.shape[1], logits.dtype)
        at_target = np.einsum("rvs,rvs->rs", targets, shifted)
        gradient = np.exp(shifted, out=shifted)
        total = gradient.sum(axis=1)
        gradient /= total[:, None, :]
        gradient -= targets
        gradient *= weights[:, None, :]
        return (weights * (np.log(total) - at_target)).sum(axis=1), gradient

    def adam_update(
        self,
        parameters: np.ndarray,
        gradients: np.ndarray,
        first: np.ndarray,
        second: np.ndarray,
        rate: np.ndarray,
        beta1: np.ndarray,
        beta2: np.ndarray,
        eps: np.ndarray,
        correction1: np.ndarray,
        correction2: np.ndarray,
    ) -> None:
        """See `Backend.adam_update`."""
        scratch = gradients * (1 - beta1)
        first *= beta1
        first += scratch
        np.multiply(gradients, gradients, out=scratch)
        scratch *= 1 - beta2
        second *= beta2
        second += scratch
        # sqrt(v / c) + eps = (sqrt(v) + eps sqrt(c)) / sqrt(c): one division of every entry less
        root = np.sqrt(correction2)
        np.sqrt(second, out=scratch)
        scratch += eps * root
        np.divide(first, scratch, out=scratch)
        scratch *= rate * root / correction1
        parameters -= scratch


def _softmax_of_rows(exponents: np.ndarray, scores: np.ndarray, log_weights: np.ndarray) -> np.ndarray:
    """Softmax of `exponents`, the sum of the two others, over the last axis; in place.

    NumPy is slow to reduce many short rows. The exponents of a map (the last two axes) are shifted by their
    common maximum, and sums are products with ones. A row far below the maximum loses digits, and is done
    again by itself.
    """
    exponents -= exponents.max(axis=(-2, -1), keepdims=True)
    result = np.exp(exponents, out=exponents)
    total = result @ np.ones((result.shape[-1], 1), result.dtype)
    faint = total[..., 0] < np.sqrt(np.finfo(result.dtype).tiny)
    total[faint] = 1.0
    result /= total
    if faint.any():
        rows = (
            np.broadcast_to(scores, result.shape)[faint] + np.broadcast_to(log_weights, result.shape)[faint]
        )
        rows = np.exp(rows - rows.max(axis=-1, keepdims=True))
        result[faint] = rows / rows.sum(axis=-1, keepdims=True)
    return result


def _keep_freed_memory() -> None:
    """Let the allocator keep a step's temporaries for the next one.

    glibc gives the top of the heap back to the system as soon as twice the largest block that was ever freed
    is unused, at first 128 KiB; every step then pays page faults for the same memory again (measured with
    four replicas and more: a third to a half of a step's time). Freeing one block as large as counts, 32 MiB,
    raises the mark. The block is never touched, so it takes no memory; other allocators do not care.
    """
    np.empty(2**25 - 2**16, dtype=np.uint8)


def _cross_entropy_of_tokens(
    shifted: np.ndarray, targets: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Cross-entropy for a large vocabulary: the one-hot targets are never formed."""
    weights = np.broadcast_to(weights, targets.shape)
    where = targets[:, None, :].astype(np.intp)
    at_target = np.take_along_axis(shifted, where, axis=1)[:, 0]
    gradient = np.exp(shifted, out=shifted)
    total = gradient.sum(axis=1)
    gradient *= (weights / total)[:, None, :]
    np.put_along_axis(gradient, where, np.take_along_axis(gradient, where, 1) - weights[:, None], axis=1)
    return (weights * (np.log(total) - at_target)).sum(axis=1), gradient
