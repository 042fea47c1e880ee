"""Predictions beside measurements: every formula for a spec, and why where there is none."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr

from attndyn.data.options import MarkovOptions
from attndyn.spec import Spec
from attndyn.theory.formulas import FORMULAS, Formula, evaluate
from attndyn.theory.measure import Measurement, Record
from attndyn.theory.setting import OutOfReach, Setting

#: most tokens with rows of their own
MAX_ROWS = 8


@dataclass(frozen=True)
class Row:
    """One quantity over the replicas of a spec.

    Attributes:
        formula: the formula.
        token: label of the token, for a formula with one value a token.
        predicted: `(replica,)`; NaN where it has no value.
        measured: `(replica,)`; NaN where there is no run or the run does not show it.
        reason: why nothing is predicted, in one line; empty if something is.
    """

    formula: Formula
    token: str | None
    predicted: np.ndarray
    measured: np.ndarray
    reason: str = ""

    @property
    def name(self) -> str:
        """Name of the formula, with the token."""
        return self.formula.name if self.token is None else f"{self.formula.name}[{self.token}]"

    @property
    def difference(self) -> np.ndarray:
        """measured / predicted − 1 `(replica,)`."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.measured / self.predicted - 1


def band(values: np.ndarray) -> tuple[float, float, float] | None:
    """Median, 10th and 90th percentile of what is finite; None if nothing is."""
    finite = values[np.isfinite(values)]
    if not len(finite):
        return None
    median, low, high = np.quantile(finite, [0.5, 0.1, 0.9])
    return float(median), float(low), float(high)


def compare(spec: Spec, trajectory: xr.DataTree | None = None) -> list[Row]:
    """A row for each formula and token.

    Args:
        spec: any valid spec; what the theory cannot say of it has a reason instead of numbers.
        trajectory: of a run of the spec; None: predictions only.
    """
    specs = spec.replicas_expanded().specs
    cases = [_case(each) for each in specs]
    measurements = [
        None
        if case.setting is None or trajectory is None
        else _measurement(case.setting, trajectory, replica)
        for replica, case in enumerate(cases)
    ]
    rows = []
    for formula in FORMULAS.values():
        for token, label in _tokens(formula, specs[0]):
            values, reasons = zip(*(case.predict(formula, token) for case in cases), strict=True)
            predicted = np.array(values)
            measured = [
                np.nan if m is None or np.isnan(value) else m.value(formula.name, token)
                for m, value in zip(measurements, values, strict=True)
            ]
            reason = next(filter(None, reasons), "") if np.isnan(predicted).all() else ""
            rows.append(Row(formula, label, predicted, np.array(measured), reason))
    return rows


@dataclass(frozen=True, eq=False)
class _Case:
    """A replica: its setting, None without even a chain; and what keeps it from the theory's flow."""

    setting: Setting | None
    obstacle: str

    def predict(self, formula: Formula, token: int | None) -> tuple[float, str]:
        """The value, or NaN and the reason."""
        if self.setting is None or (self.obstacle and formula.of_flow):
            return np.nan, self.obstacle
        try:
            return evaluate(formula.name, self.setting, token), ""
        except OutOfReach as error:
            return np.nan, str(error)


def _case(spec: Spec) -> _Case:
    try:
        return _Case(Setting.of(spec), obstacle(spec))
    except OutOfReach as error:
        if not isinstance(spec.data, MarkovOptions):
            return _Case(None, str(error))
        return _Case(Setting.of_chain(spec), str(error))


def obstacle(spec: Spec) -> str:
    """Why a run of the spec does not follow the population's gradient flow; empty if it does."""
    kind = spec.optimizer.kind
    if kind not in ("flow", "gd"):
        return f"optimizer '{kind}' does not follow the gradient, and this is a prediction for gradient flow"
    if spec.data.regime != "population":
        return "regime 'sampled', and this is a prediction for the population, the limit of large batches"
    return ""


def _measurement(setting: Setting, trajectory: xr.DataTree, replica: int) -> Measurement:
    return Measurement(setting, Record.of(trajectory, replica))


def _tokens(formula: Formula, spec: Spec) -> list[tuple[int | None, str | None]]:
    """Position and label of each token that has a row: the most frequent ones; or one row for all."""
    if not formula.per_token:
        return [(None, None)]
    if not isinstance(spec.data, MarkovOptions):
        return [(0, "0")]
    frequent = np.argsort(-spec.data.pi, kind="stable")[:MAX_ROWS]
    return [(int(token), spec.data.labels[token]) for token in frequent]
