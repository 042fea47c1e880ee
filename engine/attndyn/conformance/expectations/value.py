"""`value`: a number of the run against a number, another one of the run, or a formula of the theory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from attndyn import registry
from attndyn.conformance.comparison import Array, ComparisonOptions
from attndyn.conformance.expectation import Evidence, Example, Expectation, Judgement, VacuousError
from attndyn.spec.base import Flaw
from attndyn.spec.selection import Selection
from attndyn.theory import formulas
from attndyn.theory.setting import Setting

LOSS = {"probe": "loss", "variable": "loss", "at": "last"}


class ValueOptions(ComparisonOptions):
    """What number, and what it is compared with: one of `number`, `other`, `formula`."""

    kind: Literal["value"] = "value"
    of: Selection = Field(description="the number looked at")
    number: float | None = Field(default=None, description="compare with this number")
    other: Selection | None = Field(default=None, description="compare with another number of the same run")
    formula: str | None = Field(default=None, description="compare with a formula of the theory, by name")
    arguments: dict[str, Any] = Field(default={}, description="of the formula, such as token: 1")
    times: float = Field(default=1.0, description="factor on what it is compared with")
    plus: float = Field(default=0.0, description="added to that")

    def flaws(self) -> Iterator[Flaw]:
        """One target; an equality needs a tolerance; a formula must exist."""
        yield from super().flaws()
        given = [n for n in ("number", "other", "formula") if getattr(self, n) is not None]
        if len(given) != 1:
            yield Flaw((), f"give exactly one of number, other, formula; found {', '.join(given) or 'none'}")
        if self.number is not None and self.times * self.number + self.plus == 0 and self.rtol:
            yield Flaw(("rtol",), "is relative to 0, and so none; give atol", at_key=True)
        if self.other is not None and self.other == self.of and (self.times, self.plus) == (1, 0):
            yield Flaw(("other",), "is compared with itself: that cannot fail")
        if self.formula is not None and self.formula not in formulas.FORMULAS:
            known = registry.nearest(self.formula, list(formulas.FORMULAS))
            yield Flaw(("formula",), f"no such formula of the theory; {known}")


@registry.expectation("value")
class Value(Expectation):
    """A number of each replica, against a target."""

    Options = ValueOptions
    options: ValueOptions
    examples = (
        Example("holds", {"of": LOSS, "relation": "at_most", "other": LOSS | {"at": "first"}}),
        Example("does not hold", {"of": LOSS, "relation": "at_least", "number": 2.0}),
        Example("refused", {"of": LOSS, "relation": "at_least", "number": 0.0}),
    )

    def judge(self, evidence: Evidence) -> Judgement:
        """See `Expectation.judge`."""
        options, picked = self.options, evidence.own.pick(self.options.of)
        compared, lost = self._target(evidence, picked.replicas)
        target = options.times * compared + options.plus
        options.refuse_vacuous(target, picked.lowest, picked.highest, picked.bounds, picked.moves)
        figures = np.where(np.isnan(target), np.nan, picked.values)
        holds, nearly = options.compared(figures, target)
        return Judgement(
            figures,
            holds,
            options.spell(target),
            picked.units,
            nearly,
            lost=picked.lost | lost,
            settings=evidence.own.settings_of(picked.replicas),
        )

    def _target(self, evidence: Evidence, replicas: NDArray[np.intp]) -> tuple[Array, NDArray[np.bool_]]:
        """What is compared with, for each replica, and where it is lost."""
        options, own = self.options, evidence.own
        none = np.zeros(len(replicas), bool)
        if options.number is not None:
            return np.full(len(replicas), options.number), none
        if options.other is not None:
            found = own.pick(options.other)
            if np.isnan(found.lowest):
                raise VacuousError("cannot fail: what it is compared with is NaN")
            values = dict(zip(found.replicas.tolist(), found.values.tolist(), strict=True))
            target = np.array([values.get(int(replica), np.nan) for replica in replicas])
            return target, np.isin(replicas, found.replicas[found.lost])
        specs = own.spec.replicas_expanded().specs
        given = np.array([self._formula(specs[int(replica)]) for replica in replicas])
        if np.isnan(given).any():
            raise VacuousError(f"cannot fail: the formula {options.formula} gives NaN")
        return given, none

    def _formula(self, spec: Any) -> float:
        return formulas.evaluate(str(self.options.formula), Setting.of(spec), **self.options.arguments)
