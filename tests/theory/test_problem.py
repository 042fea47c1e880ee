"""The population loss as a function of a flat vector: the engine's, in the order of the engine."""

import numpy as np
import pytest

from attndyn.conformance.gradients import central_differences, relative_error
from attndyn.simulation import Simulation
from attndyn.spec import parse_spec
from attndyn.theory.problem import Problem
from attndyn.theory.setting import OutOfReach

SPEC = """
name: a
data:
  kind: markov
  stationary: {kind: geometric, d_vocab: 4, ratio: 0.25}
  transition: {kind: sticky, lam: 0.5}
  regime: population
model: {MODEL, init: {kind: normal, std: 0.4}}
optimizer: {kind: gd, lr: 0.1}
training: {steps: 3}
"""
MODELS = [
    "architecture: pure_attention, d_model: 5",
    "architecture: residual, d_model: 5, value_projection: true, output_projection: true, scale: none",
    "architecture: residual, d_model: 5, mask_token: 1",
    "architecture: transformer, d_model: 6, layers: 2, heads: 3",
]


@pytest.mark.parametrize("model", MODELS)
def test_loss_and_gradient_are_those_of_a_run(model):
    spec = parse_spec(SPEC.replace("MODEL", model))
    simulation, problem = Simulation(spec, "numpy"), Problem.of(spec)
    loss = simulation.evaluate(0)
    flat = simulation.parameters.flat[0]
    assert problem.size == len(flat)
    assert problem.loss(flat) == pytest.approx(loss[0], rel=1e-15)
    np.testing.assert_allclose(problem.gradient(flat), simulation.gradients.flat[0], rtol=0, atol=1e-15)


def test_a_problem_without_a_spec_is_that_of_the_spec():
    spec = parse_spec(SPEC.replace("MODEL", MODELS[0]))
    problem = Problem.of(spec)
    other = Problem.one_layer(problem.pi, problem.transition, 5)
    flat = np.random.default_rng(0).normal(size=problem.size)
    assert other.shapes == problem.shapes
    np.testing.assert_array_equal(other.gradient(flat), problem.gradient(flat))
    unscaled = Problem.one_layer(problem.pi, problem.transition, 5, score_scale=1.0)
    assert unscaled.loss(flat) != problem.loss(flat)
    with pytest.raises(ValueError, match="neither"):
        Problem.one_layer(problem.pi, problem.transition, 5, score_scale=0.3)


def test_sampled_specs_have_the_same_limit():
    spec = parse_spec(SPEC.replace("MODEL", MODELS[0]))
    sampled = parse_spec(SPEC.replace("MODEL", MODELS[0]).replace("regime: population", "regime: sampled"))
    flat = np.random.default_rng(0).normal(size=Problem.of(spec).size)
    assert Problem.of(sampled).loss(flat) == Problem.of(spec).loss(flat)


def test_gradients_of_a_batch_against_central_differences():
    pi, rng = np.array([0.6, 0.3, 0.1]), np.random.default_rng(1)
    problem = Problem.one_layer(pi, rng.dirichlet(np.ones(3), 3), 4, residual=True, value_projection=True)
    batch = 0.5 * rng.normal(size=(2, problem.size))
    gradients = problem.gradients(batch)
    for flat, gradient in zip(batch, gradients, strict=True):
        numeric = central_differences(lambda flat=flat: problem.loss(flat), flat)
        assert relative_error(gradient, numeric) < 1e-8
    np.testing.assert_allclose(problem.losses(batch), [problem.loss(flat) for flat in batch], rtol=1e-15)
    np.testing.assert_array_equal(gradients[1], problem.gradient(batch[1]))


def test_pack_and_unpack():
    pi = np.array([0.6, 0.3, 0.1])
    problem = Problem.one_layer(pi, np.tile(pi, (3, 1)), 4)
    assert problem.shapes == {"W_0": (3, 4), "W_Q": (4, 4), "W_K": (4, 4), "W_1": (4, 3)}
    assert problem.dims["W_0"] == ("token", "model")
    flat = np.random.default_rng(2).normal(size=(7, problem.size))
    np.testing.assert_array_equal(problem.pack(problem.unpack(flat)), flat)
    only = problem.unpack(problem.pack({"W_1": np.ones((4, 3))}))
    assert {name: np.all(matrix == 0) for name, matrix in only.items()}["W_Q"]
    for wrong in ({"W_V": np.ones((4, 4))}, {"W_1": np.ones((3, 4))}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            problem.pack(wrong)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("MODEL", f"{MODELS[0]}, positions: learned", "no exact population limit"),
        ("training:", "replicas: {seeds: 2}\ntraining:", "several"),
    ],
)
def test_what_has_no_problem_says_why(old, new, reason):
    spec = parse_spec(SPEC.replace("regime: population", "").replace(old, new).replace("MODEL", MODELS[0]))
    with pytest.raises(OutOfReach, match=reason):
        Problem.of(spec)
