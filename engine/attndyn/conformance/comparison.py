"""Numbers compared with numbers: the criterion, what it tolerates, and whether it could fail at all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from attndyn.conformance.expectation import VacuousError
from attndyn.spec.base import ExpectationOptions, Flaw

Array = NDArray[np.float64]
SIGNS = {"at_least": "≥", "at_most": "≤", "equal": "="}


class ToleranceOptions(ExpectationOptions):
    """What deviation is allowed, and what wider one is a verdict of `in part`."""

    atol: float = Field(default=0.0, ge=0, description="absolute tolerance, in the units of the figure")
    rtol: float = Field(default=0.0, ge=0, lt=1, description="tolerance relative to what it is compared with")
    wider_atol: float | None = Field(default=None, ge=0, description="wider one: in part; default: none")
    wider_rtol: float | None = Field(default=None, ge=0, lt=1, description="wider one: in part")

    def flaws(self) -> Iterator[Flaw]:
        """A wider tolerance is wider."""
        yield from super().flaws()
        for name in ("atol", "rtol"):
            wider = getattr(self, f"wider_{name}")
            if wider is not None and wider <= getattr(self, name):
                message = f"found {wider:g}; must be greater than {name} ({getattr(self, name):g})"
                yield Flaw((f"wider_{name}",), message)

    def tolerance(self, target: Array) -> Array:
        """The absolute tolerance around a target."""
        return self.atol + self.rtol * np.abs(target)

    def wider_tolerance(self, target: Array) -> Array | None:
        """The wider one; None if the spec has none."""
        if self.wider_atol is None and self.wider_rtol is None:
            return None
        atol = self.atol if self.wider_atol is None else self.wider_atol
        return atol + (self.rtol if self.wider_rtol is None else self.wider_rtol) * np.abs(target)


class ComparisonOptions(ToleranceOptions):
    """A relation to a target within a tolerance."""

    relation: Literal["at_least", "at_most", "equal"] = Field(description="how the figure must compare")

    def flaws(self) -> Iterator[Flaw]:
        """An equality of real numbers needs a tolerance."""
        yield from super().flaws()
        if self.relation == "equal" and not self.atol and not self.rtol:
            yield Flaw(("relation",), "equal needs a tolerance, atol or rtol")

    def within(self, figures: Array, target: Array, tolerance: Array) -> NDArray[np.bool_]:
        """Whether each figure is as the relation says; false where one of the two is NaN."""
        if self.relation == "at_least":
            return figures >= target - tolerance
        if self.relation == "at_most":
            return figures <= target + tolerance
        return np.abs(figures - target) <= tolerance

    def compared(self, figures: Array, target: Array) -> tuple[NDArray[np.bool_], NDArray[np.bool_] | None]:
        """Whether each figure is as the relation says, and so within the wider tolerance, if there is one."""
        wider = self.wider_tolerance(target)
        nearly = None if wider is None else self.within(figures, target, wider)
        return self.within(figures, target, self.tolerance(target)), nearly

    def refuse_vacuous(
        self,
        target: Array,
        lowest: float,
        highest: float,
        bounds: tuple[float, float] = (-np.inf, np.inf),
        moves: bool = True,
    ) -> None:
        """Refuse a bound that the quantity has anyway, and a tolerance that lets through all that it does.

        What the quantity does is weighed against the size of the target: one that keeps close to it
        holds, and holding is no reason to be refused. Around 0 there is no size, and only bounds refuse.

        Args:
            target: what it is compared with, shape (trial,).
            lowest: the least that the quantity is in the run.
            highest: the most.
            bounds: what it cannot be below or above in any run.
            moves: whether `lowest` and `highest` are those of a curve, not of one value a trial.

        Raises:
            VacuousError: the check could not fail, or the quantity is NaN throughout.
        """
        if np.isnan(lowest):
            raise VacuousError("cannot fail: the selection holds nothing but NaN")
        target = target[~np.isnan(target)]
        if not target.size:
            return
        widest = self.wider_tolerance(target)
        widest = self.tolerance(target) if widest is None else np.maximum(widest, self.tolerance(target))
        self._refuse_bounds(target, widest, bounds)
        size = np.abs(target)
        if self.relation == "equal":
            reach = np.maximum(np.abs(highest - target), np.abs(lowest - target))
        else:  # the range includes the target: a quantity that never moves, but far from it, can well fail
            reach = np.maximum(highest, target) - np.minimum(lowest, target)
        travels = moves & (highest - lowest >= size)
        room = np.where(travels, reach, np.maximum(reach, size))
        if ((widest > 0) & (size > 0) & (widest >= room)).any():
            raise VacuousError(_as_wide(widest, lowest, highest))

    def _refuse_bounds(self, target: Array, widest: Array, bounds: tuple[float, float]) -> None:
        low, high = bounds
        below = self.relation != "at_most" and (target - widest <= low).all()
        above = self.relation != "at_least" and (target + widest >= high).all()
        if (self.relation == "at_least" and below) or (self.relation == "at_most" and above):
            raise VacuousError(
                f"cannot fail: the quantity is always {'≥' if below else '≤'} {low if below else high:g}"
            )
        if below and above:
            raise VacuousError(_as_wide(widest, low, high))

    def spell(self, target: Array) -> str:
        """The criterion in a few symbols."""
        known = target[~np.isnan(target)]
        number = f"{np.median(known):.4g}" if known.size else "?"
        tolerance = [f"{self.atol:g}"] * bool(self.atol) + [f"{100 * self.rtol:g} %"] * bool(self.rtol)
        return f"{SIGNS[self.relation]} {number}" + "".join(f" ± {each}" for each in tolerance)


def _as_wide(widest: Array, low: float, high: float) -> str:
    tolerance = f"the tolerance {widest.max():.3g}"
    return f"cannot fail: {tolerance} is as wide as the range of the quantity, {low:.6g} to {high:.6g}"
