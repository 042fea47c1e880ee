"""The probe protocol: what is recorded, when, and with which labels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from attndyn.backend import Array
from attndyn.layers.parameters import Parameters
from attndyn.spec.base import ProbeOptions

if TYPE_CHECKING:
    from attndyn.simulation.simulation import Simulation


@dataclass(frozen=True)
class Variable:
    """Declaration of one recorded variable; the file's dimensions and attributes follow from it.

    Attributes:
        dims: names of its axes after replica and step.
        shape: sizes of those axes.
        long_name: what it is, in a few words.
        units: its unit, `1` where it has none.
        symbol: the paper's symbol in LaTeX, where it has one.
        valid_min: what it cannot be below in any run; None if there is no such bound.
        valid_max: what it cannot be above.
        nan_where: where it is NaN in a run that has not diverged, in a few words that follow "NaN where";
            empty if nowhere. The file has it as the attribute `comment`.
    """

    dims: tuple[str, ...]
    shape: tuple[int, ...]
    long_name: str
    units: str = "1"
    symbol: str = ""
    valid_min: float | None = None
    valid_max: float | None = None
    nan_where: str = ""


@dataclass(frozen=True)
class Fixed:
    """What a probe knows once and for all, kept as a coordinate of its group.

    Attributes:
        dims: names of its axes, `replica` among them where replicas differ.
        values: numbers or labels, on the host.
        long_name: what it is, in a few words.
    """

    dims: tuple[str, ...]
    values: np.ndarray
    long_name: str


@dataclass(frozen=True)
class Declaration:
    """All variables of a probe, labels for dimensions that only its group has, and what is fixed.

    Labels are tokens, e.g. `query` that of a query token, unless `described` says what they are.
    """

    variables: Mapping[str, Variable]
    labels: Mapping[str, list[str]] = field(default_factory=dict)
    described: Mapping[str, str] = field(default_factory=dict)
    fixed: Mapping[str, Fixed] = field(default_factory=dict)


@dataclass(frozen=True)
class State:
    """What a probe sees: the state before update `step`, all arrays on the device, none to be changed.

    `loss (R,)` and `gradients` are those of the batch of that step.
    """

    step: int
    parameters: Parameters
    gradients: Parameters
    loss: Array


class Probe(ABC):
    """Base of all probes, registered with `@attndyn.registry.probe("name")`; its group has its name.

    Args:
        options: the probe's options in the spec.
        simulation: what is being run: architecture, data, backend.
    """

    name: ClassVar[str]
    Options: ClassVar[type[ProbeOptions]] = ProbeOptions

    def __init__(self, options: ProbeOptions, simulation: Simulation):
        self.options = options
        self.simulation = simulation

    @abstractmethod
    def declare(self) -> Declaration:
        """The variables that `measure` returns."""

    @abstractmethod
    def measure(self, state: State) -> dict[str, Array]:
        """Every declared variable, `(R, *shape)`; new device arrays, not views of the state."""


def cadence(options: ProbeOptions, steps: int) -> Callable[[int], bool]:
    """Whether a probe records at a step of a run of `steps`; the final state is always recorded.

    `count` steps are spread evenly in log(step + 1) from 0 to the end; equal ones are recorded once.
    """
    if options.every is not None:
        every = options.every
        return lambda step: step % every == 0 or step == steps
    if options.steps is not None:
        listed = {*options.steps, steps}
    else:
        assert options.count is not None
        spread = np.linspace(0.0, np.log1p(steps), options.count)
        listed = {*np.rint(np.expm1(spread)).astype(int).tolist(), steps}
    return listed.__contains__
