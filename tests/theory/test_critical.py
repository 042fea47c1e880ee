"""Critical points: where they are, how exactly, and what the solver does where there is none."""

import numpy as np
import pytest

from attndyn.theory import critical
from attndyn.theory.closed_forms import entropy
from attndyn.theory.critical import NoCriticalPoint
from attndyn.theory.formulas import evaluate
from attndyn.theory.problem import Problem
from attndyn.theory.setting import OutOfReach

PI = np.array([0.5, 0.3, 0.15, 0.05])


def sticky(pi, lam, m, **model):
    return Problem.one_layer(pi, lam * np.eye(len(pi)) + (1 - lam) * pi, m, **model)


def symmetric(p, d, delta=0.0):
    """π of a symmetric group of d − 1 tokens beside one of probability p; two of the group pulled apart."""
    pi = np.full(d, (1 - p) / (d - 1))
    pi[:3] = p, pi[1] + delta, pi[2] - delta
    return pi


def lumped_loss(pi, lam):
    """The best loss of a model that cannot tell the tokens of the group apart."""
    others = 1 - pi[0]
    stay = lam + (1 - lam) * pi[0], lam + (1 - lam) * others
    entropies = [entropy(np.array([stay[0], 1 - stay[0]])), entropy(np.array([1 - stay[1], stay[1]]))]
    lumped = pi[0] * entropies[0] + others * entropies[1]
    in_group = pi[0] * (1 - stay[0]) + others * stay[1]
    return lumped + in_group * np.log(len(pi) - 1)


MODELS = [
    {},
    {"value_projection": True},
    {"residual": True},
    {"residual": True, "value_projection": True},
    {"score_scale": 1.0},
]


@pytest.mark.parametrize("model", MODELS)
def test_the_first_two_critical_points_of_every_model(model):
    problem = sticky(PI, 0.4, 5, **model)
    start, point = critical.origin(problem), critical.first(problem)
    assert start.residual == 0
    assert start.loss == pytest.approx(np.log(4), rel=1e-15)
    assert point.residual < 1e-12
    assert np.linalg.norm(problem.gradient(point.flat)) == point.residual
    assert point.loss < start.loss - 0.1
    sizes = [np.linalg.norm(point.matrices[name]) for name in ("W_0", "W_1")]
    if "residual" not in model:
        assert point.loss == pytest.approx(entropy(PI), rel=1e-14)
        setting = problem.setting
        expected = [evaluate("plateau_row_norm", setting, token) for token in range(4)]
        np.testing.assert_allclose(np.linalg.norm(point.matrices["W_0"], axis=1), expected, rtol=1e-13)
        assert point.iterations == 0, "the closed form is the point"
        assert sizes[0] == pytest.approx(sizes[1], rel=1e-13)
    else:
        assert point.loss < entropy(PI) - 0.05, "the query itself is seen, attention or not"


def test_any_chain_has_the_first_critical_point():
    transition = np.random.default_rng(1).dirichlet(np.ones(3), 3)
    values, vectors = np.linalg.eig(transition.T)
    pi = np.real(vectors[:, np.argmax(np.real(values))])
    problem = Problem.one_layer(pi / pi.sum(), transition, 4)
    assert critical.first(problem).residual < 1e-12


@pytest.mark.parametrize("model", MODELS[:4])
def test_a_critical_point_can_be_turned(model):
    point = critical.first(sticky(PI, 0.4, 5, **model))
    direction = np.arange(1.0, 6)
    other = critical.turned(point, direction)
    assert other.residual < 1e-12
    assert other.loss == pytest.approx(point.loss, rel=1e-14)
    rows = other.matrices["W_0"]
    np.testing.assert_allclose(
        rows @ direction,
        np.linalg.norm(rows, axis=1) * np.linalg.norm(direction) * np.sign(point.matrices["W_0"][:, 0]),
        atol=1e-13,
    )


@pytest.mark.parametrize("m", [4, 28])
def test_the_solver_returns_to_a_critical_point_from_nearby(m):
    """Dense steps at 62 parameters, steps by products only at 1736; few are needed."""
    problem = sticky(PI[:3] / PI[:3].sum(), 0.4, m)
    point = critical.first(problem)
    start = point.flat + 2e-2 * np.random.default_rng(5).normal(size=problem.size) / np.sqrt(problem.size)
    assert np.linalg.norm(problem.gradient(start)) > 1e-5
    found = critical.solve(problem, start)
    assert (m == 28) == (problem.size > critical.DENSE)
    assert found.residual < 1e-12
    assert found.iterations <= 12
    assert np.linalg.norm(found.flat - start) < 2e-2, "it does not drift along the manifold"


def test_where_there_is_no_critical_point_the_solver_says_so():
    problem = sticky(PI, 0.4, 3)
    start = np.random.default_rng(0).normal(size=problem.size)
    with pytest.raises(NoCriticalPoint, match="no critical point within 2 steps") as caught:
        critical.solve(problem, start, max_iterations=2)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("p", "d", "lam", "m"), [(0.6, 3, 0.5, 4), (0.5, 4, 0.3, 3), (0.7, 6, 0.7, 2)])
def test_degenerate_point_of_a_symmetric_group(p, d, lam, m):
    problem = sticky(symmetric(p, d), lam, m)
    point = critical.degenerate(problem)
    assert point.residual < 1e-12
    assert np.abs(critical.transverse(point)).max() < 1e-14
    assert point.loss == pytest.approx(lumped_loss(problem.pi, lam), rel=1e-13)
    w = {name: matrix.copy() for name, matrix in point.matrices.items()}
    a = w["W_0"][:, 0]
    assert a[0] > 0 > a[1], "the group has gone through zero"
    np.testing.assert_allclose(a[1:], a[1], rtol=1e-9)
    assert np.abs(w["W_Q"]).sum() == pytest.approx(abs(w["W_Q"][0, 0]))


def test_the_degenerate_point_keeps_what_the_flow_conserves():
    problem = sticky(symmetric(0.6, 3), 0.5, 4)

    def law(w):
        return w["W_0"].T @ w["W_0"] - w["W_1"] @ w["W_1"].T - w["W_Q"] @ w["W_Q"].T - w["W_K"] @ w["W_K"].T

    point = critical.degenerate(problem)
    np.testing.assert_allclose(law(point.matrices), 0, atol=1e-7)


def test_continuation_in_the_asymmetry():
    """The transverse rate is of first order in δ."""
    point = critical.degenerate(sticky(symmetric(0.6, 3), 0.5, 3))
    deltas = np.array([1e-6, 1e-5, 1e-4])
    problems = [sticky(symmetric(0.6, 3, delta), 0.5, 3) for delta in deltas]
    points = list(critical.continuation(point, problems))
    assert max(p.residual for p in points) < 1e-12
    sizes = np.array([np.linalg.svd(critical.transverse(p))[1] for p in points])
    np.testing.assert_allclose(sizes[:, 0] / deltas, sizes[0, 0] / deltas[0], rtol=2e-3)
    assert np.all(sizes[:, 1:] < 1e-14), "one direction opens"


def test_points_that_a_model_has_not():
    with pytest.raises(OutOfReach, match="without W_V"):
        critical.degenerate(sticky(PI, 0.4, 3, value_projection=True))
    with pytest.raises(OutOfReach, match="W_V"):
        critical.transverse(critical.first(sticky(PI, 0.4, 3, value_projection=True)))
