"""Gradient flow dθ/dt = −∇L by SciPy's adaptive integrators.

Each replica is integrated on its own: its adaptive steps are those it would take alone. Every output
interval is integrated to its end exactly, without interpolation, so that what is recorded is a state of the
integrator, and a resumed run takes the same steps as an uninterrupted one.

Where the slope jumps, as it does for an MLP of rectified linear units, a trajectory may run along the jump,
and the steps that keep to the tolerance are then so short that the interval has no end: see `_Pace`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from pydantic import Field
from scipy import integrate

from attndyn import registry
from attndyn.backend import Array, Backend
from attndyn.optim.optimizer import Optimizer, ReplicaGradient
from attndyn.spec.base import OptimizerOptions

#: an integrator has stalled if this many steps in a row cover, on average, less than this share of the
#: interval each, and less than this share of the longest step before them
STALL_STEPS, STALL_SHARE, STALL_SHRINKAGE = 10_000, 1e-6, 1e-4

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
        self._stalled_at = np.full(shape[0], np.nan)  # ODE time
        self._time = time
        self._share = 0.0

    def advance(self, parameters: Array, gradients: Array, step: int, gradient: ReplicaGradient) -> None:
        """See `Optimizer.advance`."""
        host = self._backend.to_host(parameters).astype(np.float64)
        # SciPy never ends on a slope that is not finite
        able = np.isfinite(host).all(axis=1) & np.isfinite(self._backend.to_host(gradients)).all(axis=1)
        before = self._size.copy(), self._stalled_at.copy()
        try:
            for replica, start in enumerate(host):
                end = self._interval(replica, start, step, gradient) if able[replica] else np.nan
                host[replica] = end
        except BaseException:
            self._size, self._stalled_at = before
            raise
        finally:
            self._share = 0.0
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
        pace = _Pace(t0, self._interval_length, self._size[replica])
        while solver.status == "running":
            solver.step()
            # the last step of an interval is cut short by its end: it says nothing about the next
            longest = max(longest, solver.step_size or 0.0)
            self._share = (replica + (solver.t - t0) / (t1 - t0)) / len(self._options)
            if pace.stalls(solver.t, longest) and solver.status == "running":
                self._stalled_at[replica] = solver.t
                break
        self._size[replica] = longest
        return solver.y if solver.status == "finished" else np.full_like(start, np.nan)

    def time(self, steps: np.ndarray) -> np.ndarray | None:
        """The ODE's time."""
        return np.tile(steps * self._interval_length, (len(self._options), 1))

    def share(self) -> float:
        """See `Optimizer.share`."""
        return self._share

    def reasons(self) -> Mapping[int, str]:
        """See `Optimizer.reasons`."""
        stalled = np.flatnonzero(~np.isnan(self._stalled_at))
        return {int(replica): self._reason(self._stalled_at[replica]) for replica in stalled}

    def _reason(self, time: float) -> str:
        return (
            f"the integrator stalled at time {time:.6g} of {self._time:g}, where {STALL_STEPS} steps took it "
            f"less than {STALL_STEPS * STALL_SHARE:.0%} of an output interval further; try "
            "optimizer.method: RK45 with a coarser rtol and atol (1e-4, 1e-7), gelu in place of relu, or gd "
            "with a small lr"
        )

    def state(self) -> dict[str, Array]:
        """See `Optimizer.state`."""
        return {"step_size": self._size, "stalled_at": self._stalled_at}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """See `Optimizer.restore`."""
        self._size[...] = state["step_size"]
        self._stalled_at[...] = state["stalled_at"]


class _Pace:
    """How an integrator moves on through an interval, by stretches of `STALL_STEPS` steps.

    Args:
        start: of the interval, ODE time.
        length: of the interval.
        longest: step before it; 0 if there was none.
    """

    def __init__(self, start: float, length: float, longest: float):
        self._from, self._length, self._longest = start, length, longest
        self._steps = 0

    def stalls(self, time: float, longest: float) -> bool:
        """Whether a stretch without progress ends at `time`; `longest`: the interval's longest step."""
        self._steps += 1
        if self._steps % STALL_STEPS:
            return False
        step = (time - self._from) / STALL_STEPS
        self._from = time
        self._longest = max(self._longest, longest)
        # written so that NaN is no progress
        return not step >= min(STALL_SHARE * self._length, STALL_SHRINKAGE * self._longest)
