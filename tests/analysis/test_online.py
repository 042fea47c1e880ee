"""The on-line detector, its score and the patience rule, on curves whose changes are known."""

from __future__ import annotations

import numpy as np
import pytest

from attndyn.analysis.online import TrendDetector, TrendOptions, detect_trends
from attndyn.analysis.score import Rule, score
from attndyn.analysis.stopping import diverged, stopping_step

OPTIONS = TrendOptions(kind="any")
STEPS = np.arange(0.0, 2001.0, 2)
CORNERS = [0, 300, 450, 700, 850, 2000]  # level, fall, level, rise, level
LAX = Rule(0.2)
KNOWN = np.array(CORNERS[1:-1], float)


def curve(noise=0.0, seed=0):
    values = np.interp(STEPS, CORNERS, [0.7, 0.7, 0.3, 0.3, 0.5, 0.5])
    return values + noise * np.random.default_rng(seed).normal(size=len(STEPS))


def announced(values):
    return np.array([event.step for event in detect_trends(STEPS, values, OPTIONS).events])


def soon(events):
    """Whether the four changes are announced, and no other, within a fifth of their steps."""
    if [event.kind for event in events] != ["fall", "level", "rise", "level"]:
        return False
    delay = np.array([event.step for event in events]) - KNOWN
    return bool(((delay > 0) & (delay < 0.2 * KNOWN)).all())


def test_known_changes_are_announced_soon_after_they_happen() -> None:
    assert soon(detect_trends(STEPS, curve(), OPTIONS).events)
    noisy = [soon(detect_trends(STEPS, curve(0.01, seed), OPTIONS).events) for seed in range(30)]
    assert np.mean(noisy) > 0.7


def test_noise_alone_announces_nothing() -> None:
    rng = np.random.default_rng(1)
    false = [len(announced(0.7 + 0.02 * rng.normal(size=len(STEPS)))) for _ in range(50)]
    assert np.mean(false) < 0.5


def test_the_future_does_not_change_the_past() -> None:
    values = curve(0.02)
    whole = detect_trends(STEPS, values, OPTIONS).events
    for end in range(0, len(STEPS), 37):
        now = STEPS[end - 1] if end else -1.0
        seen = [event for event in whole if event.step <= now]
        assert detect_trends(STEPS[:end], values[:end], OPTIONS).events == seen


def test_memory_is_bounded() -> None:
    detector = TrendDetector(OPTIONS)
    for step, value in zip(STEPS, curve(), strict=True):
        detector.add(step, value)
        assert len(detector._means) <= OPTIONS.window


def test_nothing_is_announced_after_a_divergence() -> None:
    values = curve()
    values[200] = np.nan
    assert announced(values).tolist() == [step for step in announced(curve()) if step < STEPS[200]]


def test_a_record_reversed_or_shuffled_scores_badly() -> None:
    def of(values):
        return score(announced(values), KNOWN, LAX, STEPS[0], STEPS[-1])

    assert of(curve()).precision == of(curve()).recall == 1
    backwards = of(curve()[::-1])  # its changes are at 1150, 1300, 1550 and 1700
    assert backwards.recall == 0
    shuffled = [of(np.random.default_rng(seed).permutation(curve())) for seed in range(20)]
    assert np.mean([found.recall for found in shuffled]) < 0.25


def test_every_boundary_and_every_event_is_matched_once_and_as_many_as_can_be() -> None:
    true = np.array([100.0, 110.0, np.nan, 1000.0])
    found = score(np.array([108.0, 125.0, 126.0, 500.0]), true, LAX, 1, 2000)
    np.testing.assert_allclose(found.delay, [8, 15, np.nan, np.nan])
    assert found.precision == 0.5
    assert found.recall == pytest.approx(2 / 3)


def test_chance_is_what_an_event_at_random_gets() -> None:
    true, rng = np.array([100.0, 700.0]), np.random.default_rng(0)
    drawn = [np.expm1(rng.uniform(np.log1p(80), np.log1p(2000), 1)) for _ in range(4000)]
    found = score(np.array([300.0]), true, LAX, 80, 2000)
    hits = [(np.abs(event - true) <= 0.2 * true).sum() for event in drawn]
    assert found.chance_precision == pytest.approx(np.mean(hits), abs=0.02)
    assert found.chance_recall == pytest.approx(np.mean(hits) / 2, abs=0.01)


def test_chance_is_larger_where_events_are_possible_than_from_the_first_step_on() -> None:
    events, true = np.array([150.0, 400.0, 900.0]), np.array([120.0, 280.0, 440.0, 900.0])
    fair, from_0 = (score(events, true, LAX, first, 2000) for first in (80, 0))
    assert fair.chance_recall > 1.5 * from_0.chance_recall
    assert fair.recall == from_0.recall


def test_chance_keeps_spacing_and_meets_each_boundary_once() -> None:
    together = score(np.array([300.0, 301.0, 302.0]), np.array([500.0]), LAX, 80, 2000)
    alone = score(np.array([300.0]), np.array([500.0]), LAX, 80, 2000)
    assert together.chance_recall == pytest.approx(alone.chance_recall, abs=0.011)
    assert together.chance_precision == pytest.approx(together.chance_recall / 3)


def test_events_are_possible_from_the_first_full_window_on() -> None:
    cadence = np.arange(0.0, 2001.0, 10)
    assert 70 <= detect_trends(cadence, np.zeros(len(cadence)), OPTIONS).first <= 90
    assert np.isnan(detect_trends(cadence[:5], np.zeros(5), OPTIONS).first)
    drop = np.where(cadence < 40, 1.0, 1 - cadence / 2000)
    found = detect_trends(cadence, drop, OPTIONS)
    assert found.events[0].step >= found.first


def test_a_strict_rule_takes_neither_early_events_nor_those_of_another_kind() -> None:
    events, true = np.array([90.0, 510.0]), np.array([100.0, 500.0])
    assert score(events, true, LAX, 1, 2000).recall == 1
    late = score(events, true, Rule(0.2, early=False), 1, 2000)
    np.testing.assert_allclose(late.delay, [np.nan, 10])
    assert late.chance_recall < score(events, true, LAX, 1, 2000).chance_recall
    other = np.array([[True, True], [True, False]])
    np.testing.assert_allclose(score(events, true, Rule(0.2, other), 1, 2000).delay, [-10, np.nan])


def test_without_events_or_boundaries_there_is_no_score() -> None:
    none = score(np.array([]), np.array([100.0]), LAX, 0, 2000)
    assert np.isnan(none.precision)
    assert none.recall == none.chance_recall == 0
    assert np.isnan(score(np.array([5.0]), np.array([np.nan]), LAX, 0, 2000).recall)


@pytest.mark.parametrize("every", [1, 10])
def test_patience_is_counted_in_steps(every) -> None:
    steps = np.arange(0.0, 1001.0, every)
    loss = np.interp(steps, [0, 300, 1000], [1.0, 0.5, 0.5])
    assert stopping_step(steps, loss, 100, 1e-3, 0) == pytest.approx(400, abs=every)
    assert np.isnan(stopping_step(steps, loss, 800, 1e-3, 0))
    assert stopping_step(steps, loss, 100, 1e-3, 50) > 400  # the mean follows later


def test_smoothing_keeps_noise_from_counting_as_improvement() -> None:
    steps = np.arange(0.0, 3001.0)
    loss = 0.7 + 0.02 * np.random.default_rng(0).normal(size=len(steps))
    assert stopping_step(steps, loss, 200, 1e-3, 50) < 2000


def test_a_diverged_loss_stops_nothing() -> None:
    steps = np.arange(0.0, 101.0)
    loss = np.where(steps < 50, 1.0, np.nan)
    assert np.isnan(stopping_step(steps, loss, 80, 0, 0))


def test_a_loss_above_its_bound_or_not_finite_has_diverged() -> None:
    assert diverged(np.array([1.0, np.nan]))
    assert diverged(np.array([1.0, 3e4]), 1e4)
    assert not diverged(np.array([1.0, 3.0]), 1e4)
