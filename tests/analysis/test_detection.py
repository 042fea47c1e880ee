"""Curves that the stages are read from, and what is found in them; timeline, monitor and options."""

from dataclasses import replace

import numpy as np
import pytest
import xarray as xr
from pydantic import ValidationError

from attndyn.analysis.monitor import StageMonitor
from attndyn.analysis.stages import Signals, StageOptions, detect, rank_one_share, separation
from attndyn.analysis.timeline import (
    boundaries,
    boundary_name,
    current_stage,
    in_order,
    order_faults,
    overtaken,
    replica_spans,
    representative,
    stage_labels,
    stage_names,
    stage_starts,
)

PI = np.array([0.6, 0.25, 0.1, 0.05])


def sigmoid(x):
    return 1 / (1 + np.exp(-np.clip(x, -500, 500)))


def signals(every=10, last=2000, collapse=200.0, swing=0.0):
    """All stages in order: rank-one shares, size, separations of tokens 0, 1, 2, and attention to token 0.

    `swing` adds a passing separation of token 1 at step 500 that lasts about so many steps.
    """
    steps = np.arange(0, last + 1.0, every)
    rows = np.ones((len(steps), 4))
    rise, fall = sigmoid((steps - 300) / 8), sigmoid((steps - 500) / 8)
    given = PI[0] + 0.1 * np.outer(rise, rows[0]) - 0.55 * np.outer(fall, [0, 1, 1, 1])
    attention = (1 - given)[..., None] * (PI / (1 - PI[0]))
    attention[..., 0] = given
    middles = np.array([520, 900, 1400])
    apart = 0.96 * sigmoid((steps[:, None] - middles) / 10)
    apart[:, 1] += 0.8 * ((steps >= 500) & (steps < 500 + swing))
    return Signals(
        parameter_steps=steps,
        outer=0.3 + 0.69 * sigmoid((steps - 50) / 5),
        size=2 * sigmoid((steps - 75) / 5),
        inner=0.1 + 0.89 * sigmoid((steps - collapse) / 5),
        spread=0.3 * sigmoid((steps - 510) / 8),
        separation=apart,
        attention_steps=steps,
        attention=attention,
        pi=PI,
    )


KNOWN = {
    "rank_one": 50 + 5 * np.log(0.65 / 0.04),
    "condensation_end": 75 + 5 * np.log(9),
    "collapse_end": 200 + 5 * np.log(0.85 / 0.04),
    "focus_onset": 300 - 8 * np.log(9),
    "focus_peak": 0.5 * (300 + 8 * np.log(9) + 500 - 8 * np.log(54)),
    "dilution_onset": 500 - 8 * np.log(54),
    "dilution_end": 500 + 8 * np.log(9),
    "new_direction": 510 - 8 * np.log(2),
    "direction_0": 520 + 10 * np.log(0.5 / 0.46),
    "direction_1": 900 + 10 * np.log(0.5 / 0.46),
    "direction_2": 1400 + 10 * np.log(0.5 / 0.46),
}


def find(given, **options):
    return boundaries(detect(given, StageOptions(**options)))


def mapped(given, function):
    """`given` with `function` applied to every curve."""
    names = ("outer", "size", "inner", "spread", "separation", "attention")
    return replace(given, **{name: function(getattr(given, name)) for name in names})


@pytest.mark.parametrize("every", [1, 5, 10, 20])
def test_all_boundaries_within_one_probe_interval(every):
    found = find(signals(every))
    assert list(found) == list(KNOWN)
    for name, known in KNOWN.items():
        # the running mean over a twentieth of the step moves edges of this width by less than a hundredth
        assert abs(found[name] - known) < max(every, 0.01 * known), name
    assert in_order(found)


def test_directions_have_onset_and_completion():
    opening = detect(signals(2), StageOptions()).directions[1]
    assert opening.onset == pytest.approx(900 - 10 * np.log(8.6), abs=1)
    assert opening.completion == pytest.approx(900 + 10 * np.log(9), abs=1)


@pytest.mark.parametrize("swing", [60, 120, 240])
def test_a_passing_swing_is_no_direction(swing):
    found = find(signals(swing=swing))
    assert found["direction_1"] == pytest.approx(KNOWN["direction_1"], abs=10)
    if swing > 60:
        assert find(signals(swing=swing), hold=0.1)["direction_1"] < 520


def test_a_collapse_that_is_undone_is_taken_at_its_return():
    given = signals()
    inner = given.inner.copy()
    inner[(given.parameter_steps > 225) & (given.parameter_steps < 260)] = 0.4
    assert find(replace(given, inner=inner))["collapse_end"] == pytest.approx(260, abs=10)
    inner[inner == 0.4] = 0.6  # still mostly of one direction
    assert find(replace(given, inner=inner))["collapse_end"] == pytest.approx(KNOWN["collapse_end"], abs=10)


def test_reversed_curves_show_no_stage():
    found = find(mapped(signals(), lambda curve: curve[::-1]))
    assert np.isnan(list(found.values())).all()
    assert not in_order(found)


def test_a_stage_out_of_place_is_out_of_order():
    found = find(signals(collapse=700))
    assert found["collapse_end"] > found["dilution_end"]
    assert not in_order(found)


def test_constant_curves_show_no_stage():
    for record in (0, 60, -1):
        found = find(mapped(signals(), lambda curve, at=record: np.broadcast_to(curve[at], curve.shape)))
        assert np.isnan(list(found.values())).all()
        assert current_stage(mapped(signals(), lambda curve: curve * 0 + 0.3)) == "condensation"


def test_one_record_shows_no_stage():
    assert np.isnan(list(find(signals(last=0)).values())).all()


def test_divergence_keeps_what_came_before():
    def diverge(curve):
        curve = curve.copy()
        curve[70:] = np.nan
        return curve

    found = find(mapped(signals(), diverge))
    before = [
        "rank_one",
        "condensation_end",
        "collapse_end",
        "focus_onset",
        "focus_peak",
        "dilution_onset",
        "dilution_end",
    ]
    for name in before:
        assert found[name] == pytest.approx(KNOWN[name], abs=10)
    assert np.isnan(found["direction_1"])
    assert np.isnan(found["direction_2"])


def test_focus_needs_every_query():
    given = signals()
    attention = given.attention.copy()
    attention[:, 2, 0] = PI[0]
    found = detect(replace(given, attention=attention), StageOptions())
    assert np.isnan(found.cycles[0].rise_onset)
    assert [np.isfinite(query.rise_onset) for query in found.queries] == [True, True, False, True]
    assert [np.isfinite(query.depth) for query in found.queries] == [False, True, False, True]


def test_cycle_of_a_later_token_is_among_those_left():
    """Attention of tokens 1, 2, 3 to token 1 rises once token 0 has left, then falls for 2 and 3."""
    given = signals(5)
    steps, attention = given.attention_steps, given.attention.copy()
    rest = attention[:, 1:, 1:].sum(-1)
    share = (
        0.3
        + 0.5 * sigmoid((steps - 650) / 8)[:, None]
        - 0.6 * np.outer(sigmoid((steps - 850) / 8), [0, 1, 1])
    )
    share = share + 0.4 * np.exp(-(((steps - 300) / 40) ** 2))[:, None]  # before token 0 has left
    attention[:, 1:, 1] = share * rest
    attention[:, 1:, 2:] = ((1 - share) * rest / 2)[..., None]
    cycles = detect(replace(given, attention=attention), StageOptions()).cycles
    assert cycles[1].rise_onset == pytest.approx(650 - 8 * np.log(9), rel=0.01)
    assert cycles[1].fall_end == pytest.approx(850 + 8 * np.log(9), rel=0.01)
    assert cycles[1].height == pytest.approx(0.5, abs=0.01)
    assert np.isnan(cycles[2]).all()
    assert np.isnan(detect(given, StageOptions()).cycles[1]).all()


@pytest.mark.parametrize("noise", [0.002, 0.005])
def test_noise_on_every_curve(noise):
    """White noise on every curve, 30 seeds, a record every 10 steps: no boundary moves by two intervals."""
    given = signals()
    for seed in range(30):
        rng = np.random.default_rng(seed)
        found = find(mapped(given, lambda curve, rng=rng: curve + rng.normal(scale=noise, size=curve.shape)))
        assert max(abs(found[name] - known) for name, known in KNOWN.items()) < 20


def test_rank_one_share():
    rng = np.random.default_rng(0)
    left, right = np.linalg.qr(rng.normal(size=(5, 5)))[0], np.linalg.qr(rng.normal(size=(7, 7)))[0][:5]
    weight = left @ np.diag([3.0, 2, 1, 0, 0]) @ right
    assert rank_one_share(np.stack([weight, weight * 1e-9])) == pytest.approx(9 / 14)
    assert rank_one_share(np.outer(left[0], right[0])) == pytest.approx(1)
    assert np.isnan(rank_one_share(np.stack([0 * weight, np.full_like(weight, np.nan)]))).all()


def test_separation_is_the_squared_sine_to_the_later_tokens():
    angle = 0.3
    W_0 = np.zeros((4, 6))
    W_0[0, 1], W_0[1], W_0[2, 0], W_0[3, 0] = 2, [np.cos(angle), 0, np.sin(angle), 0, 0, 0], 1, -0.2
    W_0[1] *= 1e-3  # lengths and signs do not matter to its own separation
    np.testing.assert_allclose(separation(W_0, 3), [1, np.sin(angle) ** 2, 0], atol=1e-6)
    rotation = np.linalg.qr(np.random.default_rng(1).normal(size=(6, 6)))[0]
    np.testing.assert_allclose(
        separation(np.stack([W_0, -W_0]) @ rotation, 3)[1], separation(W_0, 3), atol=1e-12
    )
    assert separation(W_0, 0).shape == (0,)


def test_stage_is_the_furthest_that_has_begun():
    steps = {
        **dict.fromkeys(KNOWN, float("nan")),
        "rank_one": 7.0,
        "condensation_end": 10.0,
        "focus_onset": 30.0,
        "direction_2": 40.0,
    }
    assert stage_starts(steps, 5.0) == [
        ("condensation", 5.0),
        ("collapse", 10.0),
        ("focus", 30.0),
        ("token 2", 40.0),
    ]
    steps["collapse_end"] = 35.0  # after focus has begun: no plateau
    labels = stage_labels(steps, np.array([5.0, 10, 20, 30, 36, 50])).tolist()
    assert labels == ["condensation", "collapse", "collapse", "focus", "focus", "token 2"]
    cut_short = {**dict.fromkeys(KNOWN, float("nan")), "rank_one": 7.0}
    assert stage_labels(cut_short, np.array([5.0, 8])).tolist() == ["condensation", "condensation"]
    assert stage_labels(dict.fromkeys(KNOWN, float("nan")), np.arange(3.0)).tolist() == ["", "", ""]


def test_order_needs_the_first_tokens():
    assert in_order(KNOWN)
    assert in_order({**KNOWN, "direction_2": float("nan"), "direction_0": 1e9})
    assert not in_order({**KNOWN, "direction_1": float("nan")})
    assert not in_order({**KNOWN, "direction_2": 800.0})
    assert not in_order({**KNOWN, "focus_peak": float("nan")})


def test_what_is_missing_or_out_of_order_is_named():
    assert order_faults({**KNOWN, "direction_1": float("nan")}, ["the", "of", "and"]) == [
        "direction of token of not seen"
    ]
    assert order_faults({**KNOWN, "direction_2": 800.0}) == ["direction 2 before direction 1"]
    swapped = {**KNOWN, "focus_onset": KNOWN["collapse_end"], "collapse_end": KNOWN["focus_onset"]}
    assert order_faults(swapped) == ["focus onset before collapse end"]
    nothing = dict.fromkeys(KNOWN, float("nan"))
    assert [fault.removesuffix(" not seen") for fault in order_faults(nothing)] == [
        "condensation end", "collapse end", "focus onset", "focus peak", "dilution onset", "direction 1",
    ]  # fmt: skip


def test_a_token_that_a_rarer_one_overtakes_is_out_of_order():
    assert overtaken(KNOWN) == []
    assert overtaken({**KNOWN, "direction_2": 800.0}) == ["direction_1"]
    assert overtaken({**KNOWN, "direction_1": float("nan")}) == []  # it is absent
    assert overtaken({**KNOWN, "direction_2": float("nan")}) == []


def test_tokens_are_called_by_their_labels():
    assert boundary_name("focus_onset", ["the"]) == "focus onset"
    assert boundary_name("direction_1", ["the", "of"]) == "direction of token of"
    assert boundary_name("direction_2", ["the", "of"]) == "direction 2"
    ranked = xr.Dataset({"token_at_rank": (("replica", "rank"), [["a", "b", "c"], ["a", "c", "b"]])})
    assert stage_names(ranked.isel(replica=[1])) == {
        "token 0": "token a",
        "token 1": "token c",
        "token 2": "token b",
    }
    assert stage_names(ranked)["token 1"] == "token of rank 1"


def test_one_replica_stands_for_the_others():
    """Boundaries whose medians, over different replicas, contradict one another."""
    nan = float("nan")
    onset, end = [900.0, 910, 925, 920, 5000], [nan, 870, nan, 1000, nan]
    steps = [{**KNOWN, "dilution_onset": a, "dilution_end": b} for a, b in zip(onset, end, strict=True)]
    found = xr.Dataset(
        {
            "boundary_step": (
                ("boundary", "replica", "layer", "head"),
                np.array([list(each.values()) for each in steps]).T[..., None, None],
            )
        },
        coords={"boundary": list(KNOWN), "step": [0, 9000]},
    )
    assert (
        representative(found, range(5)) == 2
    )  # without an end as most are; 3 alone is closer to the medians
    assert representative(found, [1, 3]) == 1  # of two equally far away the first
    assert representative(found, [4]) == 4
    for replica in range(5):
        ends = [end for _, _, end in replica_spans(found, replica)]
        assert ends == sorted(ends)


def test_current_stage_goes_through_the_stages():
    reached = [current_stage(signals(last=last, collapse=120)) for last in range(20, 2001, 20)]
    seen = list(dict.fromkeys(reached))
    assert seen == ["condensation", "collapse", "plateau", "focus", "dilution", "token 1", "token 2"]
    assert [seen.index(stage) for stage in reached] == sorted(seen.index(stage) for stage in reached)


def test_monitor_agrees_with_detection_on_all_records():
    """Tokens out of order of frequency, weights with known spectra and sizes."""
    order = np.array([2, 0, 3, 1])  # label of each rank
    given, monitor = signals(20, 700, collapse=150), StageMonitor(PI[np.argsort(order)])
    seen = {monitor.stage: None}
    for record, step in enumerate(given.parameter_steps):
        outer, inner = given.outer[record], given.inner[record]
        W_0 = np.zeros((4, 6))
        W_0[:, 0] = 1
        W_0[:, 1:5] = np.eye(4) * np.sqrt(4 * (1 - outer) / (4 * outer - 1))
        W_0 *= given.size[record] / np.linalg.norm(W_0)
        W_Q = np.diag(np.sqrt([inner, *[(1 - inner) / 5] * 5]))
        monitor.add_parameters(int(step), W_0[np.argsort(order)], W_0.T, W_Q, W_Q.T)
        monitor.add_attention(
            int(step), given.attention[record][np.ix_(np.argsort(order), np.argsort(order))]
        )
        seen[monitor.stage] = None
    assert list(seen) == ["condensation", "collapse", "plateau", "focus", "dilution"]


@pytest.mark.parametrize(
    "wrong", [{"direction_low": 0.6}, {"rank_one_level": 0.4}, {"hold": -1}, {"tokens": 1}, {"levl": 1}]
)
def test_options_refuse_what_makes_no_sense(wrong):
    with pytest.raises(ValidationError):
        StageOptions(**wrong)
