"""Cosine similarities of embeddings and output columns set by hand."""

from __future__ import annotations

import numpy as np
import pytest

PI = np.array([0.2, 0.5, 0.3])


@pytest.fixture
def trajectory(make_trajectory):
    W_0 = np.zeros((1, 2, 3, 4))
    W_0[0, 0] = [[2, 0, 0, 0], [3, 3, 0, 0], [-5, 0, 0, 0]]
    W_0[0, 1] = [[1, 0, 0, 0], [0, 0, 0, 0], [np.nan, 1, 0, 0]]
    return make_trajectory(PI, {"W_0": W_0, "W_1": 7 * W_0.swapaxes(-1, -2)}, [0, 4], ["x", "y", "z"])


@pytest.mark.parametrize(
    ("name", "dims"),
    [("embedding_cosine", ("token", "other_token")), ("output_cosine", ("next_token", "other_next_token"))],
)
def test_cosines(trajectory, run_analyzer, name: str, dims: tuple[str, str]) -> None:
    cosine = run_analyzer("cosine", trajectory)[name]
    assert cosine.dims == ("replica", "step", *dims)
    root = np.sqrt(0.5)
    order = {dim: ["x", "y", "z"] for dim in dims}
    expected = [[1, root, -1], [root, 1, -root], [-1, -root, 1]]
    np.testing.assert_allclose(cosine.isel(replica=0, step=0).sel(order), expected, rtol=1e-14)


def test_zero_and_broken_vectors_are_absent(trajectory, run_analyzer) -> None:
    cosine = run_analyzer("cosine", trajectory)["embedding_cosine"].isel(replica=0, step=1)
    assert float(cosine.sel(token="x", other_token="x")) == 1
    assert np.isfinite(cosine).sum() == 1


def test_the_most_frequent_tokens_are_compared(trajectory, run_analyzer) -> None:
    found = run_analyzer("cosine", trajectory, tokens=2)
    for dim in ("token", "other_token", "next_token", "other_next_token"):
        assert found[dim].values.tolist() == ["y", "z"]
    assert found["embedding_cosine"].values[0, 0, 0, 1] == pytest.approx(-np.sqrt(0.5))


def test_draw(rich_trajectory, draw_analyzer, words) -> None:
    shown = words(draw_analyzer("cosine", rich_trajectory))
    assert {"$W_{0}$ token", "$W_{1}$ token", "cosine", "step 0", "20k", r"\$word_…"} <= set(shown)


def test_draw_after_divergence(trajectory, draw_analyzer, words) -> None:
    assert {"x", "y", "z", "step 0", "4"} <= set(words(draw_analyzer("cosine", trajectory)))


def test_a_replica_that_survived_is_drawn(make_trajectory, draw_analyzer, words) -> None:
    W_0 = np.tile(np.eye(3, 4), (2, 2, 1, 1))
    W_0[0, 1] = np.nan
    given = make_trajectory(PI, {"W_0": W_0, "W_1": W_0.swapaxes(-1, -2)}, [0, 4])
    figure = draw_analyzer("cosine", given)
    assert figure.get_suptitle() == "replica 1"
    assert np.isfinite(figure.axes[1].images[0].get_array()).all()
