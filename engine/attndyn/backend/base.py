"""The operations every backend has, each in its plain reference form.

A backend is an array module plus these operations. The forms here are written to be read; a subclass may
override any of them with a faster one, and `tests/backend/test_operations.py` holds it to the same name,
arguments and values. Axis names: R replica, K key, V next token, S site (a query in a context), n table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")
U = TypeVar("U")
Array = Any  # np.ndarray or cupy.ndarray; the two share no base class


class Backend:
    """Reference operations on the arrays of one module, in one floating-point precision.

    Args:
        xp: the array module, numpy or one with its interface.
        dtype: `float64` or `float32`; every floating-point array of the engine has it.
    """

    name = "reference"
    #: steps between looks at the loss for divergence: each look waits for the device
    check_every = 1

    #: a batch whose temporaries are larger is computed in parts of about so many bytes; None: always whole
    part_bytes: int | None = None

    def __init__(self, xp: ModuleType, dtype: str = "float64"):
        self.xp = xp
        self.dtype = np.dtype(dtype)

    # -- moving arrays ------------------------------------------------------------------------------------

    def asarray(self, host: np.ndarray) -> Array:
        """A host array on the device; floating-point ones in the backend's precision."""
        with np.errstate(over="ignore"):  # what float32 cannot hold is infinite there, and diverges
            return self.xp.asarray(host, dtype=self.dtype if host.dtype.kind == "f" else None)

    def to_host(self, array: Array) -> np.ndarray:
        """A device array as a NumPy array."""
        return np.asarray(array)

    def zeros(self, shape: tuple[int, ...]) -> Array:
        """Zeros in the backend's precision."""
        return self.xp.zeros(shape, dtype=self.dtype)

    # -- work in parts ------------------------------------------------------------------------------------

    def map(self, function: Callable[[T], U], items: Sequence[T]) -> Iterator[U]:
        """`function` of every item, in order; a backend may compute several at once."""
        return map(function, items)

    # -- attention ----------------------------------------------------------------------------------------

    def weighted_softmax(self, scores: Array, log_weights: Array, axis: int) -> Array:
        """`softmax(scores + log_weights)` over the keys on `axis`; a weight of 0 is a log-weight of -inf.

        At least one weight along the axis must be positive. The two arguments broadcast.
        """
        xp = self.xp
        exponents = scores + log_weights
        exponents = xp.exp(exponents - xp.max(exponents, axis=axis, keepdims=True))
        return exponents / xp.sum(exponents, axis=axis, keepdims=True)

    def softmax_backward(self, probabilities: Array, d_probabilities: Array, axis: int) -> Array:
        """Gradient of the scores, given that of the softmax over `axis`."""
        xp = self.xp
        mean = xp.sum(probabilities * d_probabilities, axis=axis, keepdims=True)
        return probabilities * (d_probabilities - mean)

    # -- table look-up ------------------------------------------------------------------------------------

    def take_columns(self, table: Array, index: Array) -> Array:
        """Columns `index (R, S)` of `table (R, K, n)`, as `(R, K, S)`."""
        return self.xp.take_along_axis(table, index[:, None, :], axis=2)

    def add_columns(self, values: Array, index: Array, n: int) -> Array:
        """Adjoint of `take_columns`: `values (R, K, S)` summed into columns `index (R, S)` of `(R, K, n)`."""
        xp = self.xp
        table = xp.zeros((*values.shape[:2], n), dtype=values.dtype)
        replica = xp.arange(values.shape[0])[:, None]
        xp.add.at(table.transpose(0, 2, 1), (replica, index), values.transpose(0, 2, 1))
        return table

    # -- loss ---------------------------------------------------------------------------------------------

    def cross_entropy(self, logits: Array, targets: Array, weights: Array) -> tuple[Array, Array]:
        """Weighted cross-entropy in nats, and its gradient.

        Args:
            logits: `(R, V, S)`.
            targets: next tokens `(R, S)`, or distributions over them `(R, V, S)` (each sums to 1).
            weights: sample weights `(R, S)` or `(R, 1)`; those of a replica sum to 1 over its sites.

        Returns:
            The loss `(R,)` and the gradient of the logits `(R, V, S)`.
        """
        xp = self.xp
        if targets.ndim == 2:
            every = xp.arange(logits.shape[1])[None, :, None]
            targets = (targets[:, None, :] == every).astype(logits.dtype)
        shifted = logits - xp.max(logits, axis=1, keepdims=True)
        exponentials = xp.exp(shifted)
        total = xp.sum(exponentials, axis=1, keepdims=True)
        log_probabilities = shifted - xp.log(total)
        loss = -xp.sum(weights * xp.sum(targets * log_probabilities, axis=1), axis=1)
        return loss, (exponentials / total - targets) * weights[:, None, :]

    # -- optimizers ---------------------------------------------------------------------------------------

    def adam_update(
        self,
        parameters: Array,
        gradients: Array,
        first: Array,
        second: Array,
        rate: Array,
        beta1: Array,
        beta2: Array,
        eps: Array,
        correction1: Array,
        correction2: Array,
    ) -> None:
        """One step of Adam, in place on `parameters`, `first` and `second`, all `(R, P)`.

        `rate`, the betas, `eps` and the bias corrections `1 - beta ** t` are `(R, 1)`.
        """
        first[...] = beta1 * first + (1 - beta1) * gradients
        second[...] = beta2 * second + (1 - beta2) * gradients * gradients
        parameters -= rate * (first / correction1) / (self.xp.sqrt(second / correction2) + eps)
