"""`invariant`: how far a variable goes from where it began."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
from pydantic import Field

from attndyn import registry
from attndyn.conformance.expectation import Evidence, Example, Expectation, Judgement, VacuousError
from attndyn.conformance.measured import Measured, SelectionError
from attndyn.spec.base import ExpectationOptions, Flaw
from attndyn.spec.selection import Curves


class InvariantOptions(ExpectationOptions):
    """What stays as it was at the first record, and by how much it may drift."""

    kind: Literal["invariant"] = "invariant"
    of: Curves = Field(description="the variable, over steps")
    at_most: float = Field(gt=0, description="largest drift allowed")
    wider: float | None = Field(
        default=None, gt=0, description="a drift up to this one is in part; default: none"
    )
    measure: Literal["relative", "absolute"] = Field(
        default="relative", description="to the largest magnitude of the variable, or in its units"
    )

    def flaws(self) -> Iterator[Flaw]:
        """A wider drift is wider, and a relative one less than all there is."""
        yield from super().flaws()
        if self.wider is not None and self.wider <= self.at_most:
            yield Flaw(("wider",), f"found {self.wider:g}; must be greater than at_most ({self.at_most:g})")
        for name in ("at_most", "wider"):
            value = getattr(self, name)
            if self.measure == "relative" and value is not None and value >= 1:
                yield Flaw(
                    (name,), f"cannot fail: found {value:g}; a relative drift of 1 is all that there is"
                )


@registry.expectation("invariant")
class Invariant(Expectation):
    """The figure is the largest distance from the first record, of all records and all entries."""

    Options = InvariantOptions
    options: InvariantOptions
    examples = (
        Example("holds", {"of": {"probe": "loss", "variable": "loss"}, "at_most": 0.9}),
        Example("does not hold", {"of": {"probe": "loss", "variable": "loss"}, "at_most": 1e-6}),
        Example("refused", {"of": {"probe": "loss", "variable": "loss"}, "at_most": 1.0}),
    )

    def flaws(self, measured: Measured) -> Iterator[Flaw]:
        """Only what is recorded over steps can drift."""
        try:
            if "step" not in measured.curves(self.options.of).dims:
                yield Flaw(("of", "variable"), "is no curve over steps: it cannot drift")
        except SelectionError:
            return  # reported with the selection

    def judge(self, evidence: Evidence) -> Judgement:
        """See `Expectation.judge`."""
        options, curves = self.options, evidence.own.curves(self.options.of)
        if curves.sizes.get("step", 0) < 2:
            raise VacuousError("cannot fail: there are fewer than two records")
        values = curves.transpose("replica", "step", ...).values
        values = values.reshape(*values.shape[:2], -1)
        values = values[..., ~np.isnan(values).all(axis=(0, 1))]  # entries that mean nothing in any replica
        if not values.size:
            raise VacuousError("cannot fail: the selection holds nothing but NaN")
        drift = np.abs(values - values[:, :1]).max(axis=(1, 2))  # NaN where a replica diverged
        scale = np.abs(values).max(axis=(1, 2))
        largest = float(np.nanmax(np.abs(values)))
        if largest == 0:
            raise VacuousError("cannot fail: it is 0 throughout")
        allowed = [options.at_most] if options.wider is None else [options.at_most, options.wider]
        units = str(curves.attrs.get("units", "1"))
        if options.measure == "relative":
            drift, units = drift / np.where(scale > 0, scale, np.nan), "1"
        elif max(allowed) >= largest:
            message = f"the drift allowed, {max(allowed):g}, is as large as the variable ever is, {largest:g}"
            raise VacuousError(f"cannot fail: {message}")
        criterion = f"{options.measure} drift ≤ {options.at_most:g}"
        nearly = None if options.wider is None else drift <= options.wider
        replicas = curves["_place"].values.astype(np.intp)
        lost, settings = evidence.own.lost[replicas], evidence.own.settings_of(replicas)
        return Judgement(
            drift, drift <= options.at_most, criterion, units, nearly, lost=lost, settings=settings
        )
