"""Gradient flow dθ/dt = −∇L by SciPy's adaptive integrators.

Each replica is integrated on its own: its adaptive steps are those it would take alone. Every output
interval is integrated to its end exactly, without interpolation, so that what is recorded is a state of the
integrator, and a resumed run takes the same steps as an uninterrupted one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from pydantic import Field
from scipy import integrate

from attndyn import registry
from attndyn.backend import Array, Backend
from attndyn.optim.optimizer import Optimizer, ReplicaGradient
from attndyn.spec.base import OptimizerOptions

_METHODS = {"DOP853": integrate.DOP853, "RK45": integrate.RK45, "LSODA": integrate.LSODA}


class GradientFlowOptions(OptimizerOptions):
    """Options of `flow`; the tolerances are those of SciPy's `solve_ivp`."""

    kind: Literal["flow"] = "flow"
    rtol: float = Field(default=1e-9, ge=1e-13, le=1e-2, description="relative tolerance of a step")
    atol: float = Field(default=1e-12, gt=0, le=1e-2, description="absolute tolerance of a step")
    method: Literal["DOP853", "RK45", "LSODA"] = Field(default="DOP853", description="SciPy's integrator")


@registry.optimizer("flow")
class GradientFlow(Optimizer):
    """The ODE; a step is one of `training.steps` equal intervals of `training.time`."""

    Options = GradientFlowOptions

    def __init__(
        self,
        options: Sequence[GradientFlowOptions],
        shape: tuple[int, int],
        steps: int,
        time: float | None,
        backend: Backend,
    ):
        assert time is not None, "a spec with the flow optimizer and no time is refused"
        self._backend = backend
        self._options = options
        self._interval_length = time / steps
        # the integrator's last step size, carried from interval to interval; 0: let it choose
        self._size = np.zeros(shape[0])

    def advance(self, parameters: Array, gradients: Array, step: int, gradient: ReplicaGradient) -> None:
        """See `Optimizer.advance`."""
        host = self._backend.to_host(parameters).astype(np.float64)
        # SciPy never ends on a slope that is not finite
        able = np.isfinite(host).all(axis=1) & np.isfinite(self._backend.to_host(gradients)).all(axis=1)
        for replica, start in enumerate(host):
            end = self._interval(replica, start, step, gradient) if able[replica] else np.nan
            host[replica] = end
        parameters[...] = self._backend.asarray(host)

    def _interval(self, replica: int, start: np.ndarray, step: int, gradient: ReplicaGradient) -> np.ndarray:
        """The replica's parameters at the end of an output interval; NaN where the integrator gives up."""
        options = self._options[replica]
        t0, t1 = step * self._interval_length, (step + 1) * self._interval_length
        solver = _METHODS[options.method](
            lambda t, y: -gradient(replica, y),
            t0,
            start,
            t1,
            rtol=options.rtol,
            atol=options.atol,
            first_step=min(self._size[replica], t1 - t0) or None,
        )
        longest = 0.0
        while solver.status == "running":
            solver.step()
            # the last step of an interval is cut short by its end: it says nothing about the next
            longest = max(longest, solver.step_size or 0.0)
        self._size[replica] = longest
        return solver.y if solver.status == "finished" else np.full_like(start, np.nan)

    def time(self, steps: np.ndarray) -> np.ndarray | None:
        """The ODE's time."""
        return np.tile(steps * self._interval_length, (len(self._options), 1))

    def state(self) -> dict[str, Array]:
        """See `Optimizer.state`."""
        return {"step_size": self._size}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """See `Optimizer.restore`."""
        self._size[...] = state["step_size"]
