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

    def within(self, figures: Array, target: Array, tolerance: Array) -> NDArray[np.bool_]:
        """Whether each figure is as the relation says; false where one of the two is NaN."""
        if self.relation == "at_least":
            return figures >= target - tolerance
        if self.relation == "at_most":
            return figures <= target + tolerance
        return np.abs(figures - target) <= tolerance

    def refuse_vacuous(self, target: Array, lowest: float, highest: float) -> None:
        """A tolerance as wide as all that the quantity does in the whole run tells nothing.

        Raises:
            VacuousError: it is, or one side is NaN throughout.
        """
        if np.isnan(lowest):
            raise VacuousError("cannot fail: the selection holds nothing but NaN")
        if np.isnan(target).all():
            raise VacuousError("cannot fail: what it is compared with is NaN")
        widest = self.wider_tolerance(target)
        widest = self.tolerance(target) if widest is None else np.maximum(widest, self.tolerance(target))
        # the range includes the target: a quantity that never moves, but far from it, can well fail
        room = np.maximum(highest, target) - np.minimum(lowest, target)
        size = np.maximum(np.abs(target), max(abs(lowest), abs(highest)))
        if np.nanmax(widest) > 0 and np.nanmin(np.where(room > 0, room, size) - widest) <= 0:
            message = (
                f"cannot fail: the tolerance {np.nanmax(widest):.3g} is as wide as the range of the quantity"
            )
            raise VacuousError(f"{message}, {lowest:.6g} to {highest:.6g}")

    def spell(self, target: Array) -> str:
        """The criterion in a few symbols."""
        known = target[~np.isnan(target)]
        number = f"{np.median(known):.4g}" if known.size else "?"
        tolerance = [f"{self.atol:g}"] * bool(self.atol) + [f"{100 * self.rtol:g} %"] * bool(self.rtol)
        return f"{SIGNS[self.relation]} {number}" + "".join(f" ± {each}" for each in tolerance)
