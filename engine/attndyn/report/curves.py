"""Panels of curves over training for the overview: median and band over the replicas."""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from scipy.special import entr

from attndyn.report import style

LOG_FROM = 20.0


def draw_entropy(ax: Axes, data: xr.Dataset, trajectory: xr.DataTree) -> None:
    """Entropy of attention per query, of the first layer and head, against the entropy of π."""
    title, entropy = style.layer_heads(data["entropy"], limit=1)[0]
    x = style.step_axis(ax, entropy)
    for query, color in style.token_colors(trajectory, entropy["query"].values.tolist()).items():
        style.line_with_band(ax, x, entropy.sel(query=query), color, "_")
    pi = trajectory.dataset["pi"].transpose("replica", "token").values
    ax.axhline(float(entr(pi).sum(axis=1).mean()), label=r"$H(\pi)$", **style.REFERENCE)
    ax.set_ylim(bottom=0)
    style.label_axes(ax, y="attention entropy", units="nats", title=title)
    _legend(ax)


def draw_norms(ax: Axes, data: xr.Dataset, trajectory: xr.DataTree) -> None:
    """Norm of every token's embedding."""
    norms = data["embedding_norm"]
    x = style.step_axis(ax, norms)
    for token, color in style.token_colors(trajectory, norms["token"].values.tolist()).items():
        style.line_with_band(ax, x, norms.sel(token=token), color, "_")
    ax.set_ylim(bottom=0)
    style.label_axes(ax, y=r"embedding norm $|W_0[i,:]|$")


def draw_projection(ax: Axes, data: xr.Dataset, trajectory: xr.DataTree) -> None:
    """Norm of the part of every weight outside its direction at condensation."""
    prefix = "orthogonal_"
    names = [str(name).removeprefix(prefix) for name in data if str(name).startswith(prefix)]
    for name in [name for name in names if not name.startswith("relative_")]:
        _, curve = style.layer_heads(data[f"{prefix}{name}"], limit=1)[0]
        x = style.step_axis(ax, curve)
        line = style.weight_line(name)
        style.line_with_band(ax, x, curve, label=style.math_label(name), **line)
    ax.set_yscale("log")
    style.label_axes(ax, y="orthogonal projection norm")
    _legend(ax)


def draw_loss(ax: Axes, data: xr.Dataset, trajectory: xr.DataTree) -> None:
    """The loss against that of predicting π and that of predicting the chain."""
    loss = data["loss"].where(np.isfinite(data["loss"]))
    style.line_with_band(ax, style.step_axis(ax, loss), loss, "black", "_")
    for number, (label, level) in enumerate(_levels(trajectory.dataset).items()):
        ax.axhline(level, label=label, **(style.REFERENCE | {"linestyle": style.DASHES[number + 1]}))
    if float(loss.max()) > LOG_FROM * float(loss.min()) > 0:
        ax.set_yscale("log")
    style.label_axes(ax, y="loss", units="nats")
    _legend(ax)


def _levels(root: xr.Dataset) -> dict[str, float]:
    """Entropy of π and entropy rate of the chain, means over the replicas, in nats."""
    pi = root["pi"].transpose("replica", "token").values
    levels = {r"$H(\pi)$": float(entr(pi).sum(axis=1).mean())}
    if "transition" in root:
        transition = root["transition"].transpose("replica", "token", "next_token").values
        levels["entropy rate"] = float((pi * entr(transition).sum(axis=2)).sum(axis=1).mean())
    return levels


def _legend(ax: Axes) -> None:
    ax.legend(fontsize=6, handlelength=1.6, labelspacing=0.2, borderaxespad=0.2, ncols=2, columnspacing=1)
