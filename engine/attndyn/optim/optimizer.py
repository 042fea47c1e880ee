"""The optimizer protocol."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

import numpy as np

from attndyn.backend import Array, Backend
from attndyn.optim import schedules
from attndyn.spec.base import OptimizerOptions, SteppedOptions

#: gradient `(P,)` of one replica's loss, given its index and its parameters `(P,)`; host arrays
ReplicaGradient = Callable[[int, np.ndarray], np.ndarray]


class Optimizer(ABC):
    """Base of all optimizers, registered with `@attndyn.registry.optimizer("kind")`.

    Args:
        options: the optimizer section of every replica; they differ only in fields marked `Varies`.
        shape: `(R, P)`, that of the flat parameters.
        steps: how many steps the run has.
        time: length of the run in ODE time, where the spec gives one.
        backend: where the arrays live.
    """

    name: ClassVar[str]
    Options: ClassVar[type[OptimizerOptions]]

    @abstractmethod
    def __init__(
        self,
        options: Sequence[OptimizerOptions],
        shape: tuple[int, int],
        steps: int,
        time: float | None,
        backend: Backend,
    ): ...

    @abstractmethod
    def advance(self, parameters: Array, gradients: Array, step: int, gradient: ReplicaGradient) -> None:
        """Move `parameters (R, P)` in place from the state before update `step` to the one after it.

        Args:
            parameters: flat parameters of all replicas.
            gradients: their gradients, `(R, P)`.
            step: number of the update, from 0.
            gradient: the loss's gradient anywhere, for those that need more than the one given. It raises
                where the run is interrupted; the parameters and `state` must then be what they were before.
        """

    def share(self) -> float:
        """How much of the update under way is done, from 0 to 1; looked at when a gradient is asked for."""
        return 0.0

    def reasons(self) -> Mapping[int, str]:
        """Why it could not carry replicas on, which it leaves as NaN; by index, without a full stop."""
        return {}

    @abstractmethod
    def time(self, steps: np.ndarray) -> np.ndarray | None:
        """Time of the states before updates `steps`, `(R, len(steps))`; None if the optimizer has none."""

    @abstractmethod
    def state(self) -> dict[str, Array]:
        """What a checkpoint must hold besides the parameters: arrays, to be given back to `restore`."""

    @abstractmethod
    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Take up a state that `state` gave, its arrays on the host."""


class Stepped(Optimizer):
    """Base of the optimizers that take discrete steps of a scheduled learning rate."""

    def __init__(
        self,
        options: Sequence[SteppedOptions],
        shape: tuple[int, int],
        steps: int,
        time: float | None,
        backend: Backend,
    ):
        self._backend = backend
        self._lr = np.array([o.lr for o in options])
        self._schedule, self._steps = options[0].schedule, steps
        self._rate = backend.asarray(self._lr[:, None])
        self._buffers: dict[str, Array] = {}

    def rate(self, step: int) -> Array:
        """Learning rate of every replica at a step, `(R, 1)`."""
        return self._rate * schedules.factor(self._schedule, step, self._steps)

    def state(self) -> dict[str, Array]:
        """See `Optimizer.state`."""
        return self._buffers

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """See `Optimizer.restore`."""
        for name, buffer in self._buffers.items():
            buffer[...] = self._backend.asarray(state[name])

    def time(self, steps: np.ndarray) -> np.ndarray | None:
        """None: only steps proportional to the gradient add up to a time."""
        return None

    def _sum_of_rates(self, steps: np.ndarray) -> np.ndarray:
        return self._lr[:, None] * schedules.elapsed(self._schedule, steps, self._steps)


def column(options: Sequence[OptimizerOptions], field: str, backend: Backend) -> Array:
    """A scalar option of every replica, `(R, 1)`."""
    return backend.asarray(np.array([[getattr(o, field)] for o in options], dtype=np.float64))
