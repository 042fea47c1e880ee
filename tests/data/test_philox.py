"""Random numbers that can be made again."""

import numpy as np
from scipy import stats

from attndyn.data import philox
from attndyn.data.philox import Purpose

PINNED = [1850388817, 2145940466, 1760502602, 1699420660, 800909428]
PINNED_NORMALS = [1.9834852344824654, 0.37215989574108777, -0.19753672366353386]


def test_the_numbers_are_fixed():
    """Pinned: a change of these numbers changes every sampled trajectory."""
    assert philox.uniform(7, Purpose.CONTEXTS, 3, (5,)).tolist() == PINNED
    np.testing.assert_allclose(philox.normals(7, Purpose.INIT, 1, (3,)), PINNED_NORMALS, rtol=1e-14)


def test_streams_differ_by_seed_purpose_step_and_part():
    draws = [
        philox.stream(*key).random_raw(4).tolist()
        for key in [(0, 1, 0), (1, 1, 0), (0, 2, 0), (0, 1, 1), (0, 1, 0, 1)]
    ]
    assert len({tuple(d) for d in draws}) == len(draws)


def test_a_long_draw_does_not_run_into_the_next_step():
    long = philox.stream(0, Purpose.CONTEXTS, 0).random_raw(4000)
    following = philox.stream(0, Purpose.CONTEXTS, 1).random_raw(4000)
    assert not np.intersect1d(long, following).size


def test_odd_sizes_and_prefixes():
    assert philox.uniform(1, Purpose.CONTEXTS, 0, (3, 5)).shape == (3, 5)
    short, longer = (philox.uniform(1, Purpose.CONTEXTS, 0, (n,)) for n in (7, 20))
    assert np.array_equal(short, longer[:7])


def test_normals_are_normal():
    x = philox.normals(3, Purpose.INIT, 0, (20_000,))
    assert stats.kstest(x, "norm").pvalue > 1e-3
    assert np.isfinite(x).all()


def test_permutation():
    order = philox.permutation(3, 5, 1000)
    assert np.array_equal(np.sort(order), np.arange(1000))
    assert not np.array_equal(order, philox.permutation(3, 6, 1000))
    assert np.array_equal(order, philox.permutation(3, 5, 1000))
