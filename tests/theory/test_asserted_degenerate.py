"""Asserted steps at the degenerate point: which derivatives vanish."""

import numpy as np
import pytest

from attndyn.theory.asserted.degenerate import Reduction
from attndyn.theory.bifurcation import SymmetricGroup


@pytest.fixture(scope="module", params=[(0.6, 3, 0.5), (0.7, 4, 0.3)], ids=["d3", "d4"])
def reduction(request):
    return Reduction.of(*request.param, width=2)


def test_point_is_critical_with_four_positive_curvatures_and_no_transverse_gradient(reduction):
    d = int(reduction.setting.d)
    assert np.abs(reduction.gradient(reduction.point)).max() < 1e-15
    values, _ = reduction.range_
    assert len(values) == 2 * d - 2
    assert values.min() > 1e-3
    # the loss on the manifold depends on the products of h and b alone
    assert reduction.tangential.shape[1] == 4
    assert reduction.transverse_hessian() < 1e-15


def test_first_and_second_derivatives(reduction):
    found = reduction.derivatives()
    assert {name for name, value in found.items() if value > 1e-8} == {
        *("g_x xd", "eta d", "eta dd", "eta td", "eta tt", "eta xx"),
    }
    assert found["g_x xd"] > 1e-3


def test_orders_of_the_transverse_gradient(reduction):
    found = reduction.transverse_orders()
    assert {name for name, value in found.items() if value > 1e-9} == {"first odd", "second even"}


def test_new_directions_open_in_proportion_to_the_asymmetry(reduction):
    assert reduction.opening_rate() == pytest.approx(reduction.transverse_rate(), rel=1e-9)


def test_opening_rate_is_the_closed_form_of_the_bifurcation():
    group = SymmetricGroup(p=0.75, lam=0.5, d_vocab=3, d_model=3)
    rate = Reduction.of(0.75, 3, 0.5, 3).opening_rate()
    assert rate == pytest.approx(group.degenerate_point().slope, rel=1e-9)


@pytest.mark.parametrize(("p", "d", "lam"), [(0.6, 3, 0.5), (0.6, 3, 0.55), (0.7, 4, 0.3), (0.5, 5, 0.7)])
def test_tokens_can_part_within_the_manifold_where_the_margin_is_negative(p, d, lam):
    values, _ = Reduction.of(p, d, lam, 2).range_
    margin = SymmetricGroup(p=p, lam=lam, d_vocab=d, d_model=2).margin
    assert np.sum(values < 0) == (d - 2 if margin < 0 else 0)


def test_a_point_off_the_critical_set_is_noticed(reduction):
    moved = Reduction(reduction.setting, 2, reduction.state + 0.01 * np.eye(4)[0])
    assert np.abs(moved.transverse_matrix(0.0)).max() > 1e-4
    assert moved.transverse_hessian() > 1e-4
