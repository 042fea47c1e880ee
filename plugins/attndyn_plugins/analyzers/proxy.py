"""Whether a synthetic sticky chain stands in for a text: how well it fits, and whether stages come alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
import xarray as xr
from matplotlib.figure import FigureBase
from pydantic import Field

from attndyn.analysis.analyzer import Analyzer
from attndyn.analysis.phases import PhaseOptions, find_cycles
from attndyn.analysis.records import describe, group
from attndyn.analysis.series import band
from attndyn.analysis.sticky_fit import StickyFit, fit_sticky, lumped
from attndyn.registry import analyzer
from attndyn.report import style
from attndyn.spec.base import AnalyzerOptions
from attndyn.trajectory import open_trajectory, pairs
from attndyn.trajectory.schema import PAIRS

REST = "<rest>"
STAGES = ("rise_onset", "peak", "fall_onset", "fall_end")
FIT = {
    "lam": ("λ of the sticky chain nearest to the text's", "1"),
    "explained": ("share of the text's distance from independent tokens that this chain has", "1"),
    "information": ("what the last token tells of the next", "nats"),
    "missed": ("what of it the sticky chain does not have", "nats"),
}


@analyzer("proxy")
class Proxy(Analyzer):
    """The sticky chain fitted to a text's most frequent tokens, and stages beside those of a run on it."""

    class Options(AnalyzerOptions):
        """How many tokens the chain has, and the run to compare with."""

        kind: Literal["proxy"] = "proxy"
        tokens: int = Field(
            default=8, ge=1, le=256, description="tokens that the chain keeps, others being one"
        )
        run: str | None = Field(
            default=None,
            min_length=1,
            description="directory of a run on the chain, with the probe token_classes",
        )

    options: Proxy.Options
    requires = ("token_classes",)
    title = "A sticky chain for the text"

    def analyze(self, trajectory: xr.DataTree) -> xr.Dataset:
        """The fit, by replica, and steps of the first cycle of attention by rank of the token.

        `lam`, `explained`, `information`, `missed` `(replica)`; `chain_pi(replica, kept)` is π of the chain,
        `repeats`, `sticky_repeats` `(replica, kept)` how often a token follows itself in the text and in the
        fit. `fits` says whether λ is positive and explains half. `stage_step(replica, rank, stage)` are steps
        of the text's named tokens, `proxy_step(rank, stage)` medians over the replicas of the other run, and
        `ratio` the first over the second; NaN where there is no run, or no stage.

        Raises:
            RunError: the run cannot be read.
        """
        chains = _chains(trajectory, self.options.tokens)
        fits = np.array([fit_sticky(*chain) for chain in chains["values"]])
        assert StickyFit._fields == tuple(FIT)
        replica = {"replica": trajectory.dataset["replica"]}
        found: dict[str, xr.DataArray] = {}
        for number, (name, (what, units)) in enumerate(FIT.items()):
            found[name] = describe(
                xr.DataArray(fits[:, number], dims="replica", coords=replica), what, units=units
            )
        found["fits"] = describe(
            (found["lam"] > 0) & (found["explained"] >= 0.5), "whether the chain is like the text"
        )
        lam = np.clip(fits[:, :1], 0, None)
        pi = np.stack([chain[0] for chain in chains["values"]])
        repeats = np.stack([np.diag(chain[1]) for chain in chains["values"]])
        for name, values, what in (
            ("chain_pi", pi, "frequency of the chain's tokens"),
            ("repeats", repeats, "how often a token follows itself"),
            ("sticky_repeats", lam + (1 - lam) * pi, "how often it does in the sticky chain"),
        ):
            coords = replica | {"kept": chains["labels"]}
            found[name] = describe(xr.DataArray(values, dims=("replica", "kept"), coords=coords), what)
        steps = _stages(trajectory)
        other = np.full(steps.shape[1:], np.nan)
        if self.options.run is not None:
            with open_trajectory(Path(self.options.run) / "trajectory.nc") as tree:
                measured = band(_stages(tree)).median[: len(other)]
            other[: len(measured)] = measured
        places = {"rank": np.arange(len(other)), "stage": list(STAGES)}
        text = xr.DataArray(steps, dims=("replica", "rank", "stage"), coords=replica | places)
        proxy = xr.DataArray(other, dims=("rank", "stage"), coords=places)
        found["stage_step"] = describe(text, "step of a stage of attention in the text", units="step")
        found["proxy_step"] = describe(proxy, "step of the stage in the synthetic run", units="step")
        found["ratio"] = describe(
            text / proxy.where(proxy > 0), "step in the text over step in the synthetic run"
        )
        return xr.Dataset(found)

    def draw(self, result: xr.Dataset, trajectory: xr.DataTree, figure: FigureBase) -> None:
        """How often tokens follow themselves, in the text and the fit; stages of text and synthetic run."""
        repeats, stages = figure.subplots(1, 2)
        x = np.arange(result.sizes["kept"])
        style.line_with_band(
            repeats, x, result["repeats"], style.color(0), "text", linestyle="none", marker="o"
        )
        style.line_with_band(
            repeats, x, result["sticky_repeats"], style.color(1), "sticky chain", linestyle="none", marker="x"
        )
        repeats.set_xticks(x, [style.shorten(t, 6) for t in result["kept"].values.tolist()], rotation=90)
        style.label_axes(repeats, x="token", y="follows itself")
        for number, stage in enumerate(STAGES):
            median = result["stage_step"].sel(stage=stage).median("replica")
            color, name = style.color(number), stage.replace("_", " ")
            stages.plot(result["rank"], median, "o", color=color, label=name, markersize=4)
            stages.plot(result["rank"], result["proxy_step"].sel(stage=stage), "x", color=color)
        style.label_axes(stages, x="rank of the token", y="step of the stage (crosses: synthetic)")
        style.log_y(stages)
        style.legend(figure)


def _chains(trajectory: xr.DataTree, tokens: int) -> dict[str, Any]:
    """π and transition matrix of every replica, of the most frequent tokens, and their labels."""
    root = trajectory.dataset
    pi = root["pi"].transpose("replica", "token").values
    kept = np.argsort(-pi.mean(axis=0), kind="stable")[:tokens]
    labels = [*root["token"].values[kept].tolist(), REST]
    if PAIRS in trajectory.children:
        counted = pairs(trajectory)
        values = [lumped(row, counted, kept) for row in pi]
    else:
        transition = root["transition"].transpose("replica", "token", "next_token").values
        values = [lumped(p, p[:, None] * matrix, kept) for p, matrix in zip(pi, transition, strict=True)]
    if len(kept) == pi.shape[1]:  # nothing is left over
        values = [(p[:-1], matrix[:-1, :-1]) for p, matrix in values]
        labels.pop()
    return {"values": values, "labels": labels}


def _stages(trajectory: xr.DataTree) -> np.ndarray:
    """`STAGES` of the first cycle of attention to the named tokens (replica, rank, stage), heads averaged."""
    classes = group(trajectory, "token_classes")
    uniform = classes["uniform_token"]
    ratio = (classes["attention_token"] / uniform.where(uniform > 0)).mean(["layer", "head"], skipna=False)
    ratio = ratio.transpose("replica", "named", "step")
    options, steps = PhaseOptions(kind="phases", cycles=1), ratio["step"].values.astype(float)
    found = np.full((*ratio.shape[:2], len(STAGES)), np.nan)
    for place in np.ndindex(ratio.shape[:2]):
        for cycle in find_cycles(steps, ratio.values[place], options):
            found[place] = [getattr(cycle, stage) for stage in STAGES]
    return found
