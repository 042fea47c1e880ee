"""Whether a synthetic chain stands in for a text: how a sticky one fits, and whether stages come alike."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Annotated, Any, Literal

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.ticker import LogLocator, NullFormatter
from pydantic import Field

from attndyn.analysis.analyzer import Analyzer
from attndyn.analysis.phases import PhaseOptions, find_phases
from attndyn.analysis.records import describe, group
from attndyn.analysis.same_tokens import same_tokens
from attndyn.analysis.series import band
from attndyn.analysis.sticky_fit import StickyFit, fit_sticky, lumped
from attndyn.data.labels import OTHERS
from attndyn.errors import AttndynError, RunError
from attndyn.registry import analyzer
from attndyn.report import style
from attndyn.runs import Run
from attndyn.spec.base import NAME, AnalyzerOptions, Flaw, LocalFile
from attndyn.trajectory import pairs
from attndyn.trajectory.schema import PAIRS

PROBE = "token_classes"
STAGES = ("rise_onset", "peak", "fall_onset", "fall_end")
FIT = {
    "lam": ("λ of the sticky chain nearest to the text's", "1"),
    "explained": ("share of the text's distance from independent tokens that this chain has", "1"),
    "information": ("what the last token tells of the next", "nats"),
    "missed": ("what of it the sticky chain does not have", "nats"),
}
#: what the run that is compared is called in figures
TEXT = "text"
MARKERS = ("o", "x", "^", "s", "v")
MAX_ROWS = 24
FAINT = "0.75"


@analyzer("proxy")
class Proxy(Analyzer):
    """The sticky chain fitted to a text's most frequent tokens, and stages beside those of runs on chains."""

    class Options(AnalyzerOptions):
        """How many tokens the chain has, and the runs to compare with."""

        kind: Literal["proxy"] = "proxy"
        tokens: int = Field(
            default=8, ge=1, le=256, description="tokens that the chain keeps, others being one"
        )
        run: LocalFile | None = Field(
            default=None,
            description="directory of a run on a chain, with the probe token_classes; relative to the spec's "
            "file",
        )
        runs: dict[Annotated[str, Field(pattern=NAME, max_length=32)], LocalFile] = Field(
            default={}, max_length=len(MARKERS) - 1, description="several such directories, by name"
        )

        def flaws(self) -> Iterator[Flaw]:
            """Refuse two ways to say it, and a run that is called what the text is."""
            if self.run is not None and self.runs:
                yield Flaw(("run",), "give run or runs, not both")
            if TEXT in self.runs:
                yield Flaw(("runs", TEXT), "the run on the text itself is called so; give another name")

        def places(self) -> dict[str, tuple[str, tuple[str, ...]]]:
            """Directory and place in the options of every run, by name."""
            if self.run is not None:
                return {"synthetic": (self.run, ("run",))}
            return {name: (directory, ("runs", name)) for name, directory in self.runs.items()}

    options: Proxy.Options
    requires = (PROBE,)
    title = "A synthetic chain for the text"
    numbers = ("fits", "lam", "explained", "information", "missed")

    def check(self) -> Iterator[Flaw]:
        """See `Analyzer.check`: the runs to compare with must be there."""
        for directory, place in self.options.places().values():
            try:
                _opened(directory).close()
            except AttndynError as error:
                yield Flaw(place, " ".join(str(error).split()))

    def analyze(self, trajectory: xr.DataTree) -> xr.Dataset:
        """The chain of the most frequent tokens, its sticky fit, and steps of the first cycle of attention.

        `chain_pi(replica, kept)` and `chain_transition(replica, kept, next_kept)` are the chain. `lam`,
        `explained`, `information`, `missed` `(replica)` are the fit; `fits` says whether it explains half.
        `repeats`, `sticky_repeats` `(replica, kept)` are how often a token follows itself in both.
        `stage_step(replica, named, stage)` are steps of the text's named tokens. With runs to compare with,
        `proxy_step(proxy, named, stage)` are the medians over the replicas of each that have the stage,
        `proxy_share(proxy, named, stage)` the share of them, NaN where the token is not named there, and
        `ratio(replica, proxy, named, stage)` is the step in the text over that.

        Raises:
            RunError: a run cannot be read, or has no token in common.
        """
        found = _fit(trajectory, self.options.tokens)
        steps = _stages(trajectory)
        what = "step of a stage of attention in the text"
        found["stage_step"] = describe(steps, what, units="step")
        if places := self.options.places():
            kept = found["chain_pi"]["kept"].values.tolist()
            others = {name: _beside(trajectory, directory, kept) for name, (directory, _) in places.items()}
            both = xr.concat(list(others.values()), "proxy").assign_coords(proxy=list(others))
            what = "step of the stage in the run on a chain, median of the replicas that have it"
            found["proxy_step"] = describe(both["step"], what, units="step")
            found["proxy_share"] = describe(both["share"], "share of the replicas that have it", valid=(0, 1))
            ratio = (steps / both["step"].where(both["step"] > 0)).transpose("replica", "proxy", ...)
            found["ratio"] = describe(ratio, "step in the text over step in the run on a chain")
        return xr.Dataset(found)

    def draw(self, result: xr.Dataset, trajectory: xr.DataTree, figure: FigureBase) -> None:
        """How often tokens follow themselves; steps of the first rise and fall of attention to them.
        Medians over the replicas that have a stage; those of the text with a line over all of them. A pale
        mark at the edge stands for a run without a rise; a token that a run does not name has no mark.
        """
        repeats, stages = figure.subplots(1, 2)
        rows = _rows(repeats, result["kept"].values.tolist())
        for name, label, place in (("repeats", TEXT, 0), ("sticky_repeats", "sticky chain", 1)):
            x = result[name].median("replica")
            repeats.plot(x, rows, MARKERS[place], color=style.color(place), label=label, markersize=4)
        style.label_axes(repeats, x="how often it follows itself", y="token")
        style.panel_legend(repeats)
        _draw_stages(stages, result)


def _fit(trajectory: xr.DataTree, tokens: int) -> dict[str, xr.DataArray]:
    """The chain of the most frequent tokens, and the sticky one nearest to it."""
    labels, values = _chains(trajectory, tokens)
    fits = np.array([fit_sticky(*chain) for chain in values])
    assert StickyFit._fields == tuple(FIT)
    coords = {"replica": trajectory.dataset["replica"], "kept": labels, "next_kept": labels}

    def made(array: np.ndarray, what: str, units: str = "1") -> xr.DataArray:
        dims = ("replica", "kept", "next_kept")[: array.ndim]
        return describe(
            xr.DataArray(array, dims=dims, coords={d: coords[d] for d in dims}), what, units=units
        )

    found = {name: made(fits[:, i], *FIT[name]) for i, name in enumerate(FIT)}
    found["fits"] = describe(found["explained"] >= 0.5, "whether the chain is like the text")
    lam = np.clip(fits[:, :1], 0, None)
    pi, transition = (np.stack(part) for part in zip(*values, strict=True))
    found["chain_pi"] = made(pi, "frequency of the chain's tokens")
    found["chain_transition"] = made(transition, "probability of the chain's next token after a token")
    found["repeats"] = made(np.einsum("rkk->rk", transition), "how often a token follows itself")
    found["sticky_repeats"] = made(lam + (1 - lam) * pi, "how often it does in the sticky chain")
    return found


def _chains(trajectory: xr.DataTree, tokens: int) -> tuple[list[str], list[Any]]:
    """Labels of the most frequent tokens and the others; of every replica their π and transition matrix."""
    root = trajectory.dataset
    pi = root["pi"].transpose("replica", "token").values
    kept = np.argsort(-pi.mean(axis=0), kind="stable")[:tokens]
    labels = [*root["token"].values[kept].tolist(), OTHERS]
    if PAIRS in trajectory.children:
        counted = pairs(trajectory)
        values = [lumped(row, counted, kept) for row in pi]
    else:
        transition = root["transition"].transpose("replica", "token", "next_token").values
        values = [lumped(p, p[:, None] * matrix, kept) for p, matrix in zip(pi, transition, strict=True)]
    if len(kept) == pi.shape[1]:  # nothing is left over
        values = [(p[:-1], matrix[:-1, :-1]) for p, matrix in values]
        labels.pop()
    return labels, values


def _opened(directory: str) -> Run:
    """The run in a directory, with a record of attention by class of token.

    Raises:
        RunError: it is none, or has no such record.
    """
    run = Run(directory)
    if PROBE not in run.trajectory.children or not run.trajectory[PROBE].sizes.get("step"):
        run.close()
        raise RunError(f"{directory}: the run has no record of the probe {PROBE}")
    return run


def _beside(text: xr.DataTree, directory: str, kept: list[str]) -> xr.Dataset:
    """`step` and `share` (named, stage) of the stages in another run, by the text's names of its tokens."""
    with closing(_opened(directory)) as run:
        try:
            same = same_tokens(text, run.trajectory, kept)
        except RunError as error:
            raise RunError(f"{directory}: {error}") from None
        steps = _stages(run.trajectory)
    names = group(text, PROBE)["named"].values.tolist()
    number = {label: i for i, label in enumerate(steps["named"].values.tolist())}
    at = [number.get(same.get(name), -1) for name in names]
    if max(at) < 0:
        raise RunError(f"{directory}: its probe {PROBE} names none of the tokens {', '.join(names)}")
    measured = band(steps.values)
    here = xr.DataArray(np.array(at) >= 0, dims="named", coords={"named": names})
    dims, coords = ("named", "stage"), {"named": names, "stage": list(STAGES)}
    both = {"step": measured.median[at], "share": measured.share[at]}
    return xr.Dataset({name: xr.DataArray(v, dims=dims, coords=coords) for name, v in both.items()}).where(
        here
    )


def _stages(trajectory: xr.DataTree) -> xr.DataArray:
    """Steps of the first cycle of attention to the named tokens (replica, named, stage), heads averaged."""
    classes = group(trajectory, PROBE)
    uniform = classes["uniform_token"]
    ratio = (classes["attention_token"] / uniform.where(uniform > 0)).mean(["layer", "head"], skipna=False)
    ratio = ratio.transpose("replica", "named", "step")
    options, steps = PhaseOptions(kind="phases"), ratio["step"].values.astype(float)
    found = np.full((*ratio.shape[:2], len(STAGES)), np.nan)
    for place in np.ndindex(ratio.shape[:2]):
        for cycle in find_phases(steps, ratio.values[place], options).cycles[:1]:
            found[place] = [getattr(cycle, stage) for stage in STAGES]
    coords = {"replica": trajectory.dataset["replica"], "named": ratio["named"], "stage": list(STAGES)}
    return xr.DataArray(found, dims=("replica", "named", "stage"), coords=coords)


def _rows(ax: Axes, labels: list[str]) -> np.ndarray:
    """A row a token, the first on top; named, or every second one, or third, where there are many."""
    rows, every = np.arange(len(labels)), 1 + (len(labels) - 1) // MAX_ROWS
    ax.set_yticks(rows[::every], [style.shorten(label, 10) for label in labels[::every]])
    ax.set_ylim(len(labels) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0, labelsize=6)
    return rows


def _draw_stages(ax: Axes, result: xr.Dataset) -> None:
    """A row a token, a mark a run, a colour a stage."""
    steps, rows = result["stage_step"], _rows(ax, result["named"].values.tolist())
    runs = {TEXT: band(steps.values).median}
    share = {TEXT: band(steps.values).share}
    for name in result["proxy"].values.tolist() if "proxy" in result else ():
        runs[name] = result["proxy_step"].sel(proxy=name).values
        share[name] = result["proxy_share"].sel(proxy=name).values
    for number, stage in enumerate(STAGES):
        color = style.color(number)
        ax.plot([], [], "_", color=color, label=stage.replace("_", " "), markeredgewidth=3)
        each = steps.sel(stage=stage)
        ax.hlines(
            rows + _offset(0, len(runs)), each.min("replica"), each.max("replica"), color, linewidth=0.7
        )
        for place, values in enumerate(runs.values()):
            y = rows + _offset(place, len(runs))
            ax.plot(values[:, number], y, MARKERS[place], color=color, markersize=3)
    for place, name in enumerate(runs if len(runs) > 1 else ()):
        ax.plot([], [], MARKERS[place], color="0.3", label=name, markersize=3)
    flat = [of_run[:, 0] == 0 for of_run in share.values()]
    for place, none in enumerate(flat):  # at the edge, whatever the scale
        edge, y = np.full(int(none.sum()), 0.015), rows[none] + _offset(place, len(runs))
        ax.plot(edge, y, MARKERS[place], color=FAINT, markersize=3, transform=ax.get_yaxis_transform())
    if np.any(flat):
        ax.plot([], [], "o", color=FAINT, label="no rise", markersize=3)
    _log_steps(ax)
    style.label_axes(ax, x="step of the stage")
    style.panel_legend(ax)


def _log_steps(ax: Axes) -> None:
    """A logarithmic axis of steps, a few of them in plain figures; a linear one where there are none."""
    low, high = ax.dataLim.minposx, ax.dataLim.x1
    if not np.isfinite(low) or not low <= high:
        return
    ax.set_xscale("log")
    subs = (1.0, 2.0, 5.0) if high < 10 * low else (1.0, 3.0) if high < 100 * low else (1.0,)
    ax.xaxis.set_major_locator(LogLocator(subs=subs))
    ax.xaxis.set_major_formatter("{x:g}")
    ax.xaxis.set_minor_formatter(NullFormatter())


def _offset(place: int, count: int) -> float:
    """How far below its row a run's marks are."""
    return 0.6 * ((place + 0.5) / count - 0.5)
