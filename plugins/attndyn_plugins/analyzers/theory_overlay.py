"""The theory on the measured curves: rates, plateaus, onsets, and the rank-one flow from the same start."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase

from attndyn.analysis.analyzer import Analyzer
from attndyn.analysis.records import describe, group
from attndyn.analysis.spectra import row_norms
from attndyn.errors import AttndynError
from attndyn.registry import analyzer
from attndyn.report import style
from attndyn.spec import Spec, parse_spec
from attndyn.spec.base import AnalyzerOptions
from attndyn.theory.comparison import obstacle
from attndyn.theory.formulas import FORMULAS, evaluate
from attndyn.theory.measure import Measurement, Record
from attndyn.theory.onsets import follow
from attndyn.theory.setting import OutOfReach, Setting

ONSETS = ("onset_condensation", "onset_focus", "onset_dilution")
SHORT = {"onset_condensation": "I", "onset_focus": "II", "onset_dilution": "III"}


class _Case(NamedTuple):
    """A replica's setting, or None and the reason; and its record."""

    setting: Setting | None
    reason: str
    record: Record | None


@analyzer("theory_overlay")
class TheoryOverlay(Analyzer):
    """Predicted rates, plateaus, onsets and curves of gradient flow beside what the run measured."""

    class Options(AnalyzerOptions):
        """There are none."""

        kind: Literal["theory_overlay"] = "theory_overlay"

    requires = ("loss", "parameters")
    title = "Theory on the measured curves"
    height = 6.5

    def analyze(self, trajectory: xr.DataTree) -> xr.Dataset:
        """Predictions and measurements, as the docs on the theory define them.

        `predicted_Q`, `measured_Q` `(replica)` for every formula Q, `(replica, token)` for one with a value a
        token. Curves at the steps at which parameters were recorded: `row_norm(replica, step, token)`,
        `score_norm(replica, step)`, `loss(replica, step)`, and the same with `predicted_` in front, from the
        flow on the rank-one manifold that starts where the replica did. NaN where the theory says nothing;
        why, of the first such replica, is in the attribute `reason` of each `predicted_…`.
        """
        parameters = group(trajectory, "parameters")
        cases = _cases(trajectory)
        found = xr.Dataset(
            {"row_norm": describe(row_norms(parameters["W_0"]), "norm of the token's row of W_0")}
        )
        found = found.transpose("replica", "step", "token")
        found["loss"] = _at(found["row_norm"], group(trajectory, "loss")["loss"])
        found.update(_curves(found["row_norm"], cases))
        found.update(_numbers(found["row_norm"], cases))
        return found

    def draw(self, result: xr.Dataset, trajectory: xr.DataTree, figure: FigureBase) -> None:
        """Norms of embeddings, scores of attention, loss; predictions dashed, plateaus and onsets lines."""
        norms, scores, loss = figure.subplots(3, 1, sharex=True)
        x = style.step_axis(norms, result["row_norm"])
        for ax in (scores, loss):
            style.step_axis(ax, result["row_norm"])
        colors = style.token_colors(trajectory, result["token"].values.tolist())
        for (token, color), name in zip(colors.items(), style.distinct(colors).values(), strict=True):
            at = {"token": token}
            style.line_with_band(norms, x, result["row_norm"].sel(at), color, name)
            _dashed(norms, x, result["predicted_row_norm"].sel(at), color)
            _level(norms, result["predicted_plateau_row_norm"].sel(at), color)
        for ax, name in ((scores, "score_norm"), (loss, "loss")):
            style.line_with_band(ax, x, result[name], "black", "measured")
            _dashed(ax, x, result[f"predicted_{name}"], style.color(3), "flow on the rank-one manifold")
        _level(loss, result["predicted_loss_plateau"], style.color(3))
        style.log_y(norms)
        style.log_y(scores)
        style.label_axes(norms, y=r"$|W_0[i,:]|$")
        style.label_axes(scores, y=r"$\|Z\|$")
        style.label_axes(loss, y="loss", units="nats")
        for ax in (norms, scores, loss):
            _mark_onsets(ax, result, letters=ax is norms)
        norms.set_xlabel("")
        scores.set_xlabel("")
        reason = result["predicted_condensation_rate"].attrs["reason"]
        style.label_axes(scores, title=f"not predicted: {reason}"[:110] if reason else _rates(result))
        style.legend(figure)


def _cases(trajectory: xr.DataTree) -> list[_Case]:
    """A case for each replica of the trajectory."""
    replicas = group(trajectory, "parameters")["replica"].values.tolist()
    try:
        specs = parse_spec(str(trajectory.attrs.get("spec_yaml", ""))).replicas_expanded().specs
    except AttndynError:
        return [_Case(None, "the trajectory has no spec that can be read", None)] * len(replicas)
    return [_case(trajectory, specs[number], index) for index, number in enumerate(replicas)]


def _case(trajectory: xr.DataTree, spec: Spec, index: int) -> _Case:
    try:
        setting = Setting.of(spec)
    except OutOfReach as error:
        return _Case(None, str(error), None)
    reason = obstacle(spec)
    return _Case(None if reason else setting, reason, Record.of(trajectory, index))


def _curves(like: xr.DataArray, cases: list[_Case]) -> xr.Dataset:
    """Measured scores, and the curves of the reduced flows at the recorded times."""
    n_replicas, n_steps, n_tokens = like.shape
    rows = np.full((n_replicas, n_steps, n_tokens), np.nan)
    scores, predicted_scores, losses = np.full((3, n_replicas, n_steps), np.nan)
    for replica, (setting, _, record) in enumerate(cases):
        if setting is None or record is None or not len(record.time):
            continue
        n = len(record.time)
        scores[replica, :n] = Measurement(setting, record).scores
        try:
            flow, states = follow(setting, record.time)
        except OutOfReach:
            continue
        rows[replica, :n] = np.abs(states[:, :n_tokens])
        predicted_scores[replica, :n] = [np.linalg.norm(flow.scores(state)) for state in states]
        losses[replica, :n] = [flow.loss(state) for state in states]
    one, all_tokens = like.isel(token=0, drop=True), like
    flow_of = "on the rank-one manifold"
    return xr.Dataset(
        {
            "score_norm": describe(one.copy(data=scores), "norm of the scores of attention", r"\|Z\|_F"),
            "predicted_row_norm": describe(all_tokens.copy(data=rows), f"norm of the row of W_0 {flow_of}"),
            "predicted_score_norm": describe(
                one.copy(data=predicted_scores), f"norm of the scores {flow_of}"
            ),
            "predicted_loss": describe(one.copy(data=losses), f"loss {flow_of}", "L", "nats"),
        }
    )


def _numbers(like: xr.DataArray, cases: list[_Case]) -> xr.Dataset:
    """Predicted and measured value of every formula."""
    found = {}
    for name, formula in FORMULAS.items():
        tokens: list[int | None] = list(range(like.sizes["token"])) if formula.per_token else [None]
        predicted, measured = np.full((2, len(cases), len(tokens)), np.nan)
        reasons = [case.reason for case in cases if case.reason]
        for replica, (setting, _, record) in enumerate(cases):
            if setting is None or record is None or not len(record.time):
                continue
            for index, token in enumerate(tokens):
                try:
                    predicted[replica, index] = evaluate(name, setting, token)
                except OutOfReach as error:
                    reasons.append(str(error))
                    break
                measured[replica, index] = Measurement(setting, record).value(name, token)
        shape = like.isel(step=0, drop=True).drop_vars("time", errors="ignore")
        for kind, values in (("predicted", predicted), ("measured", measured)):
            array = (
                shape.copy(data=values)
                if formula.per_token
                else shape.isel(token=0, drop=True).copy(data=values[:, 0])
            )
            found[f"{kind}_{name}"] = describe(
                array, f"{kind}: {formula.long_name}", formula.symbol, formula.units
            )
        found[f"predicted_{name}"].attrs["reason"] = reasons[0] if reasons else ""
    return xr.Dataset(found)


def _at(like: xr.DataArray, loss: xr.DataArray) -> xr.DataArray:
    """The loss at the steps of the parameters' records, straight between its own."""
    wanted, steps = like["step"].values, loss["step"].values
    curves = loss.transpose("replica", "step").values
    values = np.stack([np.interp(wanted, steps, curve, np.nan, np.nan) for curve in curves])
    return describe(like.isel(token=0, drop=True).copy(data=values), "cross-entropy", "L", "nats")


def _dashed(ax: Axes, x: np.ndarray, curves: xr.DataArray, color: str, label: str = "_") -> None:
    """The median of predicted curves, over the measured ones."""
    values = curves.transpose("replica", "step").values
    if np.isfinite(values).any():
        median = np.nanmedian(values[np.isfinite(values).any(axis=1)], axis=0)
        ax.plot(x, median, color=color, label=label, linestyle=style.DASHES[1], linewidth=2.4, alpha=0.55)


def _level(ax: Axes, values: xr.DataArray, color: str) -> None:
    if np.isfinite(values).any():
        ax.axhline(float(np.nanmedian(values)), **(style.REFERENCE | {"color": color}))


def _mark_onsets(ax: Axes, result: xr.Dataset, letters: bool) -> None:
    """Predicted onsets as upright lines where the axis shows time."""
    if ax.get_xlabel() == "step" or result["row_norm"].coords.get("time") is None:
        return
    last = ax.get_xlim()[1]
    for name in ONSETS:
        values = result[f"predicted_{name}"].values
        if np.isfinite(values).any() and np.nanmedian(values) < last:
            at = float(np.nanmedian(values))
            ax.axvline(at, **style.REFERENCE)
            if letters:
                ax.text(at, 1.0, f" {SHORT[name]}", transform=ax.get_xaxis_transform(), va="top", fontsize=7)


def _rates(result: xr.Dataset) -> str:
    """σ and κ, predicted and measured, as a line of text."""
    parts = []
    for name, symbol in (("condensation_rate", r"$\sigma$"), ("focus_rate", r"$\kappa$")):
        pair = [result[f"{kind}_{name}"].values for kind in ("predicted", "measured")]
        if all(np.isfinite(values).any() for values in pair):
            predicted, measured = (float(np.nanmedian(values)) for values in pair)
            parts.append(f"{symbol} predicted {predicted:.4g}, measured {measured:.4g}")
    return "; ".join(parts)
