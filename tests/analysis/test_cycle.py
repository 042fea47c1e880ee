"""One rise and fall, on constructed signals whose boundaries are known in closed form."""

import numpy as np
import pytest

from attndyn.analysis.cycle import Cycle, find_cycle

BASE, HEIGHT, DEPTH = 0.75, 0.1, 0.6
RISE, FALL, WIDTH = 300.0, 500.0, 8.0
SPREAD = WIDTH * np.log(9)  # a sigmoid of this width goes from its middle to nine tenths in so many steps
KNOWN = Cycle(
    rise_onset=RISE - SPREAD,
    peak=(RISE + SPREAD + FALL - WIDTH * np.log(DEPTH / (0.1 * HEIGHT) - 1)) / 2,
    height=HEIGHT,
    fall_onset=FALL - WIDTH * np.log(DEPTH / (0.1 * HEIGHT) - 1),
    fall_end=FALL + SPREAD,
    depth=DEPTH,
)
STEPS = ("rise_onset", "peak", "fall_onset", "fall_end")


def sigmoid(x):
    return 1 / (1 + np.exp(-np.clip(x, -500, 500)))


def signal(steps):
    return BASE + HEIGHT * sigmoid((steps - RISE) / WIDTH) - DEPTH * sigmoid((steps - FALL) / WIDTH)


def cycle(steps, values, **options):
    return find_cycle(steps, values, BASE, **{"floor": 1e-3, **options})


def worst(found):
    return max(abs(getattr(found, name) - getattr(KNOWN, name)) for name in STEPS)


def is_absent(found):
    return all(np.isnan(value) for value in found)


def test_known_boundaries_without_smoothing():
    steps = np.arange(0, 1001.0)
    found = cycle(steps, signal(steps), smoothing=0.0)
    assert worst(found) < 0.5
    assert found.height == pytest.approx(HEIGHT, abs=1e-5)
    assert found.depth == pytest.approx(DEPTH, abs=1e-5)


@pytest.mark.parametrize("every", [1, 5, 10, 20, 40])
@pytest.mark.parametrize("shift", [0, 0.3, 0.7])
def test_boundaries_are_within_one_probe_interval(every, shift):
    steps = np.r_[0, np.arange(shift * every + every, 1001, every)]
    # the running mean over a twentieth of the step widens the edges by less than it is wide itself
    assert worst(cycle(steps, signal(steps))) < max(every, 0.2 * 0.05 * FALL)


def test_log_spaced_records():
    steps = np.unique(np.r_[0, np.round(np.geomspace(1, 1000, 160))])
    interval = np.diff(steps)[np.searchsorted(steps, FALL) - 1]
    assert worst(cycle(steps, signal(steps))) < interval


def errors(noise, every=10):
    """Largest error of the four boundaries in probe intervals, for each of 100 seeds of white noise."""
    steps = np.arange(0, 1001.0, every)
    noises = (np.random.default_rng(seed).normal(scale=noise, size=steps.size) for seed in range(100))
    return np.array([worst(cycle(steps, signal(steps) + noise)) for noise in noises]) / every


@pytest.mark.parametrize(("noise", "intervals"), [(HEIGHT / 100, 1), (HEIGHT / 20, 2)])
def test_noise_moves_every_boundary_by_a_bounded_number_of_intervals(noise, intervals):
    assert errors(noise).max() < intervals  # NaN, where one is absent, is not


def test_at_the_edge_of_detection_boundaries_are_still_right_where_found():
    found = errors(HEIGHT / 10)
    assert np.isfinite(found).mean() >= 0.95
    assert np.nanquantile(found, 0.9) < 2


@pytest.mark.parametrize("noise", [1e-4, 0.01, 0.2])
def test_noise_alone_is_no_cycle(noise):
    steps = np.arange(0, 2001, 10.0)
    for seed in range(200):
        values = BASE + np.random.default_rng(seed).normal(scale=noise, size=steps.size)
        assert is_absent(cycle(steps, values))


def test_a_rise_below_the_noise_is_absent_and_the_same_without_noise_is_found():
    steps = np.arange(0, 1001, 10.0)
    assert np.isfinite(cycle(steps, signal(steps)).peak)
    noise = np.random.default_rng(3).normal(scale=HEIGHT, size=steps.size)
    assert np.isnan(cycle(steps, signal(steps) + noise).rise_onset)


def test_a_rise_below_the_floor_is_absent():
    steps = np.arange(0, 1001.0)
    assert is_absent(cycle(steps, signal(steps), floor=1.1 * HEIGHT))


@pytest.mark.parametrize("value", [BASE, 0.0, 1.0])
def test_constant_signal_has_no_cycle(value):
    assert is_absent(cycle(np.arange(100.0), np.full(100, value)))


def test_empty_and_single_records_have_no_cycle():
    assert is_absent(cycle(np.array([]), np.array([])))
    assert is_absent(cycle(np.array([0.0]), np.array([0.9])))


def test_reversed_signal_rises_from_far_below_the_base_and_is_no_cycle():
    steps = np.arange(0, 1001.0)
    assert is_absent(cycle(steps, signal(steps)[::-1]))


def test_fall_alone_is_no_cycle():
    steps = np.arange(0, 1001.0)
    assert is_absent(cycle(steps, BASE - DEPTH * sigmoid((steps - FALL) / WIDTH)))


def test_a_rise_that_lasts_has_an_onset_and_no_peak():
    steps = np.arange(0, 1001.0)
    found = cycle(steps, BASE + HEIGHT * sigmoid((steps - RISE) / WIDTH))
    assert found.rise_onset == pytest.approx(KNOWN.rise_onset, abs=5)
    assert found.height == pytest.approx(HEIGHT, rel=1e-3)
    assert np.isnan([found.peak, found.fall_onset, found.fall_end, found.depth]).all()


def test_a_fall_cut_short_has_an_onset_and_no_end():
    steps = np.arange(0, 506.0)
    found = cycle(steps, signal(steps), settle=0.05)
    assert found.fall_onset == pytest.approx(KNOWN.fall_onset, abs=5)
    assert np.isnan(found.fall_end)


def test_wiggles_on_the_top_do_not_end_it():
    steps = np.arange(0, 1001.0)
    top = sigmoid((steps - RISE) / WIDTH) * sigmoid((FALL - steps) / WIDTH)
    found = cycle(steps, signal(steps) + 0.03 * np.sin(steps / 10) * top)
    assert found.fall_end == pytest.approx(KNOWN.fall_end, abs=10)


def test_a_ripple_before_the_rise_is_not_taken_for_it():
    steps = np.arange(0, 1001.0)
    ripple = 0.05 * HEIGHT * np.exp(-(((steps - 120) / 30) ** 2))
    assert worst(cycle(steps, signal(steps) + ripple, floor=1e-4)) < 10


def test_regained_attention_ends_the_fall():
    steps = np.arange(0, 2001.0)
    later = DEPTH * sigmoid((steps - 1200) / WIDTH) - 2 * DEPTH * sigmoid((steps - 1700) / WIDTH)
    found = cycle(steps, signal(steps) + later)
    assert found.depth == pytest.approx(DEPTH, rel=0.01)
    assert found.fall_end == pytest.approx(KNOWN.fall_end, abs=10)
