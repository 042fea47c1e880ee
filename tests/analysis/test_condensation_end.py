"""When W_0 and W_1 have grown: constructed growths whose plateau and times are known."""

import numpy as np
import pytest

from attndyn.analysis.stages import Signals, StageOptions, detect
from attndyn.analysis.timeline import boundaries, in_order

WIDTH = 8.0
GROWN = 100 + WIDTH * np.log(9)  # a logistic growth around step 100 has done nine tenths
RANK_ONE = 30.0


def logistic(steps, plateau=2.0):
    """Exponential growth from 7e-6, around step 100 into a plateau."""
    return plateau / (1 + np.exp(-np.clip((steps - 100) / WIDTH, -500, 500)))


def drifting(steps):
    """From the plateau on it grows by a tenth in 100 steps, for ever: as sampled Adam does."""
    return logistic(steps) * (1 + 1e-3 * np.maximum(steps - 120, 0))


def twice(steps):
    """A second growth, of the next tokens' directions, at step 600."""
    return logistic(steps) + 0.6 * logistic(steps - 500)


def found(size, every=10, last=2000, scale=1, rank_one=RANK_ONE, rng=None, noise=0.0):
    """(rank_one, condensation_end) of `size(step / scale)`; noise is in proportion, as of any norm."""
    steps = np.arange(0, last + 1.0, every)
    values = size(steps / scale) * (1 + noise * rng.normal(size=len(steps)) if rng else 1)
    return detected(steps, values, rank_one * scale)


def detected(steps, values, rank_one=RANK_ONE):
    nothing, outer = np.full(len(steps), 0.3), np.interp(steps, [rank_one - 1, rank_one + 1], [0.91, 0.99])
    signals = Signals(
        parameter_steps=steps,
        outer=outer,
        size=values,
        inner=nothing,
        spread=1 - outer,
        separation=nothing[:, None],
        attention_steps=steps,
        attention=np.full((len(steps), 2, 2), 0.5),
        pi=np.array([0.6, 0.4]),
    )
    at = boundaries(detect(signals, StageOptions()))
    assert not in_order(at)
    return at["rank_one"], at["condensation_end"]


@pytest.mark.parametrize("every", [1, 5, 10, 20, 50])
@pytest.mark.parametrize("size", [logistic, twice])
def test_within_one_probe_interval(every, size):
    rank_one, end = found(size, every)
    assert abs(rank_one - RANK_ONE) <= every
    assert abs(end - GROWN) < max(every, 1)


@pytest.mark.parametrize("scale", [0.5, 10, 100])
def test_neither_the_scale_of_steps_nor_that_of_weights_matters(scale):
    given = {"every": 10 * scale, "last": 2000 * scale, "scale": scale}
    assert found(logistic, **given)[1] == pytest.approx(scale * found(logistic)[1])
    assert found(lambda steps: 1e-6 * logistic(steps))[1] == pytest.approx(found(logistic)[1])


@pytest.mark.parametrize("every", [1, 10, 20])
@pytest.mark.parametrize("noise", [0.005, 0.02, 0.05])
def test_noise(every, noise):
    """30 seeds: within two intervals, or within the width of the growth."""
    ends = [found(twice, every, noise=noise, rng=np.random.default_rng(seed))[1] for seed in range(30)]
    assert np.abs(np.array(ends) - GROWN).max() < max(2 * every, WIDTH)


@pytest.mark.parametrize("every", [1, 10, 20])
def test_the_plateau_is_where_a_slow_approach_leads(every):
    """The last eighth of the way takes ten times as long, as in a gradient flow."""

    def size(steps):
        return logistic(steps) * (1 - np.exp(-np.maximum(steps - 100, 0) / 80 - 2))

    fine = np.arange(100, 200, 0.01)
    assert abs(found(size, every)[1] - fine[size(fine) >= 1.8][0]) < max(every, 2)


@pytest.mark.parametrize("every", [1, 10, 20])
def test_slow_drift_after_the_plateau_moves_it_by_a_width_at_most(every):
    end = found(drifting, every)[1]
    assert abs(end - GROWN) < max(every, WIDTH)
    assert abs(end - found(drifting, 2)[1]) < every


@pytest.mark.parametrize("last", range(50, 120, 5))
def test_a_record_that_ends_while_growing_has_none(last):
    """Neither an exponential growth nor one in proportion to the step is taken for a plateau."""
    for every in (1, 5, 10):
        for size in (logistic, lambda steps: np.exp(steps / 10) * 1e-3, lambda steps: 0.02 * steps):
            rank_one, end = found(size, every, last)
            assert abs(rank_one - RANK_ONE) <= every
            assert np.isnan(end)


def test_it_is_found_once_half_as_much_again_is_recorded():
    for last in range(100, 400, 10):
        end = found(logistic, 1, last)[1]
        assert np.isnan(end) or abs(end - GROWN) < 1
        assert np.isfinite(end) or last < 1.55 * GROWN
        assert np.isnan(end) or last > 1.45 * GROWN


def test_reversed_constant_and_short_records_have_none():
    steps = np.arange(0, 2001.0, 10)
    assert np.isnan(detected(steps, twice(steps)[::-1])[1])
    for value in (0.0, 1e-3, 2.0):
        assert np.isnan(detected(steps, np.full(len(steps), value))[1])
    for count in (0, 1):
        assert np.isnan(detected(steps[:count], logistic(steps[:count]))).all()


def test_what_begins_grown_has_not_been_seen_to_grow():
    assert np.isnan(found(lambda steps: 1.9 + 0.05 * logistic(steps))[1])


def test_divergence_keeps_what_came_before():
    steps = np.arange(0, 2001.0, 10)
    for last, absent in ((300, False), (120, True)):
        for bad in (np.nan, np.inf):
            rank_one, end = detected(steps, np.where(steps > last, bad, logistic(steps)))
            assert abs(rank_one - RANK_ONE) < 10
            assert np.isnan(end) if absent else abs(end - GROWN) < 10


def test_both_are_needed():
    rank_one, end = found(logistic, rank_one=400.0)
    assert end == rank_one == pytest.approx(400, abs=1)
    assert np.isnan(found(logistic, rank_one=5000.0)).all()
