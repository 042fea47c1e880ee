"""Entropy of maps with closed forms."""

from __future__ import annotations

import numpy as np
import pytest

PI = np.array([0.7, 0.2, 0.1, 0.0])


@pytest.fixture
def trajectory(make_trajectory):
    """One-hot rows at first, then rows uniform over one to four keys, then a diverged record."""
    values = np.log([[1, 1, 1, 1], [1, 2, 3, 4], [np.nan, 1, 1, 1]])
    return make_trajectory(PI, {"entropy": values[None, :, None, None]}, [0, 5, 9])


def test_entropies(trajectory, run_analyzer) -> None:
    found = run_analyzer("entropy", trajectory)
    mean = 0.2 * np.log(2) + 0.1 * np.log(3)
    np.testing.assert_allclose(found["mean_entropy"].values.ravel(), [0, mean, np.nan], rtol=1e-14)
    np.testing.assert_allclose(found["entropy"][0, 1, 0, 0], np.log([1, 2, 3, 4]), rtol=1e-14)
    assert found["entropy"].attrs["units"] == "nats"


def test_stationary_entropy_counts_impossible_tokens_as_nothing(trajectory, run_analyzer) -> None:
    found = run_analyzer("entropy", trajectory)
    expected = -(0.7 * np.log(0.7) + 0.2 * np.log(0.2) + 0.1 * np.log(0.1))
    assert float(found["stationary_entropy"][0]) == pytest.approx(expected, rel=1e-14)


def test_uniform_attention_over_a_uniform_law_is_at_the_reference(make_trajectory, run_analyzer) -> None:
    entropy = np.full((2, 3, 1, 1, 5), np.log(5))
    found = run_analyzer("entropy", make_trajectory([0.2] * 5, {"entropy": entropy}, [0, 1, 2]))
    np.testing.assert_allclose(found["mean_entropy"], np.full((2, 3, 1, 1), np.log(5)), rtol=1e-14)
    np.testing.assert_allclose(found["stationary_entropy"], [np.log(5)] * 2, rtol=1e-14)


def test_the_rest_weighs_as_much_as_its_tokens(make_trajectory, run_analyzer) -> None:
    values = np.array([1.0, 3.0])[None, None, None, None]
    trajectory = make_trajectory(
        [0.4, 0.35, 0.25], {"entropy": values}, [0], list("xyz"), keys=["x", "<rest>"]
    )
    found = run_analyzer("entropy", trajectory)
    assert float(found["mean_entropy"].squeeze()) == pytest.approx(0.4 * 1 + 0.6 * 3, rel=1e-14)


def test_draw(rich_trajectory, draw_analyzer, words) -> None:
    shown = words(draw_analyzer("entropy", rich_trajectory))
    assert {
        "entropy [nats]",
        "step",
        "layer 0, head 0 (4 of 6 heads)",
        "layer 1, head 2",
        r"$H(\pi)$",
    } <= set(shown)
    assert {"query:", "mean", r"\$word_5^"} <= set(shown)
    assert "<rest>" not in shown


def test_draw_one_head_in_time(make_trajectory, draw_analyzer, words) -> None:
    entropy = np.ones((1, 3, 1, 1, 2))
    trajectory = make_trajectory([0.6, 0.4], {"entropy": entropy}, [0, 1, 2], ["x", "y"], [0.0, 0.1, 0.2])
    shown = words(draw_analyzer("entropy", trajectory))
    assert {"time", "x", "y"} <= set(shown)
    assert not any("head" in word for word in shown)
