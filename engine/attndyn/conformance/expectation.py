"""The expectation protocol: what a run shows, replica by replica, of a claim."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attndyn.conformance.measured import Measured
from attndyn.errors import AttndynError
from attndyn.spec.base import ExpectationOptions, Flaw
from attndyn.spec.selection import Reference


class VacuousError(AttndynError):
    """A check that could not fail, or that has nothing to look at: a mistake of the spec, and no verdict."""


@dataclass(frozen=True)
class Judgement:
    """What was seen of a claim in each trial: as a rule a replica is one.

    Attributes:
        figures: the number looked at, shape (trial,); NaN where the claim says nothing of the trial, because
            what it speaks of is not there.
        holds: whether it is as claimed, shape (trial,).
        criterion: what decides, in a few symbols: `≥ 0.05`.
        units: of the figures.
        nearly: whether it is as claimed within the wider tolerance, shape (trial,); None if there is none.
        lost: which trials diverged before what the claim speaks of, shape (trial,): they count, and not as
            holding. None if none did.
        settings: what varies of each trial beside its seed, in words, shape (trial,); None if nothing does.
        detail: what else was seen, in a line.
    """

    figures: NDArray[np.float64]
    holds: NDArray[np.bool_]
    criterion: str
    units: str = "1"
    nearly: NDArray[np.bool_] | None = None
    detail: str = ""
    lost: NDArray[np.bool_] | None = None
    settings: NDArray[np.str_] | None = None

    @property
    def diverged(self) -> NDArray[np.bool_]:
        """Trials that are lost, shape (trial,)."""
        return np.zeros(len(self.figures), bool) if self.lost is None else self.lost

    @property
    def applies(self) -> NDArray[np.bool_]:
        """Trials that count, shape (trial,): those of which the claim says something, and those lost."""
        return ~np.isnan(self.figures) | self.diverged


@dataclass(frozen=True)
class Evidence:
    """The runs that an expectation is judged on: the spec's own, and those that it refers to."""

    own: Measured
    others: Callable[[Reference], Measured] = field(repr=False)


class Example(NamedTuple):
    """Options of a kind of expectation, and what is to come of them.

    Attributes:
        verdict: that they get.
        options: all but `kind`, `id`, `claim` and `source`.
    """

    verdict: Literal["holds", "does not hold", "refused"]
    options: Mapping[str, Any]


class Expectation(ABC):
    """Base of all kinds of expectations. One file each, registered with `@registry.expectation("name")`.

    Attributes:
        name: set by the registering decorator.
        Options: Pydantic class of the options in a spec, with `kind: Literal["name"]`. A field that is a
            `Selection` is checked by the engine: its probe or analyzer when the spec is loaded, its variable
            and labels before the run.
    """

    name: ClassVar[str]
    Options: ClassVar[type[ExpectationOptions]]

    #: options that are selections which `judge` reads in the runs referred to as well as in the spec's own
    read_elsewhere: ClassVar[Sequence[str]] = ()

    #: for the checks of the plugin, on the run of `expectation_checks`: at least one that holds, one that
    #: does not, and one that is refused, because it could not fail
    examples: ClassVar[Sequence[Example]] = ()

    def __init__(self, options: ExpectationOptions):
        self.options = options

    def references(self) -> Sequence[Reference]:
        """The other runs that `judge` asks for; none by default."""
        return ()

    def flaws(self, measured: Measured) -> Iterator[Flaw]:
        """What is wrong with the options, seen with a short run of the same labels; none by default.

        Selections are checked without it.
        """
        return iter(())

    @abstractmethod
    def judge(self, evidence: Evidence) -> Judgement:
        """What the runs show.

        Raises:
            VacuousError: the check could not fail, or there is nothing to look at.
            SelectionError: a selection names what is not there.
        """
