"""Rank and alignment of matrices made of known directions."""

from __future__ import annotations

import numpy as np
import pytest

PI = np.array([0.5, 0.3, 0.2])


def weights(d_model: int = 4) -> dict[str, np.ndarray]:
    """Two replicas, three records: W_0 and W_1 condensed as predicted, zero, and two equal directions."""
    w = np.eye(d_model)[1]
    equal = np.zeros((3, d_model))
    equal[0, 0] = equal[1, 1] = 2.0
    W_0 = np.stack([np.outer(PI, w), np.zeros((3, d_model)), equal])
    W_1 = np.stack([np.outer(w, PI - 1 / 3), np.zeros((d_model, 3)), equal.T])
    return {"W_0": np.stack([W_0, -3 * W_0]), "W_1": np.stack([W_1, -3 * W_1])}


def test_share_and_rank(make_trajectory, run_analyzer) -> None:
    found = run_analyzer("condensation", make_trajectory(PI, weights(), [0, 5, 7]))
    for weight in ("W_0", "W_1"):
        np.testing.assert_allclose(found[f"energy_share_{weight}"], [[1, np.nan, 0.5]] * 2, rtol=1e-14)
        np.testing.assert_allclose(found[f"stable_rank_{weight}"], [[1, np.nan, 2]] * 2, rtol=1e-14)


def test_alignment_with_the_predicted_directions(make_trajectory, run_analyzer) -> None:
    found = run_analyzer("condensation", make_trajectory(PI, weights(), [0, 5, 7]))
    for weight in ("W_0", "W_1"):
        np.testing.assert_allclose(found[f"alignment_{weight}"][:, :2], [[1, np.nan]] * 2, rtol=1e-13)


def test_alignment_is_that_of_each_replica(make_trajectory, run_analyzer) -> None:
    other = np.array([0.2, 0.3, 0.5])
    found = run_analyzer("condensation", make_trajectory([PI, other], weights(), [0, 5, 7]))
    expected = PI @ other / (np.linalg.norm(PI) * np.linalg.norm(other))
    np.testing.assert_allclose(found["alignment_W_0"][:, 0], [1, expected], rtol=1e-14)


def test_uniform_pi_predicts_no_direction_for_the_outputs(make_trajectory, run_analyzer) -> None:
    found = run_analyzer("condensation", make_trajectory([0.1 * 10 / 3] * 3, weights(), [0, 5, 7]))
    assert np.isnan(found["alignment_W_1"]).all()


def test_every_weight_by_layer_and_head(rich_trajectory, run_analyzer) -> None:
    found = run_analyzer("condensation", rich_trajectory)
    for weight in ("W_Q", "W_K", "W_O"):
        share = found[f"energy_share_{weight}"]
        assert share.dims == ("replica", "step", "layer", "head")
        assert ((share > 0) & (share <= 1)).all()
        assert f"alignment_{weight}" not in found
    matrix = rich_trajectory["parameters"]["W_O"].values[1, 2, 1, 2]
    expected = np.linalg.norm(matrix, 2) ** 2 / np.linalg.norm(matrix) ** 2
    assert found["energy_share_W_O"].values[1, 2, 1, 2] == pytest.approx(expected, rel=1e-13)


def test_single_precision_and_diverged_records(make_trajectory, run_analyzer) -> None:
    arrays = {name: array.astype(np.float32) for name, array in weights().items()}
    arrays["W_0"][1, 2] = np.nan
    arrays["W_1"][1, 2] = np.inf
    found = run_analyzer("condensation", make_trajectory(PI, arrays, [0, 5, 7]))
    for weight in ("W_0", "W_1"):
        np.testing.assert_allclose(found[f"energy_share_{weight}"][:, 2], [0.5, np.nan], rtol=1e-6)
    assert found["energy_share_W_0"].dtype == np.float64


def test_draw(rich_trajectory, draw_analyzer, words) -> None:
    shown = words(draw_analyzer("condensation", rich_trajectory))
    assert {
        "$W_{0}$",
        "$W_{Q}$",
        "$W_{O}$",
        r"$W_{1}$ with $\pi - 1/d$",
        "step",
        "|cos|",
    } <= set(shown)


def test_every_panel_names_its_own_curves(rich_trajectory, draw_analyzer) -> None:
    figure = draw_analyzer("condensation", rich_trajectory)
    share, alignment = ([text.get_text() for text in ax.get_legend().texts] for ax in figure.axes)
    assert share == ["$W_{0}$", "$W_{1}$", "$W_{Q}$", "$W_{K}$", "$W_{O}$"]
    assert alignment == [r"$W_{0}$ with $\pi$", r"$W_{1}$ with $\pi - 1/d$"]
    assert not figure.legends
