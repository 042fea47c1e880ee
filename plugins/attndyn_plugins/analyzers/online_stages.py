"""Stages told while a run goes on, from attention entropy and from the loss, scored by one rule."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.ticker import NullFormatter
from pydantic import Field

from attndyn.analysis.analyzer import Analyzer
from attndyn.analysis.attention_curves import HEAD_DIMS, mean_over_queries
from attndyn.analysis.online import Announced, TrendOptions, detect_trends
from attndyn.analysis.records import describe, group
from attndyn.analysis.score import Rule, Score, score
from attndyn.analysis.series import Array, band, until_divergence
from attndyn.analysis.settings import settings
from attndyn.analysis.stage_table import HEAD
from attndyn.analysis.stages import StageOptions
from attndyn.analysis.timeline import opens_later_token
from attndyn.registry import analyzer
from attndyn.report import style
from attndyn_plugins.analyzers.stages import Stages

SIGNALS = {"entropy": "attention entropy", "loss": "loss"}
TARGETS = ("condensation_end", "collapse_end", "focus_onset", "dilution_onset", "dilution_end")
#: what each boundary should do to each signal (docs/stages.md); nothing where it should leave no mark
MARKS: dict[str, dict[str, tuple[str, ...]]] = {
    "entropy": {
        "focus_onset": ("fall",),
        "dilution_onset": ("rise",),
        "dilution_end": ("level", "fall"),
        "later token": ("fall", "rise"),
    },
    "loss": {
        "condensation_end": ("level",),
        "focus_onset": ("fall",),
        "dilution_onset": ("fall",),
        "dilution_end": ("level",),
        "later token": ("fall",),
    },
}
MARKERS = {"fall": "v", "rise": "^", "level": "_"}
SCORES = {
    "precision": "share of the announced changes of trend that meet a boundary",
    "recall": "share of the boundaries that an announced change of trend meets",
    "chance_precision": "mean precision of the same events shifted in time",
    "chance_recall": "mean recall of the same events shifted in time",
}
STRICT = {"": "", "strict_": "; events of the right kind and not before the boundary"}
BANDS = {"median": "median", "p10": "10th percentile", "p90": "90th percentile"}


@analyzer("online_stages")
class OnlineStages(Analyzer):
    """A causal detector of bounded memory on attention entropy and on the loss, scored against `stages`."""

    class Options(TrendOptions):
        """What counts as a change of trend, and as a match; the same for both signals."""

        kind: Literal["online_stages"] = "online_stages"
        tolerance: float = Field(
            default=0.2, gt=0, lt=1, description="distance of event and boundary, as a share of its step"
        )
        stages: StageOptions = Field(
            default=StageOptions(), description="how boundaries are read; as those of `stages`, if it has any"
        )

    options: OnlineStages.Options
    requires = ("loss", "attention", "parameters")
    title = "Stages told on line"

    def analyze(self, trajectory: xr.DataTree) -> xr.Dataset:
        """Events and scores for `signal` entropy (mean over queries weighted by π) and loss; docs/stages.md.

        `event_step`, `event_kind` `(signal, replica, layer, head, event)`, padded with NaN and empty words;
        `precision`, `recall` and what chance gives, `(signal, replica, layer, head)`; `delay(signal, replica,
        layer, head, boundary)` in steps, NaN where missed or absent; the same with `strict_` before, of
        events of the right kind (`MARKS`) and not before the boundary; `true_step` the boundaries themselves.
        `*_median`, `*_p10`, `*_p90` `(signal, setting, ...)` are over the replicas of a setting that have a
        value, `found_share(signal, setting, layer, head, boundary)` over those that have the boundary.
        """
        found = Stages(self.options.stages).analyze(trajectory)["boundary_step"].transpose(*HEAD, "boundary")
        kept = [name for name in found["boundary"].values if name in TARGETS or opens_later_token(name)]
        true = found.sel(boundary=kept)
        curves = self._curves(trajectory, true)
        events = {
            place: detect_trends(steps, values, self.options) for place, (steps, values) in curves.items()
        }
        coords = {"signal": list(SIGNALS), **{name: true[name] for name in true.coords}}
        tables = {
            "true_step": describe(true, "step of the boundary, from the whole trajectory", units="step")
        }
        tables |= _event_table(events, true, coords)
        for strict in STRICT:
            scores = {
                place: score(
                    np.array([event.step for event in announced.events]),
                    true.values[place[1:]],
                    self._rule(strict, announced, place[0], kept),
                    announced.first,
                    _last(*curves[place]),
                )
                for place, announced in events.items()
            }
            tables |= _score_table(scores, true, coords, strict)
        result = xr.Dataset(tables)
        return result.assign(_bands(result, trajectory))

    def _rule(self, strict: str, announced: Announced, signal: int, kept: list[str]) -> Rule:
        """The rule by which the events on one signal are scored."""
        if not strict:
            return Rule(self.options.tolerance)
        marks = MARKS[list(SIGNALS)[signal]]
        kinds = [marks.get("later token" if opens_later_token(name) else name, ()) for name in kept]
        allowed = [[event.kind in of for of in kinds] for event in announced.events]
        return Rule(self.options.tolerance, np.array(allowed, bool).reshape(-1, len(kept)), early=False)

    def _curves(self, trajectory: xr.DataTree, true: xr.DataArray) -> dict[tuple[int, ...], Any]:
        """(steps, values) of every (signal, replica, layer, head); the loss is the same for all heads."""
        entropy = group(trajectory, "attention")["entropy"].load()
        mean = mean_over_queries(trajectory, entropy).transpose(*HEAD_DIMS)
        loss = group(trajectory, "loss")["loss"].load().transpose("replica", "step")
        steps = {name: array["step"].values.astype(float) for name, array in (("e", mean), ("l", loss))}
        curves: dict[tuple[int, ...], Any] = {}
        for replica, layer, head in np.ndindex(true.shape[:3]):
            curves[0, replica, layer, head] = (steps["e"], mean.values[replica, :, layer, head])
            curves[1, replica, layer, head] = (steps["l"], loss.values[replica])
        return curves

    def draw(self, result: xr.Dataset, trajectory: xr.DataTree, figure: FigureBase) -> None:
        """Events of every replica on both signals, lines at the median boundaries; precision and recall.

        Of several heads the first layer's first one is shown.
        """
        one = result.isel(layer=0, head=0)
        timeline, bars = figure.subplots(1, 2, width_ratios=[2.4, 1])
        style.label_axes(timeline, x="step")
        for number, name in enumerate(one["boundary"].values.tolist()):
            middle = float(band(one["true_step"].sel(boundary=name).values).median)
            if np.isfinite(middle):
                label = name.replace("_", " ").replace("direction ", "token ")
                timeline.axvline(middle, color=style.color(number), linewidth=0.9, label=label)
        _draw_events(timeline, one)
        last = max(float(group(trajectory, name)["step"][-1]) for name in ("attention", "loss"))
        timeline.set_xscale("log")  # events and boundaries are compared by shares of the step
        timeline.set_xlim(min(10.0, max(last, 1) / 10), max(last, 1))
        timeline.xaxis.set_minor_formatter(NullFormatter())
        _draw_scores(bars, one)
        style.legend(figure)


def _last(steps: Array, values: Array) -> float:
    """Last step of a curve that is known."""
    seen, _ = until_divergence(steps, values)
    return float(seen[-1]) if len(seen) else 0.0


def _event_table(events: dict[Any, Announced], true: xr.DataArray, coords: Any) -> dict[str, xr.DataArray]:
    most = max(1, *(len(found.events) for found in events.values()))
    shape = (len(SIGNALS), *true.shape[:3], most)
    steps, kinds = np.full(shape, np.nan), np.full(shape, "", dtype="<U5")
    for place, (found, _) in events.items():
        steps[place][: len(found)] = [event.step for event in found]
        kinds[place][: len(found)] = [event.kind for event in found]
    dims = ("signal", *HEAD, "event")
    coords = {name: value for name, value in coords.items() if name != "boundary"}
    what = {"event_step": (steps, "step at which a change of trend is announced", "step")}
    what["event_kind"] = (kinds, "what the curve begins to do: fall, rise, level", "1")
    return {
        name: describe(xr.DataArray(values, dims=dims, coords=coords), words, units=units)
        for name, (values, words, units) in what.items()
    }


def _score_table(
    scores: dict[Any, Score], true: xr.DataArray, coords: Any, strict: str
) -> dict[str, xr.DataArray]:
    shape = (len(SIGNALS), *true.shape[:3])
    of_head = {name: value for name, value in coords.items() if name != "boundary"}
    table = {}
    for name, words in SCORES.items():
        values = np.array([getattr(scores[place], name) for place in np.ndindex(shape)]).reshape(shape)
        array = xr.DataArray(values, dims=("signal", *HEAD), coords=of_head)
        table[f"{strict}{name}"] = describe(array, words + STRICT[strict])
    delays = np.array([scores[place].delay for place in np.ndindex(shape)]).reshape(*shape, -1)
    delay = xr.DataArray(delays, dims=("signal", *HEAD, "boundary"), coords=coords)
    words = "step of the event minus that of the boundary it meets"
    table[f"{strict}delay"] = describe(delay, words + STRICT[strict], units="step")
    return table


def _bands(result: xr.Dataset, trajectory: xr.DataTree) -> dict[str, xr.DataArray]:
    """Median and 10-90 % range of the scores over the replicas of each setting, and how often each is met."""
    found: dict[str, xr.DataArray] = {}
    groups = settings(trajectory)
    labels = xr.IndexVariable("setting", [setting.label for setting in groups])
    for name in (f"{strict}{name}" for strict in STRICT for name in (*SCORES, "delay")):
        of = [
            result[name].isel(replica=list(setting.replicas)).transpose("replica", ...) for setting in groups
        ]
        for field, words in BANDS.items():
            arrays = [
                part.isel(replica=0, drop=True).copy(data=getattr(band(part.values), field)) for part in of
            ]
            array = xr.concat(arrays, labels).transpose("signal", "setting", ...)
            what = f"{words} over replicas: {result[name].attrs['long_name']}"
            found[f"{name}_{field}"] = describe(array, what, units=result[name].attrs["units"])
    for strict, words in STRICT.items():
        met = result[f"{strict}delay"].notnull().where(result["true_step"].notnull())
        shares = [met.isel(replica=list(setting.replicas)).mean("replica") for setting in groups]
        share = xr.concat(shares, labels).transpose("signal", "setting", ...)
        what = f"share of the setting's replicas with the boundary that meet it{words}"
        found[f"{strict}found_share"] = describe(share, what)
    return found


def _draw_events(ax: Axes, one: xr.Dataset) -> None:
    """A row of markers for each signal and replica."""
    replicas = one.sizes["replica"]
    for row, signal in enumerate(SIGNALS):
        steps = one["event_step"].sel(signal=signal).transpose("replica", "event").values
        kinds = one["event_kind"].sel(signal=signal).transpose("replica", "event").values
        y = row + np.broadcast_to(((np.arange(replicas) + 0.5) / replicas * 0.8)[:, None], steps.shape)
        for kind, marker in MARKERS.items():
            shown = (kinds == kind) & np.isfinite(steps)
            if shown.any():
                look: dict[str, Any] = {"linestyle": "none", "markersize": 3.5, "color": "black"}
                ax.plot(steps[shown], y[shown], marker=marker, label=f"begins to {kind}", **look)
    ax.set_yticks([0.4, 1.4], list(SIGNALS))
    ax.set_ylim(1.9, -0.1)


def _draw_scores(ax: Axes, one: xr.Dataset) -> None:
    """Scores of both signals with every replica as a dot, and ticks at what chance gives."""
    shown = [(strict, name) for strict in STRICT for name in ("precision", "recall")]
    for row, signal in enumerate(SIGNALS):
        for offset, (strict, name) in enumerate(shown):
            values, y = one[f"{strict}{name}"].sel(signal=signal).values, row + 0.1 + 0.2 * offset
            look: dict[str, Any] = {"linestyle": "none", "marker": "o", "markersize": 2.5, "alpha": 0.5}
            label = f"{strict}{name}".replace("_", " ")
            ax.plot(values, np.full(len(values), y), color=style.color(offset), label=label, **look)
            chance = float(band(one[f"{strict}chance_{name}"].sel(signal=signal).values).median)
            ax.plot([chance], [y], marker="|", markersize=9, label="chance", linestyle="none", color="0.4")
    ax.set_xlim(-0.05, 1.05)
    ax.set_yticks([0.4, 1.4], ["", ""])
    ax.set_ylim(1.9, -0.1)
    style.label_axes(ax, x="share")
