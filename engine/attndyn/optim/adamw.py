"""AdamW: Adam, and a weight decay that does not pass through the moments (arXiv:1711.05101)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from attndyn import registry
from attndyn.backend import Array, Backend
from attndyn.optim.adam import Adam, AdamMoments
from attndyn.optim.optimizer import ReplicaGradient, column
from attndyn.spec.base import Varies


class AdamWOptions(AdamMoments):
    """Options of `adamw`."""

    kind: Literal["adamw"] = "adamw"
    weight_decay: Annotated[float, Varies()] = Field(
        default=0.01, ge=0, description="share of a parameter, times lr, that each step takes off it"
    )


@registry.optimizer("adamw")
class AdamW(Adam):
    """Adam with decoupled weight decay: θ ← (1 − lr · weight_decay) θ before each update."""

    Options = AdamWOptions

    def __init__(
        self,
        options: Sequence[AdamWOptions],
        shape: tuple[int, int],
        steps: int,
        time: float | None,
        backend: Backend,
    ):
        super().__init__(options, shape, steps, time, backend)
        self._decay = column(options, "weight_decay", backend)

    def advance(self, parameters: Array, gradients: Array, step: int, gradient: ReplicaGradient) -> None:
        """See `Optimizer.advance`."""
        parameters *= 1 - self.rate(step) * self._decay
        super().advance(parameters, gradients, step, gradient)
