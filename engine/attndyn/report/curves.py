"""Panels of curves over training for the overview: median and band over the replicas."""

from __future__ import annotations

from typing import Any

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
    style.token_curves(ax, x, entropy, "query", trajectory, label="_")
    pi = trajectory.dataset["pi"].transpose("replica", "token").values
    ax.axhline(float(entr(pi).sum(axis=1).mean()), label=r"$H(\pi)$", **style.REFERENCE)
    _from_zero(ax)
    heading = ", ".join(filter(None, ("attention entropy of each query", title)))
    style.label_axes(ax, y="entropy", units="nats", title=heading)
    _legend(ax)


def draw_norms(ax: Axes, data: xr.Dataset, trajectory: xr.DataTree) -> None:
    """Norm of every token's embedding."""
    norms = data["embedding_norm"]
    x = style.step_axis(ax, norms)
    style.token_curves(ax, x, norms, "token", trajectory, label="_")
    _from_zero(ax)
    style.label_axes(ax, y=r"$|W_0[i,:]|$", title="embedding norm of each token")


def draw_projection(ax: Axes, data: xr.Dataset, trajectory: xr.DataTree) -> None:
    """Norm of the part of every weight outside its direction at condensation."""
    prefix = "orthogonal_"
    names = [str(name).removeprefix(prefix) for name in data if str(name).startswith(prefix)]
    for name in [name for name in names if not name.startswith("relative_")]:
        _, curve = style.layer_heads(data[f"{prefix}{name}"], limit=1)[0]
        x = style.step_axis(ax, curve)
        line = style.weight_line(name)
        style.line_with_band(ax, x, curve, label=style.math_label(name), **line)
    style.log_y(ax)
    style.label_axes(ax, y=r"$\|W - W\hat{w}\hat{w}^T\|$", title="orthogonal projection norm of each weight")
    _legend(ax)


def draw_loss(ax: Axes, data: xr.Dataset, trajectory: xr.DataTree) -> None:
    """The loss against that of predicting π and that of predicting the chain."""
    loss = data["loss"].where(np.isfinite(data["loss"]))
    style.line_with_band(ax, style.step_axis(ax, loss), loss, "black", "_", linewidth=0.9)
    for number, (label, level) in enumerate(_levels(trajectory.dataset).items()):
        ax.axhline(level, label=label, **(style.REFERENCE | {"linestyle": style.DASHES[number + 1]}))
    if float(loss.max()) > LOG_FROM * float(loss.min()) > 0:
        style.log_y(ax)
    style.label_axes(ax, y="cross-entropy", units="nats", title="loss")
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
    box: dict[str, Any] = {"frameon": True, "edgecolor": "none", "framealpha": 0.6, "borderaxespad": 0.3}
    ax.legend(fontsize=6, handlelength=1.6, labelspacing=0.2, ncols=2, columnspacing=1, **box)


def _from_zero(ax: Axes) -> None:
    ax.set_ylim(0, 1.05 * max(ax.get_ylim()[1], 1e-9))
