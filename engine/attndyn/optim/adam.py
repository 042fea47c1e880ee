"""Adam (Kingma & Ba, arXiv:1412.6980, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from attndyn import registry
from attndyn.backend import Array, Backend
from attndyn.optim.optimizer import ReplicaGradient, Stepped, column
from attndyn.spec.base import SteppedOptions, Varies


class AdamMoments(SteppedOptions):
    """Options that Adam and AdamW share."""

    beta1: Annotated[float, Varies()] = Field(default=0.9, ge=0, lt=1, description="decay of the mean")
    beta2: Annotated[float, Varies()] = Field(default=0.999, ge=0, lt=1, description="decay of the square")
    eps: Annotated[float, Varies()] = Field(default=1e-8, gt=0, description="added to the root of the square")


class AdamOptions(AdamMoments):
    """Options of `adam`."""

    kind: Literal["adam"] = "adam"


@registry.optimizer("adam")
class Adam(Stepped):
    """Adam with bias correction; `eps` is added outside the square root."""

    Options: ClassVar[type[AdamMoments]] = AdamOptions

    def __init__(
        self,
        options: Sequence[AdamMoments],
        shape: tuple[int, int],
        steps: int,
        time: float | None,
        backend: Backend,
    ):
        super().__init__(options, shape, steps, time, backend)
        self._beta1, self._beta2, self._eps = (column(options, f, backend) for f in ("beta1", "beta2", "eps"))
        self._buffers = {"first": backend.zeros(shape), "second": backend.zeros(shape)}

    def advance(self, parameters: Array, gradients: Array, step: int, gradient: ReplicaGradient) -> None:
        """See `Optimizer.advance`."""
        self._backend.adam_update(
            parameters,
            gradients,
            self._buffers["first"],
            self._buffers["second"],
            self.rate(step),
            self._beta1,
            self._beta2,
            self._eps,
            1 - self._beta1 ** (step + 1),
            1 - self._beta2 ** (step + 1),
        )
