"""The next direction: the watched chain, the exact local rate, and how well they predict a measured cycle."""

from pathlib import Path

import numpy as np
import pytest

from attndyn.simulation import Simulation
from attndyn.spec import load_spec
from attndyn.theory.closed_forms import condensation_rate
from attndyn.theory.problem import Problem
from attndyn.theory.recurrence import openings, pull, remaining

CONTROLS = Path(__file__).parents[2] / "specs" / "controls"
PI = np.array([0.6, 0.25, 0.1, 0.05])


def sticky(pi, lam):
    return lam * np.eye(len(pi)) + (1 - lam) * np.tile(pi, (len(pi), 1))


@pytest.mark.parametrize("learned", [0, 1, 2])
def test_a_sticky_chain_watched_on_the_rest_is_sticky(learned):
    rest = remaining(PI, sticky(PI, 0.4), learned)
    np.testing.assert_allclose(rest.pi, PI[learned:] / PI[learned:].sum())
    np.testing.assert_allclose(rest.transition, sticky(rest.pi, 0.4), atol=1e-15)
    assert rest.next_token == learned
    assert rest.rate == pytest.approx(PI[learned:].sum() * condensation_rate(rest.pi))


def test_any_chain_watched_on_the_rest_keeps_its_stationary_distribution():
    matrix = np.random.default_rng(0).dirichlet(np.ones(5), size=5)
    pi = np.linalg.matrix_power(matrix, 400)[0]
    rest = remaining(pi, matrix, 2)
    np.testing.assert_allclose(rest.transition.sum(axis=1), 1)
    np.testing.assert_allclose(rest.pi @ rest.transition, rest.pi)
    with pytest.raises(ValueError, match="at least two of 5 must remain"):
        remaining(pi, matrix, 4)


def test_at_the_origin_the_pull_is_that_of_condensation():
    zero = {name: np.zeros(shape) for name, shape in (("W_0", (4, 5)), ("W_1", (5, 4)))}
    zero |= {"W_Q": np.zeros((5, 5)), "W_K": np.zeros((5, 5))}
    matrix = pull(zero, PI, sticky(PI, 0.4))
    np.testing.assert_allclose(matrix, np.outer(PI, PI - 1 / 4), atol=1e-16)
    assert np.linalg.norm(matrix, 2) == pytest.approx(condensation_rate(PI))


def test_the_pull_is_the_gradient_along_an_unused_direction():
    """W_0, W_1 do not use the last entry of the model; a little x, y there has the gradient −G y, −Gᵀ x."""
    spec = load_spec(CONTROLS / "population-flow.yaml", ["model.d_model=6", "replicas.seeds=1"])
    problem = Problem.of(spec)
    rng = np.random.default_rng(0)
    shapes = {"W_0": (4, 6), "W_1": (6, 4), "W_Q": (6, 6), "W_K": (6, 6)}
    weights = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    weights["W_0"][:, -1] = weights["W_1"][-1] = 0
    for name in ("W_Q", "W_K"):
        weights[name][-1] = 0
    data = Simulation(spec, "numpy").data
    matrix = pull(weights, data.pi[0], data.transition[0])
    x, y = 1e-7 * rng.normal(size=(2, 4))
    weights["W_0"][:, -1], weights["W_1"][-1] = x, y
    gradient = problem.unpack(problem.gradient(problem.pack(weights)))
    np.testing.assert_allclose(-gradient["W_0"][:, -1], matrix @ y, rtol=1e-6)
    np.testing.assert_allclose(-gradient["W_1"][-1], matrix.T @ x, rtol=1e-6)


class Kept:
    def __init__(self):
        self.records = []

    def start(self, simulation): ...

    def record(self, probe, step, values):
        self.records.append((step, {name: array[0].squeeze().copy() for name, array in values.items()}))

    def advance(self, simulation): ...

    def finish(self, simulation, outcome): ...


def test_the_second_and_third_cycle_of_gradient_descent():
    spec = load_spec(
        CONTROLS / "population-gd.yaml",
        [
            "optimizer.lr=0.2",
            "training.steps=9500",
            "probes={parameters: {every: 25}}",
            "analyzers=[]",
            "expect=[]",
            "replicas.seeds=1",
        ],
    )
    simulation, kept = Simulation(spec, "numpy"), Kept()
    simulation.run([kept])
    time = 0.2 * np.array([step for step, _ in kept.records])
    weights = {name: np.stack([w[name] for _, w in kept.records]) for name in ("W_0", "W_1", "W_Q", "W_K")}
    found = openings(time, weights, simulation.data.pi[0], simulation.data.transition[0])
    assert [o.direction for o in found] == [1, 2]
    assert [o.token for o in found] == [o.expected for o in found] == [1, 2]
    assert [o.propagated / o.measured for o in found] == pytest.approx([1, 1], abs=0.03)
    # what was measured when this was written: 1.02 and 1.20 (frozen), 4.3 and 4.8 (reduced)
    assert [o.frozen / o.measured for o in found] == pytest.approx([1.02, 1.20], abs=0.03)
    assert all(4 < o.reduced / o.measured < 5 for o in found), "the reduced rate is an overestimate"


def test_nothing_opens_where_nothing_grows():
    flat = {name: np.ones((5, *shape)) for name, shape in (("W_0", (4, 5)), ("W_1", (5, 4)))}
    flat |= {"W_Q": np.ones((5, 5, 5)), "W_K": np.ones((5, 5, 5))}
    assert openings(np.arange(5.0), flat, PI, sticky(PI, 0.4)) == []
