"""From what each replica shows to a verdict on the claim, with its figure, band and intervals."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from attndyn.conformance.expectation import Judgement
from attndyn.spec.base import ExpectationOptions, Verdict
from attndyn.spec.words import printable

CONFIDENCE = 0.95
#: resamples of the bootstrap; the generator is seeded, so that a ledger is the same whenever it is made
RESAMPLES = 9999


@dataclass(frozen=True)
class Finding:
    """The verdict on one expectation, and what it rests on.

    Attributes:
        id: of the expectation.
        kind: of the expectation.
        claim: in words.
        source: who says so.
        recorded: the verdict that the spec has on record.
        verdict: the verdict; None if the check could not be made, `problem` says why.
        criterion: what decides.
        units: of the figures.
        figure: median of the figures over the trials that have one; None if there is no trial,
            NaN if all diverged.
        band: their 10th and 90th percentile.
        interval: 95 % bootstrap interval of the median; None of fewer than two different figures.
        k: trials in which it is as claimed.
        n: trials of which the claim says something, and those that diverged.
        trials: all trials.
        settings: how many different settings the n trials have.
        share_interval: 95 % binomial (Clopper-Pearson) interval of the share k/n; None of several settings,
            whose trials are not drawn alike.
        detail: what else was seen.
        note: what was tried, from the spec.
        problem: why there is no verdict.
    """

    id: str
    kind: str
    claim: str
    source: str
    recorded: Verdict
    verdict: Verdict | None
    criterion: str = ""
    units: str = "1"
    figure: float | None = None
    band: tuple[float, float] | None = None
    interval: tuple[float, float] | None = None
    k: int = 0
    n: int = 0
    trials: int = 0
    settings: int = 1
    share_interval: tuple[float, float] | None = None
    detail: str = ""
    note: str = ""
    problem: str = ""

    @property
    def as_recorded(self) -> bool:
        """Whether the verdict is the one on record."""
        return self.verdict == self.recorded


def finding(options: ExpectationOptions, judgement: Judgement) -> Finding:
    """The verdict that a judgement amounts to: it holds if it does so in every trial it speaks of.

    These must be half of all trials at least: of too few it holds in part.
    """
    applies, lost = judgement.applies, judgement.diverged
    holds = np.where(lost, False, judgement.holds)[applies]
    n, k = len(holds), int(holds.sum())
    nearly = judgement.nearly is not None and bool(
        (holds | np.where(lost, False, judgement.nearly)[applies]).all()
    )
    verdict: Verdict = "does not hold"
    if n == 0:
        verdict = "not applicable"
    elif k == n and 2 * n >= len(applies):
        verdict = "holds"
    elif k or nearly:
        verdict = "in part"
    figures = judgement.figures[~np.isnan(judgement.figures)]
    seen = len(figures) > 0
    low, median, high = (float(v) for v in np.percentile(figures, [10, 50, 90])) if seen else (np.nan,) * 3
    counts = _by_setting(judgement, holds)
    detail = [judgement.detail, *counts, f"{lost.sum()} diverged" * bool(lost.any())]
    return Finding(
        **_of(options),
        verdict=verdict,
        criterion=_line(judgement.criterion),
        units=judgement.units,
        figure=median if seen else None,
        band=(low, high) if seen else None,
        interval=_bootstrap(figures),
        k=k,
        n=n,
        trials=len(applies),
        settings=max(1, len(counts)),
        # settings are no sample of anything, and their replicas share seeds
        share_interval=_binomial(k, n) if len(counts) < 2 else None,
        detail=_line("; ".join(part for part in detail if part)),
    )


def no_verdict(options: ExpectationOptions, problem: str) -> Finding:
    """An expectation that could not be judged, and why."""
    return Finding(**_of(options), verdict=None, problem=_line(problem))


def _by_setting(judgement: Judgement, holds: NDArray[np.bool_]) -> list[str]:
    """In how many trials of each setting it holds; nothing if there is but one."""
    if judgement.settings is None:
        return []
    labels = judgement.settings[judgement.applies]
    different = list(dict.fromkeys(labels.tolist()))
    counts = [f"{label}: {holds[labels == label].sum()} of {(labels == label).sum()}" for label in different]
    return counts if len(counts) > 1 else []


def _of(options: ExpectationOptions) -> dict[str, Any]:
    names = ("id", "kind", "claim", "source", "note")
    return {name: _line(getattr(options, name)) for name in names} | {"recorded": options.verdict}


def _line(text: str) -> str:
    """The text on one line, without characters that a terminal would obey or XML cannot hold."""
    return printable(" ".join(text.split()))


def _binomial(k: int, n: int) -> tuple[float, float] | None:
    if n == 0:
        return None
    found = stats.binomtest(k, n).proportion_ci(CONFIDENCE, method="exact")
    return float(found.low), float(found.high)


def _bootstrap(figures: NDArray[np.float64]) -> tuple[float, float] | None:
    if len(figures) < 2 or np.ptp(figures) == 0 or not np.isfinite(figures).all():
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a degenerate resample is no news
        found = stats.bootstrap(
            (figures,),
            np.median,
            confidence_level=CONFIDENCE,
            n_resamples=RESAMPLES,
            method="percentile",
            rng=np.random.default_rng(0),
            vectorized=True,
            batch=999,
        ).confidence_interval
    return float(found.low), float(found.high)
