"""Spectra at the critical points: rates, multiplicities, directions, and a reason for every zero."""

import numpy as np
import pytest

from attndyn.theory import critical, spectrum, symmetry
from attndyn.theory.closed_forms import coupling
from attndyn.theory.formulas import evaluate
from attndyn.theory.problem import Problem
from attndyn.theory.spectrum import overlap

PI = np.array([0.5, 0.3, 0.15, 0.05])
#: tokens and width
D, M = 4, 5
DIRECTION = np.arange(1.0, M + 1)


def sticky(pi, lam, m, **model):
    return Problem.one_layer(pi, lam * np.eye(len(pi)) + (1 - lam) * pi, m, **model)


def test_origin():
    """±σ, each m times: (π uᵀ, u (π − 1/d)ᵀ) for every u; every other mode is neutral."""
    problem = sticky(PI, 0.4, M)
    found = spectrum.full(problem, critical.origin(problem).flat)
    kinds = spectrum.classify(found)
    assert (kinds.unstable, kinds.contracting, kinds.unexplained) == (M, M, 0)
    np.testing.assert_allclose(found.rates[:M], evaluate("condensation_rate", problem.setting), rtol=1e-12)
    rows, share = found.direction("W_0", found.unstable, "row")
    assert overlap(rows, PI) > 1 - 1e-12
    assert share > 1 - 1e-12
    columns, share = found.direction("W_1", found.unstable, "column")
    assert overlap(columns, PI - 1 / D) > 1 - 1e-12
    assert share > 1 - 1e-12
    assert found.direction("W_0", found.unstable, "column")[1] == pytest.approx(1 / M), "u is free"
    assert found.direction("W_Q", found.unstable, "row")[1] == 0


CHAINS = [
    (np.array([0.6, 0.3, 0.1]), 0.5, 7, {}),
    (PI, 0.4, 5, {}),
    (np.array([0.4, 0.25, 0.2, 0.1, 0.05]), 0.8, 3, {"score_scale": 1.0}),
    (PI, 0.4, 5, {"value_projection": True}),
]


@pytest.mark.parametrize(("pi", "lam", "m", "model"), CHAINS)
def test_first_critical_point(pi, lam, m, model):
    """Attention: ±κ, each m times, and nothing else; outer: d − 1 contracting, no mode grows."""
    d, problem = len(pi), sticky(pi, lam, m, **model)
    point = critical.turned(critical.first(problem), np.arange(1.0, m + 1))
    found = spectrum.full(problem, point.flat)
    kinds = spectrum.classify(found)
    assert (kinds.unstable, kinds.contracting) == (m, m + d - 1)
    assert kinds.neutral == problem.size - 2 * m - d + 1
    assert kinds.unexplained == 0
    np.testing.assert_allclose(found.rates[:m], evaluate("focus_rate", problem.setting), rtol=1e-8)
    for name in ("W_Q", "W_K"):
        rows, share = found.direction(name, found.unstable, "row")
        assert overlap(rows, np.arange(1.0, m + 1)) > 0.9999
        assert share > 0.9999
        assert found.direction(name, found.unstable, "column")[1] == pytest.approx(1 / m), "u is free"
    parts = problem.unpack(found.modes[found.unstable])
    np.testing.assert_allclose(parts["W_Q"], parts["W_K"], atol=1e-9)
    assert max(np.abs(parts[name]).max() for name in ("W_0", "W_1")) < 1e-12


def test_blocks_do_not_mix_at_the_first_critical_point_and_do_elsewhere():
    problem = sticky(PI, 0.4, M)
    point = critical.first(problem)
    sizes = spectrum.blocks(problem, point.flat)
    assert sizes["outer", "attention"] == 0
    assert min(sizes["outer", "outer"], sizes["attention", "attention"]) > 1e-3
    moved = point.flat + 1e-2 * np.random.default_rng(0).normal(size=problem.size)
    assert spectrum.blocks(problem, moved)["outer", "attention"] > 1e-5


def test_symmetries_account_for_the_neutral_modes_of_the_first_critical_point():
    problem = sticky(PI, 0.4, M)
    kinds = spectrum.classify(spectrum.full(problem, critical.first(problem).flat))
    # W_0 and W_1 are of rank one: of the maps of the model space only what acts on ŵ moves the point
    assert kinds.reasons["orthogonal"] == M - 1
    assert kinds.reasons["scaling"] == 1
    assert kinds.reasons["linear"] == M - 1
    assert kinds.reasons["shift"] == M
    assert sum(kinds.reasons.values()) == kinds.neutral


@pytest.mark.parametrize("model", [{}, {"residual": True}, {"value_projection": True}])
@pytest.mark.parametrize("reason", ["orthogonal", "scaling", "linear", "shift", "unseen"])
def test_the_loss_does_not_change_along_a_symmetry(model, reason):
    """Also where there is no critical point: the gradient has no part along it; but elsewhere it has."""
    problem = sticky(PI, 0.4, 3, **model)
    rng = np.random.default_rng(4)
    flat = 0.5 * rng.normal(size=problem.size)
    directions = symmetry.basis(symmetry.spaces(problem, flat)[reason])
    gradient = problem.gradient(flat)
    assert np.abs(directions @ gradient).max(initial=0) < 1e-14
    assert len(directions) or reason == "unseen", "nothing is hidden from full-rank factors"
    assert abs(rng.normal(size=problem.size) @ gradient) > 1e-3


def test_with_value_projection_the_origin_has_no_rates_at_all():
    """Three factors that are all small: the first rate is of second order."""
    problem = sticky(PI, 0.4, M, value_projection=True)
    kinds = spectrum.classify(spectrum.full(problem, critical.origin(problem).flat))
    assert (kinds.unstable, kinds.contracting, kinds.unexplained) == (0, 0, 0)
    assert kinds.neutral == problem.size


def residual_growth(transition):
    """Minus the gradient of the residual model at the origin in W_0 W_1."""
    return np.outer(PI, PI - 1 / D) + PI[:, None] * (transition - 1 / D)


@pytest.mark.parametrize("value_projection", [False, True])
def test_residual_model_at_the_origin(value_projection):
    """d − 1 rates, each m times, of which the largest leads; W_V adds nothing at first order."""
    problem = sticky(PI, 0.4, M, residual=True, value_projection=value_projection)
    found = spectrum.full(problem, critical.origin(problem).flat)
    growth = residual_growth(problem.transition)
    if value_projection:
        growth = growth - np.outer(PI, PI - 1 / D)
    sizes = np.linalg.svd(growth)[1]
    assert spectrum.classify(found).unstable == M * (D - 1)
    np.testing.assert_allclose(found.rates[: M * (D - 1)], np.repeat(sizes[:-1], M), rtol=1e-12)
    assert sizes[-1] < 1e-15


def test_residual_model_at_its_first_critical_point():
    """Attention has no linear growth there: new directions of W_0 and W_1 come first."""
    problem = sticky(PI, 0.4, M, residual=True)
    point = critical.first(problem)
    assert spectrum.blocks(problem, point.flat)["attention", "attention"] < 1e-14
    found = spectrum.full(problem, point.flat)
    kinds = spectrum.classify(found)
    sizes = np.linalg.svd(critical.transverse(point))[1]
    assert np.sum(sizes > 1e-12) == D - 2
    assert kinds.unstable == (M - 1) * (D - 2)
    np.testing.assert_allclose(found.rates[: kinds.unstable], np.repeat(sizes[: D - 2], M - 1), rtol=1e-10)
    # far faster than pure attention's focus
    pure = sticky(PI, 0.4, M)
    assert found.rates[0] > 10 * evaluate("focus_rate", pure.setting)
    assert kinds.unexplained == 0


@pytest.mark.parametrize(("d", "m"), [(3, 4), (4, 3), (6, 2)])
def test_degenerate_point(d, m):
    """2 (d − 1) contracting modes, none that grows, and one family of such points besides the symmetries."""
    pi = np.full(d, 0.4 / (d - 1))
    pi[0] = 0.6
    problem = sticky(pi, 0.5, m)
    found = spectrum.full(problem, critical.degenerate(problem).flat)
    kinds = spectrum.classify(found)
    assert (kinds.unstable, kinds.contracting, kinds.unexplained) == (0, 2 * (d - 1), 1)


@pytest.mark.parametrize("delta", [1e-4, 1e-2])
def test_beyond_the_degenerate_point_new_directions_grow(delta):
    def pi(delta):
        return np.array([0.6, 0.2 + delta, 0.2 - delta])

    point = critical.degenerate(sticky(pi(0), 0.5, M))
    (point,) = critical.continuation(point, [sticky(pi(delta), 0.5, M)])
    found = spectrum.full(point.problem, point.flat)
    kinds = spectrum.classify(found)
    # within the rank-one manifold there is no rate that δ could have made other than zero
    assert (kinds.unstable, kinds.contracting, kinds.unexplained) == (M - 1, 4 + M - 1, 1)
    size = np.linalg.svd(critical.transverse(point))[1][0]
    np.testing.assert_allclose(found.rates[: M - 1], size, rtol=1e-9)


def focusing(problem):
    """The predicted unstable directions at θ_c¹, (ŵ uᵀ, ŵ uᵀ)/√2 for an orthonormal set of u, `(m, P)`."""
    m = problem.setting.d_model
    squares = np.zeros((m, m, m))
    squares[:, 0] = np.eye(m) / np.sqrt(2)
    return problem.pack({"W_Q": squares, "W_K": squares})


@pytest.mark.parametrize("seed", range(6))
def test_random_settings_have_the_predicted_unstable_directions_and_no_others(seed):
    rng = np.random.default_rng(seed)
    d, m = rng.integers(3, 9), int(2 ** rng.uniform(3, 6))
    problem = sticky(np.sort(rng.dirichlet(2 * np.ones(d)))[::-1], rng.uniform(0.1, 0.9), m)
    point, kappa = critical.first(problem), evaluate("focus_rate", problem.setting)
    predicted = focusing(problem)
    np.testing.assert_allclose(-problem.hvp(point.flat, predicted), kappa * predicted, rtol=0, atol=1e-12)
    found = spectrum.leading(problem, point.flat, 2)
    np.testing.assert_allclose(found.rates, kappa, rtol=1e-8)
    assert np.linalg.norm(found.modes @ predicted.T, axis=1).min() > 0.9999
    besides = spectrum.leading(problem, point.flat, 1, without=predicted)
    assert abs(besides.rates[0]) < 1e-12


def test_leading_modes_of_a_large_problem():
    problem = sticky(np.array([0.65, *[0.05] * 7]), 0.5, 32)
    point = critical.first(problem)
    found = spectrum.leading(problem, point.flat, 4)
    assert not found.complete
    np.testing.assert_allclose(found.rates, evaluate("focus_rate", problem.setting), rtol=1e-8)
    rows, share = found.direction("W_Q", found.unstable, "row")
    assert overlap(rows, np.eye(32)[0]) > 0.9999
    assert share > 0.9999
    with pytest.raises(ValueError, match="needs all modes"):
        spectrum.classify(found)
    with pytest.raises(ValueError, match="allowed: 1 to"):
        spectrum.leading(problem, point.flat, problem.size)


def test_a_chain_that_repels_focuses_the_other_way():
    """κ < 0: W_Q and W_K grow with opposite signs, at |κ|."""
    transition = np.array([[0.2, 0.5, 0.3], [0.75, 0.15, 0.1], [0.5, 0.3, 0.2]])
    values, vectors = np.linalg.eig(transition.T)
    pi = np.real(vectors[:, np.argmax(np.real(values))])
    problem = Problem.one_layer(pi / pi.sum(), transition, 4)
    assert coupling(problem.pi, transition) < 0
    found = spectrum.full(problem, critical.first(problem).flat)
    np.testing.assert_allclose(found.rates[:4], evaluate("focus_rate", problem.setting), rtol=1e-8)
    parts = problem.unpack(found.modes[found.unstable])
    np.testing.assert_allclose(parts["W_Q"], -parts["W_K"], atol=1e-9)


def test_the_second_direction_opens_later():
    """With d = 4, a token above and one below the group's mean: one rate of order δ, the next of order δ³."""

    def pi(delta):
        return np.array([0.6, 0.4 / 3 + delta, 0.4 / 3 - delta, 0.4 / 3])

    deltas = np.array([1e-4, 1e-3])
    point = critical.degenerate(sticky(pi(0), 0.5, 3))
    points = list(critical.continuation(point, [sticky(pi(delta), 0.5, 3) for delta in deltas]))
    sizes = np.array([np.linalg.svd(critical.transverse(p))[1] for p in points])
    orders = np.log(sizes[1] / sizes[0])[:2] / np.log(deltas[1] / deltas[0])
    np.testing.assert_allclose(orders, [1, 3], atol=0.02)
    kinds = [spectrum.classify(spectrum.full(p.problem, p.flat)) for p in points]
    assert [k.unexplained for k in kinds] == [1, 1], "every neutral mode is counted once"
