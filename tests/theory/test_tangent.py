"""Hessian-vector products: against differences of the engine's gradient, symmetric, and able to be wrong."""

from itertools import product

import numpy as np
import pytest

from attndyn.conformance.gradients import relative_error
from attndyn.theory import tangent
from attndyn.theory.problem import Problem
from attndyn.theory.setting import OutOfReach
from attndyn.theory.tangent import Pair

MODELS = list(product((False, True), (False, True), (1.0, None)))


def case(residual, value_projection, scale):
    """A problem with an arbitrary chain (d = 4, m = 5), a point and three directions."""
    rng = np.random.default_rng(3)
    transition = rng.dirichlet(np.ones(4), 4)
    values, vectors = np.linalg.eig(transition.T)
    pi = np.real(vectors[:, np.argmax(np.real(values))])
    problem = Problem.one_layer(pi / pi.sum(), transition, 5, residual, value_projection, scale)
    return problem, 0.7 * rng.normal(size=problem.size), rng.normal(size=(3, problem.size))


def differences(problem, flat, directions, h=1e-3):
    """Hessian-vector products from gradients of the engine: a central difference of sixth order."""
    steps, weights = np.array([1, 2, 3]), np.array([45, -9, 1]) / (60 * h)

    def change(direction):
        moved = steps[:, None] * h * direction
        return weights @ (problem.gradients(flat + moved) - problem.gradients(flat - moved))

    return np.stack([change(direction) for direction in directions])


@pytest.mark.parametrize("model", MODELS)
def test_products_against_differences(model):
    problem, flat, directions = case(*model)
    found = problem.hvp(flat, directions)
    assert relative_error(found, differences(problem, flat, directions)) < 1e-11
    np.testing.assert_allclose(found[1], problem.hvp(flat, directions[1]), rtol=0, atol=1e-14)


@pytest.mark.parametrize("model", MODELS)
def test_the_gradient_that_is_differentiated_is_the_engines(model):
    problem, flat, directions = case(*model)
    gradients = problem.tangents(flat, directions).gradients
    packed = problem.pack({name: pair.value for name, pair in gradients.items()})
    np.testing.assert_allclose(packed, problem.gradient(flat), rtol=0, atol=1e-15)


@pytest.mark.parametrize("model", MODELS)
def test_the_hessian_is_symmetric(model):
    problem, flat, _ = case(*model)
    columns = problem.hvp(flat, np.eye(problem.size))
    assert relative_error(columns, columns.T) < 1e-14
    np.testing.assert_array_equal(problem.hessian(flat), problem.hessian(flat).T)


def test_rates_of_logits_and_attention():
    problem, flat, directions = case(True, True, None)
    h = 1e-5
    above, below = (problem.tangents(flat + h * x * directions[0], directions) for x in (1, -1))
    tangents = problem.tangents(flat, directions)
    for name in ("logits", "attention"):
        numeric = (getattr(above, name).value - getattr(below, name).value) / (2 * h)
        assert relative_error(getattr(tangents, name).rate[0], numeric) < 1e-9


def test_a_forgotten_term_is_noticed(monkeypatch):
    """The products are wrong, and no longer symmetric, if the softmax forgets the mean in its rate."""
    problem, flat, directions = case(False, False, None)
    true = Pair.softmax_of_rows

    def planted(self):
        p, _ = true(self)
        return Pair(p, p * self.rate)

    monkeypatch.setattr(tangent.Pair, "softmax_of_rows", planted)
    found = problem.hvp(flat, directions)
    assert relative_error(found, differences(problem, flat, directions)) > 1e-3
    columns = problem.hvp(flat, np.eye(problem.size))
    assert relative_error(columns, columns.T) > 1e-3


@pytest.mark.parametrize(
    "model",
    [
        "architecture: transformer, d_model: 6, layers: 2",
        "architecture: residual, d_model: 5, output_projection: true",
        "architecture: residual, d_model: 5, mask_token: 1",
    ],
)
def test_models_that_are_not_covered_say_so(small, model):
    problem = Problem.of(small("replicas={}", f"model={{{model}}}"))
    with pytest.raises(OutOfReach, match="for one layer of one head") as caught:
        problem.hvp(np.zeros(problem.size), np.ones(problem.size))
    assert "\n" not in str(caught.value)
