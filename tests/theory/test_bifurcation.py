"""The degenerate critical point: where it is, what its kernel is and how fast it opens, against the model."""

import numpy as np
import pytest

from attndyn.data.stationary import Geometric
from attndyn.theory.bifurcation import SymmetricGroup, transverse_rate
from attndyn.theory.exponents import fit_exponent
from attndyn.theory.formulas import evaluate
from attndyn.theory.manifold import Manifold
from attndyn.theory.problem import Problem
from attndyn.theory.setting import OutOfReach, Setting

# (p, λ, d, m): d = 3 and beyond, near the edge of stability, and past it
GROUPS = [
    (0.75, 0.5, 3, 8),
    (0.6, 0.5, 3, 32),
    (0.6, 0.7, 3, 5),
    (0.6, 0.3, 4, 8),
    (0.75, 0.5, 5, 6),
    (0.5, 0.4, 8, 4),
]
POINTS = {group: SymmetricGroup(*group).degenerate_point() for group in GROUPS}
DELTAS = np.logspace(-5, -2, 13)


@pytest.fixture(params=GROUPS, ids=str)
def point(request):
    return POINTS[request.param]


def orthonormal(m, n):
    """n orthonormal vectors of length m, as rows."""
    return np.linalg.qr(np.random.default_rng(5).normal(size=(m, m)))[0][:n]


def whole(manifold, theta):
    """The model itself at a point: its problem, its flat parameters, and w and w′."""
    problem = Problem.of_setting(manifold.setting)
    w, new, u = orthonormal(manifold.setting.d_model, 3)
    return problem, problem.pack(manifold.lift(theta, w, u)), w, new


def test_it_is_critical_in_the_whole_model_and_g_vanishes(point):
    problem, flat, *_ = whole(point.manifold, point.theta)
    assert point.residual <= 1e-12
    assert np.abs(problem.gradient(flat)).max() <= 1e-12
    assert np.abs(point.manifold.transverse(point.theta)).max() <= 1e-12
    assert 0.5 < point.theta[-1] < 3  # attention has grown to a finite size and not saturated


def test_it_predicts_token_0_as_well_as_the_query_allows(point):
    parts, d = point.manifold.parts(point.theta), point.group.d_vocab
    b = point.theta[d : 2 * d]
    np.testing.assert_allclose(parts.predicted[:2, 0], point.group.token_0, atol=1e-13)
    np.testing.assert_allclose(parts.read[:2] * (b[0] - b[1]), point.group.log_odds, atol=1e-12)


def test_every_transverse_direction_is_neutral_in_the_whole_model(point):
    problem, flat, _, new = whole(point.manifold, point.theta)
    draw = np.random.default_rng(1).normal
    d, m = point.group.d_vocab, point.group.d_model
    # a new direction of the embedding space for all four, and W_Q, W_K on any other than u
    x, y = np.outer(draw(size=d), new), np.outer(new, draw(size=d))
    v = problem.pack(
        {"W_0": x, "W_1": y, "W_Q": np.outer(new, draw(size=m)), "W_K": np.outer(new, draw(size=m))}
    )
    assert np.abs(problem.hvp(flat, v)).max() < 1e-13


def test_g_is_the_linear_law_of_new_directions(point):
    continued = point.continued([1e-4, 1e-3])[-1]
    problem, flat, _, new = whole(continued.manifold, continued.theta)
    x, y = np.random.default_rng(2).normal(size=(2, point.group.d_vocab))
    moved = problem.unpack(
        -problem.hvp(flat, problem.pack({"W_0": np.outer(x, new), "W_1": np.outer(new, y)}))
    )
    g = continued.manifold.transverse(continued.theta)
    np.testing.assert_allclose(moved["W_0"], np.outer(g @ y, new), atol=1e-13)
    np.testing.assert_allclose(moved["W_1"], np.outer(new, g.T @ x), atol=1e-13)
    assert max(np.abs(moved[name]).max() for name in ("W_Q", "W_K")) < 1e-13


def test_hessian_and_gradient_are_derivatives_of_the_loss(point):
    manifold = point.manifold
    theta = point.theta + 0.1 * np.random.default_rng(0).normal(size=len(point.theta))
    units = 1e-5 * np.eye(len(theta))
    slopes = [(manifold.loss(theta + e) - manifold.loss(theta - e)) / 2e-5 for e in units]
    np.testing.assert_allclose(manifold.gradient(theta), slopes, atol=1e-9)
    curves = [(manifold.gradient(theta + e) - manifold.gradient(theta - e)) / 2e-5 for e in units]
    np.testing.assert_allclose(manifold.hessian(theta), curves, atol=1e-8)


def test_kernel_and_block_are_those_of_the_hessian(point):
    hessian, d = point.manifold.hessian(point.theta), point.group.d_vocab
    assert np.abs(point.kernel @ hessian).max() < 1e-14
    assert np.linalg.matrix_rank(point.kernel) == 3
    assert (np.abs(np.linalg.eigvalsh(hessian)) < 1e-12).sum() == 3
    parting = np.r_[0, 1, -1, np.zeros(d - 3)] / np.sqrt(2)
    basis = np.stack([np.r_[parting, 0 * parting, 0], np.r_[0 * parting, parting, 0]])
    np.testing.assert_allclose(basis @ hessian @ basis.T, point.block, atol=1e-14)


def test_the_margin_says_whether_the_group_parts_within_the_manifold(point):
    assert (point.group.margin > 0) == (point.manifold.rates(point.theta)[0] < 1e-12)
    assert (point.group.margin > 0) == (np.linalg.det(point.block) > 0)


def test_slope_and_left_direction_are_those_of_g(point):
    [near] = point.continued([1e-6])
    g = near.manifold.transverse(near.theta) / near.delta
    predicted = np.outer(point.response.left, point.group.shifts)
    np.testing.assert_allclose(g, predicted, atol=1e-3 * point.slope)
    assert near.transverse[0] / near.delta == pytest.approx(point.slope, rel=1e-5)
    a = point.theta[: point.group.d_vocab]
    assert abs(point.response.left @ a) < 1e-12


@pytest.mark.parametrize("d", [3, 4, 5, 6, 7, 8])
def test_exponents(d):
    continued = SymmetricGroup(0.75, 0.5, d, 32).degenerate_point().continued(DELTAS)
    rates = np.array([point.transverse for point in continued])
    leading = fit_exponent(DELTAS, rates[:, 0])
    assert 0.98 < leading.low < leading.value < leading.high < 1.02
    # along the manifold's neutral directions nothing moves at any δ
    assert max(point.tangential for point in continued) < 1e-14
    if d == 3:
        assert rates[:, 1].max() < 1e-14
    else:
        assert fit_exponent(DELTAS, rates[:, 1]).low > 2.9


def test_near_the_edge_of_stability_the_linear_range_is_short():
    point = POINTS[0.6, 0.5, 3, 32]
    assert 0 < point.group.margin < 0.03
    rates = [p.transverse[0] for p in point.continued(DELTAS)]
    assert fit_exponent(DELTAS[:5], np.array(rates[:5])).value == pytest.approx(1, abs=1e-3)
    assert fit_exponent(DELTAS, np.array(rates)).value < 0.95


def reduced(point, amplitude):
    """The loss at ξ = η = amplitude in the direction that opens, stationary in the group's a and b."""
    problem, flat, w, new = whole(point.manifold, point.theta)
    left, shifts = point.response.left, point.group.shifts / np.linalg.norm(point.group.shifts)
    opened = {"W_0": np.outer(left / np.linalg.norm(left), new), "W_1": np.outer(new, shifts)}
    basis = np.stack([problem.pack({"W_0": np.outer(shifts, w)}), problem.pack({"W_1": np.outer(w, shifts)})])
    flat = flat + amplitude * problem.pack(opened)
    for _ in range(20):
        curvature = np.stack([problem.hvp(flat, v) for v in basis]) @ basis.T
        flat = flat - np.linalg.solve(curvature, basis @ problem.gradient(flat)) @ basis
    assert np.abs(basis @ problem.gradient(flat)).max() < 1e-14
    return problem.loss(flat)


@pytest.mark.parametrize("group", [(0.75, 0.5, 3, 8), (0.6, 0.7, 3, 5), (0.75, 0.5, 5, 6)], ids=str)
def test_quartic_of_the_reduced_potential(group):
    point = POINTS[group]
    at_rest = point.manifold.loss(point.theta)
    q = [(reduced(point, r) - at_rest) / r**4 for r in (0.05, 0.1)]
    # the next order is r²: one step of Richardson's extrapolation removes it
    assert (4 * q[0] - q[1]) / 3 == pytest.approx(point.quartic, rel=2e-3)


def test_transverse_rate_of_any_distribution():
    group = SymmetricGroup(0.75, 0.5, 4, 32)
    assert transverse_rate(group.setting().pi, 0.5, 32) < 1e-10
    near = transverse_rate(group.setting(1e-3).pi, 0.5, 32)
    assert near == pytest.approx(1e-3 * group.degenerate_point().slope, rel=2e-3)
    pi = Geometric(kind="geometric", d_vocab=4, ratio=0.25).vector()
    assert transverse_rate(pi, 0.5, 32) > 0.02


@pytest.mark.parametrize(
    ("group", "word"),
    [((0.3, 0.5, 3, 8), "frequent"), ((0.6, 0.5, 2, 8), "two tokens"), ((0.6, 0, 3, 8), "lam")],
)
def test_no_group(group, word):
    with pytest.raises(OutOfReach, match=word):
        SymmetricGroup(*group)


def test_out_of_reach(monkeypatch):
    setting = SymmetricGroup(0.6, 0.5, 3, 8).setting()
    with pytest.raises(OutOfReach, match="pure attention"):
        Manifold(Setting(setting.pi, setting.transition, 0.5, 8, 1.0, None, residual=True))
    independent = Setting.sticky(setting.pi, 0.0, 8)
    with pytest.raises(OutOfReach, match="does not grow"):
        Manifold(independent).descend()
    monkeypatch.setattr(Manifold, "hessian", lambda self, theta: np.eye(len(theta)))
    with pytest.raises(OutOfReach, match="no critical point"):
        Manifold(setting).polish(Manifold(setting).plateau(1.0))


@pytest.mark.parametrize(("p", "lam", "d"), [(0.6, 0.7, 3), (0.75, 0.9, 4)])
def test_the_flow_does_not_end_at_a_point_that_it_leaves(p, lam, d):
    """With a negative margin the least asymmetry parts the group within the manifold, at whatever δ."""
    group = SymmetricGroup(p, lam, d, 8)
    assert group.margin < 0
    rates = [evaluate("opening_rate", group.setting(delta)) for delta in (1e-10, 1e-6)]
    assert rates[0] == pytest.approx(rates[1], rel=1e-3)
    with pytest.raises(OutOfReach, match="which way is not determined"):
        evaluate("opening_rate", group.setting(0.0))
    with pytest.raises(OutOfReach, match="G = 0 there"):
        evaluate("opening_rate", SymmetricGroup(0.75, 0.5, 3, 8).setting(0.0))
