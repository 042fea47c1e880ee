"""Singular values and directions of stacks, against matrices made of known ones."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from attndyn.analysis.spectra import abs_cosine, energy_share, spectrum, weight_matrices


def planted(
    values: list[float], rows: int = 5, columns: int = 7
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A matrix with the given singular values, and its leading left and right vectors."""
    rng = np.random.default_rng(3)
    left = np.linalg.qr(rng.normal(size=(rows, rows)))[0][:, : len(values)]
    right = np.linalg.qr(rng.normal(size=(columns, columns)))[0][:, : len(values)]
    return left * values @ right.T, left[:, 0], right[:, 0]


def test_spectrum_of_planted_matrix() -> None:
    matrix, left, right = planted([3.0, 2.0, 0.5])
    found = spectrum(np.stack([matrix, 2 * matrix])[:, None])
    np.testing.assert_allclose(found.values[:, 0], np.outer([1, 2], [3, 2, 0.5, 0, 0]), atol=1e-14)
    np.testing.assert_allclose(abs_cosine(found.left, left), np.ones((2, 1)), rtol=1e-14)
    np.testing.assert_allclose(abs_cosine(found.right, right), np.ones((2, 1)), rtol=1e-14)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_not_finite_matrix_is_nan_and_spoils_no_other(bad: float) -> None:
    matrix, _, _ = planted([3.0, 2.0])
    broken = matrix.copy()
    broken[0, 0] = bad
    found = spectrum(np.stack([broken, matrix]))
    assert np.isnan(found.values[0]).all()
    assert np.isnan(found.left[0]).all()
    np.testing.assert_allclose(found.values[1, :2], [3, 2])


@pytest.mark.parametrize("scale", [1.0, 1e-200, 1e200])
def test_energy_share_at_every_scale(scale: float) -> None:
    assert energy_share(scale * np.array([2.0, 1.0, 1.0])) == pytest.approx(4 / 6, rel=1e-14)


def test_a_zero_matrix_has_no_direction() -> None:
    found = spectrum(np.zeros((3, 4)))
    np.testing.assert_array_equal(found.values, np.zeros(3))
    assert np.isnan(found.left).all()
    assert np.isnan(found.right).all()
    assert np.isnan(energy_share(found.values))


def test_abs_cosine_with_zero_vector_is_absent() -> None:
    np.testing.assert_array_equal(abs_cosine(np.eye(2), np.array([[-1.0, 0], [0, 0]])), [1, np.nan])


def test_weight_matrices_are_told_by_their_dimensions() -> None:
    parameters = xr.Dataset(
        {
            "W": (("step", "token", "replica", "model"), np.zeros((2, 3, 4, 5))),
            "bias": (("replica", "step", "model"), np.zeros((4, 2, 5))),
            "fixed": (("replica", "token", "model"), np.zeros((4, 3, 5))),
        }
    )
    found = weight_matrices(parameters)
    assert list(found) == ["W"]
    assert found["W"].dims == ("replica", "step", "token", "model")
