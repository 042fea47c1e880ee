"""Changes of trend in a curve, told while it is recorded, in bounded memory and without looking ahead.

The detector sees one record after the other, keeps a fixed number of means, and says nothing of the past that
it could not have said then. Its scales are shares of the step, as those of the full detector are.
"""

from __future__ import annotations

from collections import deque
from math import isfinite, log1p, sqrt
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from attndyn.spec.base import AnalyzerOptions

Array = NDArray[np.float64]
Kind = Literal["fall", "rise", "level"]


class TrendOptions(AnalyzerOptions):
    """When a curve counts as falling, rising or level; one rule for every curve, in nats."""

    bin_share: float = Field(
        default=0.02, gt=0, lt=1, description="records are averaged over this share of the step"
    )
    window: int = Field(default=8, ge=4, description="how many such means are remembered")
    min_change: float = Field(
        default=0.01, gt=0, description="change over the window that counts as fall or rise, in nats"
    )
    noise_factor: float = Field(
        default=6.0, ge=0, description="that change must also exceed its standard error that many times"
    )
    contrast: float = Field(
        default=3.0, ge=1, description="a trend ends at a slope this many times smaller than its steepest"
    )


class Event(NamedTuple):
    """A change of trend, and the step of the record at which it was announced."""

    step: float
    kind: Kind


class Announced(NamedTuple):
    """The events of a whole curve in order, and the first step at which there could have been one.

    That step is NaN if the curve was too short, or diverged too early, for the window to fill.
    """

    events: list[Event]
    first: float


class TrendDetector:
    """Announces where a curve begins to fall, begins to rise and levels off; give it record after record.

    Records are averaged over bins that are the share `bin_share` of the step wide, of one record where that
    is wider; the last `window` means are all that is remembered. A straight line against log(step) is fitted
    to them. Its change over the window counts if it exceeds `min_change` and `noise_factor` standard errors.
    Of white noise one window in a thousand passes six of them (Student's t with 6 degrees of freedom).
    A fall or rise is over once its slope is `contrast` times smaller than its steepest, or half of what
    counts; the next begins once the slope counts and is `contrast` times that of the calm before.

    Attributes:
        first: step of the record that filled the window; nothing can be announced before. NaN until then.
    """

    def __init__(self, options: TrendOptions):
        self.options = options
        self._means: deque[tuple[float, float]] = deque(maxlen=options.window)  # log(1 + step), value
        self._bin_start = 0.0
        self._bin = (0, 0.0, 0.0)  # number of records, sum of log(1 + step), sum of values
        self._trend = 0  # +1 rising, -1 falling, 0 level
        self._steepest = 0.0  # largest change over the window, in its direction, of this trend
        self._calm = 0.0  # smallest absolute change since the curve was last level
        self._ended = False
        self.first = float("nan")

    def add(self, step: float, value: float) -> Event | None:
        """The event that this record brings, if any; from a value that is not finite on there is none."""
        self._ended = self._ended or not isfinite(value)
        if self._ended:
            return None
        count, logs, values = self._bin
        kind: Kind | None = None
        if count and step >= self._bin_start * (1 + self.options.bin_share):
            self._means.append((logs / count, values / count))
            if len(self._means) == self.options.window:
                self.first = self.first if isfinite(self.first) else step
                kind = self._judge()
            count, logs, values = 0, 0.0, 0.0
        if count == 0:
            self._bin_start = step
        self._bin = (count + 1, logs + log1p(step), values + value)
        return Event(step, kind) if kind else None

    def _judge(self) -> Kind | None:
        """The kind of the trend that begins with the window as it is now, if one does."""
        change, error = _change(np.array(self._means))
        counts = max(self.options.min_change, self.options.noise_factor * error)
        if self._trend == 0:
            self._calm = min(self._calm, abs(change))
            counts = max(counts, self.options.contrast * self._calm)
        if abs(change) > counts and np.sign(change) != self._trend:
            self._trend, self._steepest = int(np.sign(change)), abs(change)
            return "rise" if self._trend > 0 else "fall"
        if self._trend == 0:
            return None
        ahead = change * self._trend
        self._steepest = max(self._steepest, ahead)
        if ahead >= max(self.options.min_change / 2, self._steepest / self.options.contrast):
            return None
        self._trend, self._calm = 0, abs(change)
        return "level"


def detect_trends(steps: Array, values: Array, options: TrendOptions) -> Announced:
    """What a detector announces while a curve (record,) is recorded."""
    detector = TrendDetector(options)
    found = [detector.add(float(step), float(value)) for step, value in zip(steps, values, strict=True)]
    return Announced([event for event in found if event], detector.first)


def _change(means: Array) -> tuple[float, float]:
    """Change over the window of the straight line through `means` (mean, 2), and its standard error."""
    x, y = means.T
    x, y = x - x.mean(), y - y.mean()
    spread = float(x @ x)
    slope = float(x @ y) / spread
    rest = y - slope * x
    span = float(x[-1] - x[0])
    return slope * span, span * sqrt(float(rest @ rest) / (len(x) - 2) / spread)
