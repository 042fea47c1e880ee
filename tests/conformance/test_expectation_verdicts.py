"""From a judgement to a verdict: the four of them, and the figures beside them, by hand."""

import numpy as np
import pytest
from scipy import stats

from attndyn.conformance.expectation import Judgement
from attndyn.conformance.verdicts import finding
from conformance.made_runs import options

NAN = np.nan
VALUE = options(
    "value", of={"probe": "loss", "variable": "loss", "at": "last"}, relation="at_most", number=1.0
)


def found(figures, holds, nearly=None):
    nearly = None if nearly is None else np.array(nearly)
    return finding(VALUE, Judgement(np.array(figures, float), np.array(holds), "≤ 1", nearly=nearly))


@pytest.mark.parametrize(
    ("figures", "holds", "nearly", "verdict", "k", "n"),
    [
        ([1, 2, 3], [True, True, True], None, "holds", 3, 3),
        ([1, 2, 3], [True, False, True], None, "in part", 2, 3),
        ([1, 2, 3], [False, False, False], None, "does not hold", 0, 3),
        ([1, 2, 3], [False, False, False], [True, True, True], "in part", 0, 3),
        ([1, 2, 3], [False, False, False], [True, True, False], "does not hold", 0, 3),
        ([1, NAN, 3], [True, False, True], None, "holds", 2, 2),  # nothing is said of the second
        ([1, NAN, NAN], [True, False, True], None, "in part", 1, 1),  # less than half
        ([1, NAN, 3], [False, True, False], None, "does not hold", 0, 2),
        ([NAN, NAN], [True, True], None, "not applicable", 0, 0),
    ],
)
def test_verdict(figures, holds, nearly, verdict, k, n):
    result = found(figures, holds, nearly)
    assert (result.verdict, result.k, result.n, result.trials) == (verdict, k, n, len(figures))
    assert result.as_recorded == (verdict == "holds")


def test_figure_and_band():
    result = found([1, 2, 3, 4, NAN, 5], [True] * 6)
    assert result.figure == 3
    assert result.band == pytest.approx((1.4, 4.6))
    nothing = found([NAN], [True])
    assert nothing.figure is nothing.band is nothing.interval is nothing.share_interval is None


def test_binomial_interval_by_hand():
    """Clopper-Pearson: quantiles of beta distributions; in closed form where all or none hold."""
    low, high = found([1] * 5, [True] * 5).share_interval
    assert (low, high) == pytest.approx((0.025 ** (1 / 5), 1))
    low, high = found([1] * 5, [False] * 5).share_interval
    assert (low, high) == pytest.approx((0, 1 - 0.025 ** (1 / 5)))
    low, high = found([1] * 7, [True] * 4 + [False] * 3).share_interval
    assert low == pytest.approx(stats.beta.ppf(0.025, 4, 4))
    assert high == pytest.approx(stats.beta.ppf(0.975, 5, 3))


def test_bootstrap_interval_by_hand():
    """A resampled median is at most the k-th of n figures if more than half of n draws with p = k/n are."""
    assert found([1, 2, 3], [True] * 3).interval == (1, 3)
    share = stats.binom.sf(3, 7, np.arange(8) / 7)
    assert share[1] < 0.02 < 0.1 < share[2]
    assert share[5] < 0.9 < 0.98 < share[6]
    assert found([10, 20, 30, 40, 50, 60, 70], [True] * 7).interval == (20, 60)
    assert found([2], [True]).interval is None
    assert found([2, 2], [True, True]).interval is None
