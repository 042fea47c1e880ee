"""Principal components of embeddings that move in a known plane."""

from __future__ import annotations

import numpy as np
import pytest

PI = np.array([0.2, 0.5, 0.3])
D_MODEL = 5


@pytest.fixture
def planar() -> np.ndarray:
    """(replica, step, token, model): paths in a plane off the origin, variances 9 and 1."""
    rng = np.random.default_rng(2)
    basis = np.linalg.qr(rng.normal(size=(D_MODEL, 2)))[0]
    coordinates = rng.normal(size=(2, 8, 3, 2))
    flat = coordinates.reshape(2, -1, 2)
    flat -= flat.mean(axis=1, keepdims=True)
    for rows in flat:  # whitened, so that the two variances are exact
        rows[:] = rows @ np.linalg.inv(np.linalg.cholesky(rows.T @ rows)).T * [3, 1]
    return coordinates @ basis.T + 10


@pytest.fixture
def pca(make_trajectory, run_analyzer):
    def analyze(W_0: np.ndarray, **options: int):
        return run_analyzer("pca", make_trajectory(PI, {"W_0": W_0}, np.arange(W_0.shape[1])), **options)

    return analyze


def test_variances_of_planar_paths(pca, planar) -> None:
    found = pca(planar)
    np.testing.assert_allclose(found["explained_variance_ratio"], [[0.9, 0.1, 0]] * 2, atol=1e-12)


def test_scores_give_the_embeddings_back(pca, planar) -> None:
    found = pca(planar, components=2)
    tokens = [int(name[1:]) for name in found["token"].values]
    assert tokens == [1, 2, 0]  # most frequent first
    back = np.einsum("rstc,rcm->rstm", found["scores"], found["component_vector"])
    back += found["mean"].values[:, None, None]
    np.testing.assert_allclose(back, planar[:, :, tokens], atol=1e-12)


def test_signs_do_not_depend_on_those_of_the_data(pca, planar) -> None:
    scores = pca(planar, components=2)["scores"].values.reshape(2, -1, 2)
    largest = np.take_along_axis(scores, np.abs(scores).argmax(axis=1)[:, None], axis=1)
    assert (largest > 0).all()
    mirrored = pca(20 - planar, components=2)["scores"].values.reshape(2, -1, 2)
    largest = np.take_along_axis(mirrored, np.abs(mirrored).argmax(axis=1)[:, None], axis=1)
    assert (largest > 0).all()


def test_replicas_have_bases_of_their_own(pca, planar) -> None:
    alone = pca(planar[1:])
    together = pca(planar)
    np.testing.assert_allclose(together["scores"][1:, ..., :2], alone["scores"][..., :2], atol=1e-12)


def test_not_finite_records_take_no_part(pca, planar) -> None:
    expected = pca(planar[:, :6])["scores"]
    broken = planar.copy()
    broken[:, 6, 0, 0], broken[:, 7] = np.inf, np.nan
    found = pca(broken)["scores"]
    np.testing.assert_allclose(found[:, :6, :, :2], expected[..., :2], atol=1e-12)
    assert np.isnan(found[:, 6:]).all()


def test_a_replica_without_finite_records_and_one_that_never_moves(pca, planar) -> None:
    planar[0] = np.nan
    planar[1] = 3.0
    found = pca(planar)
    assert np.isnan(found["scores"][0]).all()
    np.testing.assert_array_equal(found["scores"][1], np.zeros((8, 3, 3)))
    assert np.isnan(found["explained_variance_ratio"]).all()


def test_components_beyond_the_width_are_absent(pca, planar) -> None:
    found = pca(planar, components=7)
    assert np.isfinite(found["scores"][..., :D_MODEL]).all()
    assert np.isnan(found["scores"][..., D_MODEL:]).all()


def test_single_precision(pca, planar) -> None:
    found = pca(planar.astype(np.float32))
    np.testing.assert_allclose(found["explained_variance_ratio"], [[0.9, 0.1, 0]] * 2, atol=1e-5)


def test_draw(rich_trajectory, draw_analyzer, words) -> None:
    shown = words(draw_analyzer("pca", rich_trajectory))
    assert r"\$word_0^" in shown
    assert any(word.startswith("PC 1 (") for word in shown)


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_sizes_whose_squares_are_beyond_float64(pca, planar, size) -> None:
    found, scaled = pca(planar), pca(planar * size)
    np.testing.assert_allclose(scaled["explained_variance_ratio"], [[0.9, 0.1, 0]] * 2, atol=1e-12)
    np.testing.assert_allclose(scaled["mean"], found["mean"] * size, rtol=1e-12)
    ours, theirs = (each["scores"].sel(component=1) for each in (found, scaled))
    np.testing.assert_allclose(theirs / size, ours, atol=1e-12)


def test_one_replica_that_survived_is_drawn_at_equal_scales(
    planar, make_trajectory, draw_analyzer, words
) -> None:
    planar[0, 3:] = np.nan
    figure = draw_analyzer("pca", make_trajectory(PI, {"W_0": planar}, np.arange(8)))
    assert "replica 1" in words(figure)
    (ax,) = figure.axes
    width, height = np.diff(ax.get_xlim())[0] / ax.bbox.width, np.diff(ax.get_ylim())[0] / ax.bbox.height
    assert width == pytest.approx(height)
    assert {"PC 1 (90.0%)", "PC 2 (10.0%)"} <= set(words(figure))
