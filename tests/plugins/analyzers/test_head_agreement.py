"""Heads that move together, one after the other, against each other, and alone."""

from __future__ import annotations

import numpy as np
import pytest

STEPS = np.arange(0, 1001, 10)


def bump(at: float) -> np.ndarray:
    return np.exp(-(((STEPS - at) / 60) ** 2))


@pytest.fixture
def heads(make_trajectory):
    """A function from entropies and focus (layer, head, step) to a trajectory of two replicas alike."""

    def make(entropy: np.ndarray, focus: np.ndarray):
        entropy, focus = (np.moveaxis(np.asarray(a), -1, 0)[None].repeat(2, 0) for a in (entropy, focus))
        attention = np.stack([1 - focus, focus], axis=-1)[..., None, :].repeat(
            2, -2
        )  # the second is frequent
        arrays = {"entropy": entropy[..., None].repeat(2, -1), "attention": attention}
        return make_trajectory([0.3, 0.7], arrays, STEPS)

    return make


@pytest.fixture
def two_layers(heads):
    """Layer 0: the second head follows 70 steps later; layer 1: it does the opposite. Focus: together."""
    entropy = [[bump(400), bump(470)], [bump(400), 2 - bump(400)]]
    focus = [[0.5 + 0.4 * bump(300), 0.2 + 0.1 * bump(300)], [0.1 * bump(300), 0.1 * bump(300)]]
    return heads(entropy, focus)


def test_lag_and_correlation_of_each_layer(two_layers, run_analyzer) -> None:
    found = run_analyzer("head_agreement", two_layers)
    np.testing.assert_allclose(found["entropy_lag"][:, 0, 0, 1], [70, 70])
    np.testing.assert_allclose(found["entropy_lag"][:, 0, 1, 0], [-70, -70])
    np.testing.assert_allclose(found["entropy_correlation"][:, 1, 0, 1], [-1, -1])
    np.testing.assert_allclose(found["focus_correlation"].values[:, :, [0, 1], [1, 0]], 1)
    np.testing.assert_allclose(found["entropy_agreement"][:, 1], [-1, -1])
    np.testing.assert_allclose(found["entropy_spread"][:, 0], [70, 70])
    np.testing.assert_allclose(found["focus_spread"], 0)
    assert "note" not in found.attrs


def test_focus_is_the_attention_to_the_most_frequent_token(two_layers, run_analyzer) -> None:
    found = run_analyzer("head_agreement", two_layers)
    np.testing.assert_allclose(found["focus"][0, :, 0, 0], 0.5 + 0.4 * bump(300))


def test_one_head_has_nothing_to_agree_with(heads, run_analyzer, draw_analyzer) -> None:
    trajectory = heads([[bump(400)]], [[0.5 * bump(300)]])
    found = run_analyzer("head_agreement", trajectory)
    assert found.attrs["note"] == "one head a layer: nothing to compare"
    for name in ("entropy_correlation", "entropy_lag", "focus_agreement", "focus_spread"):
        assert np.isnan(found[name]).all()
    assert draw_analyzer("head_agreement", trajectory).get_supxlabel() == found.attrs["note"]


def test_a_head_that_does_not_move_is_left_out_of_its_layers_mean(heads, run_analyzer) -> None:
    still = np.full_like(bump(0), 0.4)
    trajectory = heads([[bump(400), bump(400), still]], [[bump(300)] * 3])
    found = run_analyzer("head_agreement", trajectory)
    np.testing.assert_allclose(found["entropy_agreement"], 1)
    assert np.isnan(found["entropy_correlation"][0, 0, 2]).all()


def test_draw(rich_trajectory, draw_analyzer, words) -> None:
    shown = words(draw_analyzer("head_agreement", rich_trajectory))
    assert {"correlation of heads", "mean lag [steps]", "layer 0", "layer 1", "entropy", "focus"} <= set(
        shown
    )
