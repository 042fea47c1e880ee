"""`trend`: how a number of the run goes with a value that varies, over replicas or over runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy import stats

from attndyn import registry
from attndyn.conformance.comparison import Array, ComparisonOptions
from attndyn.conformance.expectation import Evidence, Example, Expectation, Judgement, VacuousError
from attndyn.conformance.fits import Fit, straight_line
from attndyn.conformance.measured import Measured, Picked, SelectionError
from attndyn.spec.base import Flaw
from attndyn.spec.selection import Reference, Selection

#: different values of what varies that are needed: a line goes through any two points
NEEDED = {"direction": 2, "slope": 3, "exponent": 3}


#: of one seed, in the order of x; None where it has too few
Points = tuple[Array, Array] | None


LOSS = {"probe": "loss", "variable": "loss", "at": "last"}


class Variant(Reference):
    """Another run, and the value that stands for it."""

    at: float = Field(description="its value of what varies")


class TrendOptions(ComparisonOptions):
    """What number, what it goes with, and how: one of `direction`, `slope`, `exponent`."""

    kind: Literal["trend"] = "trend"
    of: Selection = Field(description="the number looked at")
    against: str | None = Field(
        default=None, min_length=1, description="name of what varies over the replicas, such as lr"
    )
    runs: list[Variant] = Field(
        default=[], max_length=100, description="or other runs, each with its value of what varies"
    )
    at: float | None = Field(
        default=None, description="with runs: this run's own value; default: it is not one of them"
    )
    direction: Literal["rising", "falling", "flat"] | None = Field(
        default=None, description="by rank; flat: the range is within the tolerance"
    )
    least: float = Field(
        default=0.5, gt=0, le=1, description="rank correlation from which on it rises or falls"
    )
    monotone: bool = Field(default=False, description="rising or falling at every single value")
    slope: float | None = Field(default=None, description="slope of a straight line")
    exponent: float | None = Field(default=None, description="slope in a double logarithmic plot")
    relation: Literal["at_least", "at_most", "equal"] = Field(
        default="equal", description="how slope or exponent must compare"
    )

    def flaws(self) -> Iterator[Flaw]:
        """One thing that varies, one thing said of it, and no option without effect."""
        for flaw in super().flaws():
            if self.direction is None or flaw.path != ("relation",):
                yield flaw
        if (self.against is None) == (not self.runs):
            yield Flaw((), "give exactly one of against, runs")
        if self.at is not None and not self.runs:
            yield Flaw(("at",), "has no effect without runs", at_key=True)
        given = [name for name in NEEDED if getattr(self, name) is not None]
        if len(given) != 1:
            yield Flaw((), f"give exactly one of {', '.join(NEEDED)}; found {', '.join(given) or 'none'}")
            return
        values = {variant.at for variant in self.runs} | ({self.at} if self.at is not None else set())
        if self.runs and len(values) < NEEDED[given[0]]:
            yield Flaw(("runs",), _too_few(len(values), given[0]))
        moves = self.direction in ("rising", "falling")
        tolerant = bool(self.atol or self.rtol)
        if self.direction == "flat" and not tolerant:
            yield Flaw(("direction",), "flat needs a tolerance, atol or rtol")
        if moves and (tolerant or self.wider_atol is not None or self.wider_rtol is not None):
            yield Flaw(("direction",), "a tolerance has no meaning for it; see least")
        if not moves and self.monotone:
            yield Flaw(("monotone",), "has no meaning but for rising and falling", at_key=True)
        target = self.slope if self.exponent is None else self.exponent
        if target == 0 and self.rtol:
            yield Flaw(("rtol",), "is relative to 0, and so none; give atol", at_key=True)

    @property
    def said(self) -> str:
        """What is said of it: direction, slope or exponent."""
        return next(name for name in NEEDED if getattr(self, name) is not None)


@dataclass(frozen=True)
class Series:
    """All points, shape (point,): the value of what varies, the number, and the seed that it belongs to."""

    x: Array
    y: Array
    seeds: np.ndarray[Any, np.dtype[np.int64]]
    picked: tuple[Picked, ...]

    @property
    def lost(self) -> NDArray[np.bool_]:
        """Which seeds lack a point because it diverged, shape (seed,)."""
        gone = np.concatenate([picked.lost for picked in self.picked])
        return np.isin(np.unique(self.seeds), self.seeds[gone])

    @property
    def whole(self) -> NDArray[np.bool_]:
        """Which seeds have all their points, shape (seed,)."""
        return ~np.isin(np.unique(self.seeds), self.seeds[np.isnan(self.y)])

    def split(self) -> list[tuple[Array, Array]]:
        """One series a seed, in the order of x, without the points that are NaN."""
        found = []
        for seed in np.unique(self.seeds):
            mine = (self.seeds == seed) & ~np.isnan(self.y)
            order = np.argsort(self.x[mine])
            found.append((self.x[mine][order], self.y[mine][order]))
        return found


@registry.expectation("trend")
class Trend(Expectation):
    """A trial is a seed, which has one point for each value of what varies.

    The figure is the fitted slope or exponent, the rank correlation, or, of what is flat, the range.
    """

    Options = TrendOptions
    options: TrendOptions
    read_elsewhere = ("of",)
    examples = (
        Example("holds", {"of": LOSS, "against": "lr", "direction": "falling"}),
        Example("does not hold", {"of": LOSS, "against": "lr", "exponent": 2.0, "atol": 0.5}),
        Example("refused", {"of": LOSS, "against": "lr", "direction": "flat", "atol": 9.0}),
    )

    def references(self) -> Sequence[Reference]:
        """See `Expectation.references`."""
        return self.options.runs

    def flaws(self, measured: Measured) -> Iterator[Flaw]:
        """What it goes with must vary, and take enough values."""
        if self.options.against is None:
            return
        try:
            values = measured.coordinate(self.options.against)
            places = measured.curves(self.options.of)["_place"].values
        except SelectionError as error:
            if not error.path:  # others are reported with the selection
                yield Flaw(("against",), str(error))
            return
        count = len(np.unique(values[places]))
        if count < NEEDED[self.options.said]:
            yield Flaw(("against",), _too_few(count, self.options.said))

    def judge(self, evidence: Evidence) -> Judgement:
        """See `Expectation.judge`."""
        options, series = self.options, self._series(evidence)
        count = len(np.unique(series.x))
        if count < NEEDED[options.said]:
            raise VacuousError(_too_few(count, options.said))
        if options.said == "exponent":
            series = _logarithms(series)
        if np.isnan([picked.lowest for picked in series.picked]).all():
            raise VacuousError("cannot fail: the selection holds nothing but NaN")
        points = [pair if len(pair[0]) >= NEEDED[options.said] else None for pair in series.split()]
        detail = self._detail(series, straight_line([pair for pair in points if pair is not None]))
        if options.direction == "flat":
            return self._flat(series, points, detail)
        if options.direction is not None:
            return self._ranked(series, points, detail)
        return self._fitted(series, points, detail)

    def _fitted(self, series: Series, points: list[Points], detail: str) -> Judgement:
        options = self.options
        figures = np.array([np.nan if p is None else stats.linregress(*p).slope for p in points])
        target = np.full(len(figures), options.slope if options.exponent is None else options.exponent)
        if all(picked.moves for picked in series.picked):
            steepest = self._steepest(series)
            options.refuse_vacuous(target, -steepest, steepest, (-steepest, steepest))
        holds, nearly = options.compared(figures, target)
        return Judgement(
            figures,
            holds,
            f"{options.said} {options.spell(target)}",
            "1" if options.said == "exponent" else series.picked[0].units,
            nearly,
            detail,
            series.lost,
        )

    def _flat(self, series: Series, points: list[Points], detail: str) -> Judgement:
        options = self.options
        figures = np.array([np.nan if p is None else np.ptp(p[1]) for p in points])
        level = np.array([np.nan if p is None else np.median(p[1]) for p in points])
        wider, widest = options.wider_tolerance(level), options.tolerance(level)
        low, high = _span(series)
        moves = all(picked.moves for picked in series.picked)
        # with its level among them one that never moves much can well be flat
        room = np.fmax(np.abs(level), high - low if moves else max(abs(low), abs(high)))
        if (np.fmax(widest, 0.0 if wider is None else wider) >= room).any():
            message = f"the tolerance {np.nanmax(widest):.3g} is as wide as the range of the quantity"
            raise VacuousError(f"cannot fail: {message}, {low:.6g} to {high:.6g}")
        parts = [f"{options.atol:g}"] * bool(options.atol)
        parts += [f"{100 * options.rtol:g} % of the median"] * bool(options.rtol)
        return Judgement(
            figures,
            figures <= widest,
            f"range ≤ {' + '.join(parts)}",
            series.picked[0].units,
            None if wider is None else figures <= wider,
            detail,
            series.lost,
        )

    def _ranked(self, series: Series, points: list[Points], detail: str) -> Judgement:
        options, sign = self.options, 1 if self.options.direction == "rising" else -1
        figures = np.array([np.nan if p is None else _rank_correlation(*p) for p in points])
        criterion = f"rank correlation {'≥ ' if sign == 1 else '≤ −'}{options.least:g}"
        holds = sign * figures >= options.least
        if options.monotone:
            holds = np.array([p is not None and bool((sign * np.diff(p[1]) > 0).all()) for p in points])
            figures = np.where(series.whole, figures, np.nan)  # of a gap nothing is known
            criterion = f"{options.direction} from each value to the next"
        return Judgement(figures, holds, criterion, "1", None, detail, series.lost)

    def _steepest(self, series: Series) -> float:
        """The steepest slope that the quantity could have shown.

        It may go as far as it does in the runs, or by its own size, by a factor e, where it moves less.
        """
        low, high = _span(series)
        room = max(high - low, abs(low), abs(high))
        if self.options.said == "exponent":
            room = max(np.log(high / low), 1.0) if low > 0 else np.inf
        from_mean = [np.abs(x - x.mean()) for x, _ in series.split() if len(x) > 1]
        return max((0.5 * c.sum() / (c @ c) * room for c in from_mean), default=np.inf)

    def _series(self, evidence: Evidence) -> Series:
        options = self.options
        if options.against is not None:
            picked = evidence.own.pick(options.of)
            x = evidence.own.coordinate(options.against)[picked.replicas]
            parts = [(x, picked, evidence.own.seeds[picked.replicas])]
        else:
            runs = [(variant.at, evidence.others(variant)) for variant in options.runs]
            runs += [(options.at, evidence.own)] if options.at is not None else []
            picks = [(at, run, run.pick(options.of)) for at, run in runs]
            parts = [(np.full(len(p.values), at), p, run.seeds[p.replicas]) for at, run, p in picks]
        x, y, seeds = (
            np.concatenate(each)
            for each in zip(*((x, picked.values, seeds) for x, picked, seeds in parts), strict=True)
        )
        _refuse_doubles(x, seeds)
        return Series(x, y, seeds, tuple(picked for _, picked, _ in parts))

    def _detail(self, series: Series, fit: Fit | None) -> str:
        missing = int(np.isnan(series.y).sum())
        parts = [f"{len(np.unique(series.x))} values in {len(np.unique(series.seeds))} seeds"]
        parts += [f"{missing} of {len(series.y)} points are not there"] * bool(missing)
        if fit is not None:
            name = "exponent" if self.options.said == "exponent" else "slope"
            interval = f"95 % interval {fit.low:.4g} to {fit.high:.4g}"
            interval = "no interval from so few points" if np.isnan(fit.low) else interval
            parts.append(f"common {name} {fit.slope:.4g}, {interval}")
        return "; ".join(parts)


def _too_few(count: int, said: str) -> str:
    return f"cannot fail: {count} different value{'s' * (count != 1)}; {said} needs {NEEDED[said]}"


def _refuse_doubles(x: Array, seeds: np.ndarray[Any, Any]) -> None:
    pairs = list(zip(x.tolist(), seeds.tolist(), strict=True))
    double = next((pair for i, pair in enumerate(pairs) if pair in pairs[:i]), None)
    if double is not None:
        message = f"several replicas of seed {double[1]} have the value {double[0]:g}; choose by label"
        raise SelectionError(("of", "labels"), message)


def _logarithms(series: Series) -> Series:
    for name, values in (("what varies", series.x), ("the number", series.y)):
        if (values <= 0).any():
            raise VacuousError(f"no exponent: {name} is {values[values <= 0][0]:.6g}, which has no logarithm")
    return replace(series, x=np.log(series.x), y=np.log(series.y))


def _span(series: Series) -> tuple[float, float]:
    """The least and the most that the quantity is in all the runs."""
    lowest, highest = ([getattr(p, name) for p in series.picked] for name in ("lowest", "highest"))
    return float(np.nanmin(lowest)), float(np.nanmax(highest))


def _rank_correlation(x: Array, y: Array) -> float:
    """Spearman's; 0 where nothing changes."""
    if np.ptp(y) == 0:
        return 0.0
    return float(np.corrcoef(stats.rankdata(x), stats.rankdata(y))[0, 1])
