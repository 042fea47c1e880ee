"""The checks of an optimizer, on a quadratic loss whose gradient is known everywhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import ValidationError

from attndyn.backend import Backend
from attndyn.backend.numpy_backend import NumpyBackend
from attndyn.conformance.diagnosis import deviation, replica_fault, same
from attndyn.conformance.faults import Check, Failure, Fault, blame
from attndyn.conformance.strict import StrictBackend
from attndyn.optim.optimizer import Optimizer
from attndyn.spec.base import OptimizerOptions, SteppedOptions, Varies

N_REPLICAS, N_PARAMETERS, STEPS, TIME = 5, 7, 6, 0.3
LR = 0.01


def fixed(cls: Any) -> dict[str, Any]:
    """Options that are the same in all sets: a learning rate at which the quadratic loss falls."""
    return {"lr": LR} if issubclass(cls.Options, SteppedOptions) else {}


@dataclass(frozen=True)
class Course:
    """An optimizer with one option set, on the loss Σ c (θ − 1)² / 2 with curvatures c in (0, 1].

    Attributes:
        cls: the optimizer.
        options: of every replica; those that may vary do.
        source: the file it is in.
    """

    cls: type[Optimizer]
    options: tuple[OptimizerOptions, ...]
    source: str

    @property
    def stepped(self) -> bool:
        """Whether it takes steps, in any precision; others integrate, in float64 and on the host."""
        return isinstance(self.options[0], SteppedOptions)

    def build(self, backend: Backend, only: slice = slice(None)) -> Optimizer:
        """A fresh instance for all replicas or some."""
        options = self.options[only]
        time = None if self.stepped else TIME
        return self.cls(options, (len(options), N_PARAMETERS), STEPS, time, backend)

    def start(self, backend: Backend, only: slice = slice(None)) -> Any:
        """The parameters `(R, P)` before the first step."""
        return backend.asarray(np.random.default_rng(0).normal(size=(N_REPLICAS, N_PARAMETERS))[only])

    def advance(self, optimizer: Optimizer, parameters: Any, step: int, backend: Backend) -> Any:
        """One step; returns the gradients that it was given."""
        curvature = backend.asarray(_CURVATURE)
        gradients = curvature * (parameters - 1)
        optimizer.advance(parameters, gradients, step, lambda _, theta: _CURVATURE * (theta - 1))
        return gradients

    def run(self, backend: Backend, only: slice = slice(None)) -> np.ndarray:
        """The parameters after all steps, on the host."""
        optimizer, parameters = self.build(backend, only), self.start(backend, only)
        for step in range(STEPS):
            self.advance(optimizer, parameters, step, backend)
        return np.array(backend.to_host(parameters))


_CURVATURE = np.linspace(0.1, 1, N_PARAMETERS)


def course(cls: Any, options: Any, source: str) -> Course:
    """The case of one option set: every replica has other values of the options that may vary."""
    return Course(cls, tuple(_varied(options, replica) for replica in range(N_REPLICAS)), source)


def _varied(options: Any, replica: int) -> Any:
    values = {name: getattr(options, name) for name in type(options).model_fields}
    for name, field in type(options).model_fields.items():
        if any(isinstance(mark, Varies) for mark in field.metadata) and isinstance(values[name], float):
            try:
                options = type(options).model_validate(values | {name: values[name] * (1 - 0.1 * replica)})
            except ValidationError:
                continue
            values = {n: getattr(options, n) for n in values}
    return options


def descends(case: Course) -> Iterator[Failure]:
    """Parameters change, in place, towards a smaller loss; the gradients given are left alone."""
    backend = NumpyBackend()
    optimizer, parameters = case.build(backend), case.start(backend)
    before = parameters.copy()
    for step in range(STEPS):
        gradients = case.advance(optimizer, parameters, step, backend)
        if not np.isfinite(parameters).all():
            yield Failure(Fault.NOT_FINITE, "parameters", f"are not after step {step}")
            return
        if step == 0 and not np.array_equal(gradients, _CURVATURE * (before - 1)):
            yield Failure(Fault.INPUT_MODIFIED, "gradients", "are changed by advance")
    if np.array_equal(parameters, before):
        yield Failure(Fault.NOT_IN_PLACE, "advance", "leaves the array of parameters as it was")
        return
    uphill = np.einsum("rp,rp->r", parameters - before, _CURVATURE * (before - 1)) > 0
    if uphill.any():
        yield Failure(Fault.WRONG_SIGN, "advance", "moves along the gradient, not against it")


def replicas(case: Course) -> Iterator[Failure]:
    """A replica's parameters do not depend on those beside it."""
    backend = NumpyBackend()
    alone = [case.run(backend, slice(r, r + 1)) for r in range(N_REPLICAS)]
    fault = replica_fault("result", case.run(backend), np.concatenate(alone))
    if fault:
        yield fault


def resumed(case: Course) -> Iterator[Failure]:
    """A run resumed from `state` in a new instance is the run that was never interrupted, bit for bit."""
    backend = NumpyBackend()
    first, parameters = case.build(backend), case.start(backend)
    for step in range(STEPS // 2):
        case.advance(first, parameters, step, backend)
    saved = {name: np.array(backend.to_host(array)) for name, array in first.state().items()}
    second, parameters = case.build(backend), parameters.copy()
    second.restore(saved)
    for step in range(STEPS // 2, STEPS):
        case.advance(second, parameters, step, backend)
    expected = case.run(backend)
    if not np.array_equal(parameters, expected):
        detail = f"differs {deviation(parameters, expected)} from the run that was not interrupted"
        yield Failure(Fault.NOT_RESTORED, "resumed run", detail)
    yield from _broken_off(case)


class _BrokenOff(Exception):
    """What the gradient raises where a run is interrupted."""


def _broken_off(case: Course) -> Iterator[Failure]:
    """An update that is interrupted where it asks for a gradient leaves all as it was."""
    backend = NumpyBackend()
    optimizer, parameters = case.build(backend), case.start(backend)
    asked: list[int] = []

    def gradient(replica: int, theta: np.ndarray) -> np.ndarray:
        asked.append(replica)
        if replica == N_REPLICAS - 1:  # the others are done
            raise _BrokenOff
        return _CURVATURE * (theta - 1)

    before = {"parameters": parameters.copy()} | {k: np.array(v) for k, v in optimizer.state().items()}
    try:
        optimizer.advance(parameters, _CURVATURE * (parameters - 1), 0, gradient)
    except _BrokenOff:
        after = {"parameters": parameters} | {k: np.array(v) for k, v in optimizer.state().items()}
        for name, array in before.items():
            if not np.array_equal(after[name], array, equal_nan=True):
                yield Failure(Fault.NOT_RESTORED, name, "left changed by an update that was interrupted")
        return
    if N_REPLICAS - 1 in asked:
        yield Failure(Fault.NOT_RESTORED, "advance", "goes on where its run is interrupted")


def repeatable(case: Course) -> Iterator[Failure]:
    """Two runs are the same, bit for bit."""
    if not np.array_equal(case.run(NumpyBackend()), case.run(NumpyBackend())):
        yield Failure(Fault.RANDOM, "result", "differs between two runs")


def dtype(case: Course) -> Iterator[Failure]:
    """Parameters and state have the precision of the run; one that integrates has float64 only."""
    for precision in ("float64", "float32") if case.stepped else ("float64",):
        backend = NumpyBackend(precision)
        optimizer, parameters = case.build(backend), case.start(backend)
        case.advance(optimizer, parameters, 0, backend)
        # states as large as the parameters are what costs memory
        arrays = {f"state '{k}'": v for k, v in optimizer.state().items() if v.shape == parameters.shape}
        for subject, array in ({"result": parameters} | arrays).items():
            if array.dtype != precision:
                yield Failure(Fault.DTYPE, subject, f"is {array.dtype} where parameters are {precision}")


def purity(case: Course) -> Iterator[Failure]:
    """The device stand-in gives NumPy's numbers; an optimizer that takes steps moves nothing off it."""
    plain, strict = Backend(np), StrictBackend()
    expected = case.run(plain)
    module = strict.xp
    try:
        optimizer, parameters = case.build(strict), case.start(strict)
        for step in range(STEPS):
            case.advance(optimizer, parameters, step, strict)
        moved = module.downloads
        found = strict.to_host(parameters)
    except TypeError as error:
        yield Failure(Fault.HOST_LEAK, "advance", f"mixes host and device: {blame(error, case.source)}")
        return
    if case.stepped and moved:
        yield Failure(Fault.HOST_LEAK, "advance", f"moves {moved} arrays off the device in {STEPS} steps")
    if not same(found, expected):
        yield Failure(Fault.HOST_LEAK, "result", f"differs {deviation(found, expected)} from NumPy's")


def time(case: Course) -> Iterator[Failure]:
    """The time of every state is none, or begins at 0 and rises, with an axis for the replicas."""
    steps = np.arange(STEPS + 1)
    found = case.build(NumpyBackend()).time(steps)
    if found is None:
        return
    if found.shape != (N_REPLICAS, len(steps)):
        yield Failure(Fault.SHAPE, "time", f"has shape {found.shape}, expected {(N_REPLICAS, len(steps))}")
    elif np.any(found[:, 0] != 0) or np.any(np.diff(found, axis=1) < 0):
        yield Failure(Fault.DECLARATION, "time", "does not begin at 0, or falls")


CHECKS: dict[str, Check] = {
    "goes down, in place": descends,
    "replicas are independent": replicas,
    "resumed = uninterrupted": resumed,
    "repeatable": repeatable,
    "dtype is kept": dtype,
    "nothing leaves the device": purity,
    "time": time,
}
