"""Ticks of logarithmic axes: plain numbers, and some of them on a short axis too."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axis import Axis
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter


def plain(axis: Axis) -> None:
    """Plain numbers along a logarithmic axis, and some of them however short it is."""
    axis.set_major_locator(ShortLogLocator())
    axis.set_major_formatter(FuncFormatter(_number))
    axis.set_minor_formatter(NullFormatter())


def _number(value: float, _: Any) -> str:
    if value and not 1e-4 <= abs(value) < 1e6:
        return f"$10^{{{np.log10(value):.0f}}}$" if np.log10(value).is_integer() else f"{value:.1e}"
    return f"{value:g}"


class ShortLogLocator(LogLocator):
    """Powers of ten; on a short axis 1, 2 and 5 times these; on one of less than 8 times round numbers."""

    def tick_values(self, vmin: float, vmax: float) -> Any:
        """Where ticks are, between two ends."""
        low, high = sorted((vmin, vmax))
        if low <= 0 or high >= 100 * low:
            self.set_params(subs=(1.0,))
            return super().tick_values(vmin, vmax)
        if high >= 8 * low:
            self.set_params(subs=(1.0, 2.0, 5.0))
            return super().tick_values(vmin, vmax)
        return MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
