"""Functions that complex numbers may enter, for derivatives by complex steps: exact to rounding."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

#: so small that its square is nothing beside a number: the step has no error
STEP = 1e-30


def softmax(scores: np.ndarray) -> np.ndarray:
    """Softmax over the last axis; analytic: the shift is by a real number."""
    powers = np.exp(scores - scores.real.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def jacobian(function: Callable[[np.ndarray], np.ndarray], point: np.ndarray) -> np.ndarray:
    """Derivative matrix `(output, input)` of an analytic function at a real point `(input,)`."""
    columns = [function(point + 1j * STEP * unit).imag / STEP for unit in np.eye(len(point))]
    return np.stack(columns, axis=1)
