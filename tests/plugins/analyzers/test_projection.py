"""Orthogonal parts planted beside a known direction."""

from __future__ import annotations

import numpy as np
import pytest

PI = np.array([0.5, 0.3, 0.2])
STEPS = [0, 10, 20, 30]


@pytest.fixture
def arrays() -> dict[str, np.ndarray]:
    """W = size · a ŵᵀ + orthogonal · b vᵀ, all unit vectors; in the last record the latter leads."""
    rng = np.random.default_rng(5)
    w, v = np.linalg.qr(rng.normal(size=(6, 2)))[0].T

    def path(rows: int) -> np.ndarray:
        a, b = np.linalg.qr(rng.normal(size=(rows, 2)))[0].T
        along, part = np.outer(a, w), np.outer(b, v)
        sizes = [(0.1, 0.1), (2, 1e-9), (3, 1), (1, 4)]
        return np.stack([size * along + orthogonal * part for size, orthogonal in sizes])

    def headed(matrices: np.ndarray) -> np.ndarray:
        return matrices[:, None, None]

    single = {
        "W_0": path(3),
        "W_1": path(3).swapaxes(-1, -2),
        "W_Q": headed(path(5).swapaxes(-1, -2)),
        "W_O": headed(path(5)),
    }
    return {name: np.stack([path, path]) for name, path in single.items()} | {"w": w}


@pytest.fixture
def found(arrays, make_trajectory, run_analyzer):
    return run_analyzer("projection", make_trajectory(PI, arrays, STEPS))


@pytest.mark.parametrize("weight", ["W_0", "W_1", "W_Q", "W_O"])
def test_planted_parts_on_either_side(found, weight: str) -> None:
    expected = np.array([[0.1, 1e-9, 1, 4]] * 2)
    orthogonal = found[f"orthogonal_{weight}"]
    assert orthogonal.dims[:2] == ("replica", "step")
    np.testing.assert_allclose(orthogonal.values.reshape(2, 4), expected, rtol=1e-5)
    whole = [np.hypot(0.1, 0.1), 2, np.sqrt(10), np.sqrt(17)]
    relative = found[f"orthogonal_relative_{weight}"].values.reshape(2, 4)
    np.testing.assert_allclose(relative, expected / whole, rtol=1e-5)


@pytest.mark.parametrize("weight", ["W_0", "W_1", "W_Q", "W_O"])
def test_residual_is_what_its_own_direction_leaves(found, weight: str) -> None:
    """In the last record the part leads: the residual is then the rest, and the orthogonal part is not."""
    residual = found[f"residual_{weight}"].values.reshape(2, 4)
    np.testing.assert_allclose(residual, [[0.1, 1e-9, 1, 1]] * 2, rtol=1e-5)


def test_reference_is_the_direction_at_condensation(found, arrays) -> None:
    assert found["reference_step"].values.tolist() == [10, 10]
    np.testing.assert_allclose(np.abs(found["direction"].values @ arrays["w"]), [1, 1], rtol=1e-14)


def test_a_later_return_to_rank_one_is_not_the_reference(arrays, make_trajectory, run_analyzer) -> None:
    W_0 = arrays["W_0"]
    W_0[:, 1] += 1e-3 * W_0[:, 3]  # condensed, but less so than the last record
    W_0[:, 3] = np.outer(PI, np.eye(6)[0])
    found = run_analyzer("projection", make_trajectory(PI, arrays, STEPS))
    assert found["reference_step"].values.tolist() == [10, 10]


def test_without_condensation_the_closest_record_is_the_reference(
    arrays, make_trajectory, run_analyzer
) -> None:
    arrays["W_0"][:, 1] = arrays["W_0"][:, 0]
    arrays["W_0"][:, 3] = arrays["W_0"][:, 0]
    found = run_analyzer("projection", make_trajectory(PI, arrays, STEPS))
    assert found["reference_step"].values.tolist() == [20, 20]  # energy share 0.9


def test_divergence_and_zero(arrays, make_trajectory, run_analyzer) -> None:
    arrays["W_0"][0, 3] = np.inf
    arrays["W_0"][1] = np.nan
    arrays["W_Q"][0, 0] = 0
    found = run_analyzer("projection", make_trajectory(PI, arrays, STEPS))
    np.testing.assert_allclose(found["orthogonal_W_0"][0], [0.1, 1e-9, 1, np.nan], rtol=1e-5)
    assert np.isnan(found["orthogonal_W_1"][1]).all()  # there is no direction to compare with
    assert np.isfinite(found["residual_W_1"][1]).all()
    assert float(found["orthogonal_W_Q"][0, 0].squeeze()) == 0
    assert np.isnan(found["orthogonal_relative_W_Q"][0, 0]).all()


def test_draw(rich_trajectory, draw_analyzer, words) -> None:
    figure = draw_analyzer("projection", rich_trajectory)
    assert {"$W_{0}$", "$W_{O}$", "step", "outside its own leading direction"} <= set(words(figure))
    assert all(ax.get_yscale() == "log" for ax in figure.axes)
