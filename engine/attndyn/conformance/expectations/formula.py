"""`formula`: what the theory says of a setting against what is computed of it, in one or many settings."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from pydantic import Field

from attndyn import registry
from attndyn.conformance.comparison import Array, ComparisonOptions
from attndyn.conformance.expectation import Evidence, Example, Expectation, Judgement, VacuousError
from attndyn.conformance.measured import Measured
from attndyn.errors import SpecError
from attndyn.spec import Spec, parse_spec
from attndyn.spec.base import Flaw
from attndyn.spec.selection import Reference
from attndyn.theory.formulas import Formula
from attndyn.theory.quantities import QUANTITIES, evaluate
from attndyn.theory.setting import OutOfReach, Setting

#: most combinations of what `over` lists
MOST = 256


class FormulaOptions(ComparisonOptions):
    """Which quantity of the theory, and what it is compared with: one of `number`, `formula`."""

    kind: Literal["formula"] = "formula"
    of: str = Field(min_length=1, description="the quantity looked at, by name")
    number: float | None = Field(default=None, description="compare with this number")
    formula: str | None = Field(default=None, min_length=1, description="or with another quantity, by name")
    token: int | None = Field(
        default=None, ge=0, description="position, for quantities with one value a token"
    )
    times: float = Field(default=1.0, description="factor on what it is compared with")
    plus: float = Field(default=0.0, description="added to that")
    over: dict[str, list[Any]] = Field(
        default={}, description="settings besides: values by their path in the spec, all combinations"
    )

    def flaws(self) -> Iterator[Flaw]:
        """One target, names that there are, a token where one is needed, and not too many settings."""
        yield from super().flaws()
        if (self.number is None) == (self.formula is None):
            yield Flaw((), "give exactly one of number, formula")
        if self.number is not None and self.times * self.number + self.plus == 0 and self.rtol:
            yield Flaw(("rtol",), "is relative to 0, and so none; give atol", at_key=True)
        if self.formula == self.of and (self.times, self.plus) == (1, 0):
            yield Flaw(("formula",), "is compared with itself: that cannot fail")
        for field, name in (("of", self.of), ("formula", self.formula)):
            if name is not None and name not in QUANTITIES:
                yield Flaw(
                    (field,), f"no such quantity of the theory; {registry.nearest(name, [*QUANTITIES])}"
                )
        for path, values in self.over.items():
            if not values:
                yield Flaw(("over", path), "lists no value")
        count = int(np.prod([len(values) for values in self.over.values()]))
        if count > MOST:
            yield Flaw(("over",), f"{count} combinations; allowed: {MOST}")
        known = [QUANTITIES[name] for name in (self.of, self.formula) if name and name in QUANTITIES]
        if self.token is None and any(quantity.per_token for quantity in known):
            yield Flaw(("token",), "is missing: one of the two has one value a token")
        if self.token is not None and known and not any(quantity.per_token for quantity in known):
            yield Flaw(("token",), "has no effect: neither of the two is of a token", at_key=True)

    def settings(self) -> list[list[str]]:
        """The overrides of each combination; one without any if nothing is listed."""
        if not self.over:
            return [[]]
        chosen = itertools.product(*self.over.values())
        return [Reference(set=dict(zip(self.over, values, strict=True))).overrides for values in chosen]


@registry.expectation("formula")
class FormulaExpectation(Expectation):
    """A trial is a setting: a replica of the run, in each combination of `over`.

    Nothing of the run but its settings is looked at: the claim is one about the theory.
    """

    Options = FormulaOptions
    options: FormulaOptions
    examples = (
        Example("holds", {"of": "loss_floor", "relation": "at_most", "formula": "loss_origin"}),
        Example("does not hold", {"of": "loss_floor", "relation": "at_least", "formula": "loss_origin"}),
        Example("refused", {"of": "loss_floor", "relation": "at_least", "number": 0.0}),
    )

    def flaws(self, measured: Measured) -> Iterator[Flaw]:
        """Every combination of `over` must be a spec."""
        for overrides in self.options.settings():
            try:
                _with(measured.spec, overrides)
            except SpecError as error:
                for problem in error.problems:
                    yield Flaw(("over",), f"{problem.path}: {problem.message}")
                return

    def judge(self, evidence: Evidence) -> Judgement:
        """See `Expectation.judge`."""
        options, quantity = self.options, QUANTITIES[self.options.of]
        reasons: list[str] = []
        specs = [
            replica
            for overrides in options.settings()
            for replica in _with(evidence.own.spec, overrides).replicas_expanded().specs
        ]
        figures = np.array([_value(options.of, spec, options.token, reasons) for spec in specs])
        # unlike elsewhere a replica that has diverged is left out: the claim is not about its run
        lost = np.tile(evidence.own.lost, len(options.settings()))
        if len(lost) == len(figures):
            figures[lost] = np.nan
        target = options.times * self._target(specs, reasons) + options.plus
        figures = np.where(np.isnan(target), np.nan, figures)
        if np.isnan(figures).all():
            raise VacuousError(f"nothing to look at: {reasons[0] if reasons else 'no replica is left'}")
        low, high = float(np.nanmin(figures)), float(np.nanmax(figures))
        options.refuse_vacuous(target, low, high, quantity.bounds, moves=False)
        holds, nearly = options.compared(figures, target)
        return Judgement(
            figures,
            holds,
            options.spell(target),
            quantity.units,
            nearly,
            f"out of reach in some settings: {reasons[0]}" if reasons else "",
        )

    def _target(self, specs: list[Spec], reasons: list[str]) -> Array:
        options = self.options
        if options.formula is None:
            return np.full(len(specs), options.number, float)
        return np.array([_value(options.formula, spec, options.token, reasons) for spec in specs])


def _with(spec: Spec, overrides: list[str]) -> Spec:
    """The spec with other values, without what it expects."""
    return parse_spec(spec.to_yaml(), spec.name, ("expect=[]", *overrides)) if overrides else spec


def _value(name: str, spec: Spec, token: int | None, reasons: list[str]) -> float:
    """The quantity in a replica's setting; NaN, and the reason added, where the theory has none."""
    quantity: Formula = QUANTITIES[name]
    try:
        setting = Setting.of(spec) if quantity.of_flow else Setting.of_chain(spec)
        return evaluate(name, setting, token if quantity.per_token else None)
    except OutOfReach as error:
        reasons.append(str(error))
        return np.nan
