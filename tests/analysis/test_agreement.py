"""Correlation and lag of curves made from one another."""

from __future__ import annotations

import numpy as np
import pytest

from attndyn.analysis.agreement import Agreement, pairwise_agreement

STEPS = np.arange(0, 1001, 10.0)


def agreement(*curves: np.ndarray, steps: np.ndarray = STEPS, max_lag: float = 0.25) -> Agreement:
    return pairwise_agreement(steps, np.array(curves), max_lag, min_change=1e-3, min_correlation=0.5)


def bump(at: float, steps: np.ndarray = STEPS) -> np.ndarray:
    return np.exp(-(((steps - at) / 60) ** 2))


def test_a_delayed_copy_correlates_less_now_and_fully_at_its_delay() -> None:
    found = agreement(bump(400), bump(470), 3 - 2 * bump(400))
    assert found.correlation[0, 1] == pytest.approx(np.corrcoef(bump(400), bump(470))[0, 1])
    assert found.lag[0, 1] == pytest.approx(70)  # the second follows the first
    assert found.lag[1, 0] == pytest.approx(-70)
    assert found.lagged_correlation[0, 1] == pytest.approx(1, abs=1e-6)
    assert found.correlation[0, 2] == pytest.approx(-1)
    assert np.isnan(found.lag[0, 2])  # alike at no lag


def test_copies_agree_at_once_and_a_curve_is_not_compared_with_itself() -> None:
    found = agreement(bump(400), 5 + 0.1 * bump(400))
    assert found.correlation[0, 1] == pytest.approx(1)
    assert found.lag[0, 1] == 0
    for array in found:
        assert np.isnan(np.diag(array)).all()


def test_of_equally_good_lags_the_shortest_is_taken() -> None:
    assert agreement(STEPS, 2 * STEPS).lag[0, 1] == 0


def test_a_lag_longer_than_allowed_is_not_found() -> None:
    found = agreement(bump(300), bump(600), max_lag=0.25)
    assert not abs(found.lag[0, 1]) > 250
    assert agreement(bump(300), bump(600), max_lag=0.4).lag[0, 1] == pytest.approx(300)


def test_a_flat_curve_agrees_with_none() -> None:
    found = agreement(bump(400), np.full_like(STEPS, 0.3), 0.3 + 1e-5 * bump(400))
    assert np.isnan(found.correlation).all()
    assert np.isnan(found.lag).all()


def test_uneven_records_do_not_weigh_more() -> None:
    """Records crowd at the start; the lag is still that of the curves."""
    uneven = np.unique(np.concatenate([np.arange(0, 200, 2.0), np.arange(200, 1001, 10.0)]))
    found = agreement(bump(400, uneven), bump(470, uneven), steps=uneven)
    assert abs(found.lag[0, 1] - 70) <= 10


def test_records_after_a_divergence_do_not_count() -> None:
    broken = bump(400)
    broken[90:] = np.nan
    assert agreement(broken, bump(400)).correlation[0, 1] == pytest.approx(1)
    broken[2:] = np.nan
    assert np.isnan(agreement(broken, bump(400)).correlation).all()
