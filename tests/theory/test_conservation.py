"""Conservation laws of every shipped architecture: exact, complete, kept by flow, broken by a small error."""

import numpy as np
import pytest

from attndyn import registry
from attndyn.layers.law import Law
from attndyn.layers.parameters import Parameters
from attndyn.simulation import Simulation
from attndyn.spec import parse_spec
from attndyn.theory.conservation import free_directions, laws
from attndyn_plugins.architectures.pure_attention import PureAttention

SPEC = """
name: laws
data: {{kind: markov, stationary: {{kind: geometric, d_vocab: {d}, ratio: 0.5}},
       transition: {{kind: random, seed: 3, concentration: 1.0}}, n_ctx: {n_ctx}, batch: 5}}
model: {{{model}, d_model: {m}, init: {{std: 0.5}}}}
optimizer: {{kind: gd, lr: 0.1}}
training: {{steps: 1, loss_positions: {positions}}}
replicas: {{seeds: {seeds}}}
"""

ONE_LAYER = [
    f"architecture: {name}, {options}"
    for name in ("pure_attention", "residual")
    for options in (
        "scale: none",
        "value_projection: true",
        "output_projection: true, attention: causal",
        "value_projection: true, output_projection: true, mask_token: 0",
        "positions: learned",
        "positions: sinusoidal, value_projection: true",
    )
]
TRANSFORMER = [
    f"architecture: transformer, {options}"
    for options in (
        "heads: 2, layers: 2",
        "heads: 2, layers: 2, attention: causal, positions: learned",
        "heads: 2, layers: 2, value_projection: false",
        "heads: 2, layers: 2, output_projection: false",
        "heads: 2, value_projection: false, output_projection: false",
        "heads: 2, d_head: 3, mlp: {width: 5}",
        "heads: 2, layers: 2, mlp: {width: 5, activation: relu}",
        "heads: 2, layers: 2, layer_norm: pre, mlp: {width: 5}",
        "heads: 2, layer_norm: pre, value_projection: false, positions: learned",
        "layers: 2, layer_norm: pre, output_projection: false",
        "heads: 2, layers: 2, layer_norm: post, mlp: {width: 5, activation: relu}",
        "layers: 2, layer_norm: post, value_projection: false",
        "positions: sinusoidal, heads: 2, output_projection: false",
    )
]
MODELS = ONE_LAYER + TRANSFORMER


def simulate(model, positions="last", d=3, m=4, n_ctx=4, seeds=2):
    text = SPEC.format(model=model, positions=positions, d=d, m=m, n_ctx=n_ctx, seeds=seeds)
    simulation = Simulation(parse_spec(text), "numpy")
    # away from the initial zeros and ones of normalisations
    flat = simulation.parameters.flat
    flat += 0.2 * np.random.default_rng(0).normal(size=flat.shape)
    return simulation


def with_flat(simulation, flat):
    return Parameters(simulation.parameters.declared, flat)


# -- exact ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("positions", ["last", "all"])
@pytest.mark.parametrize("model", MODELS)
def test_no_law_changes_along_the_gradient(model, positions):
    """A quantity of degree 2 at most changes at the rate (Q(θ + g) − Q(θ − g)) / 2, exactly."""
    simulation = simulate(model, positions)
    simulation.evaluate(0)
    at, along = simulation.parameters.flat, simulation.gradients.flat
    for law in laws(simulation.architecture):
        ahead, behind = (law.evaluate(with_flat(simulation, at + s * along)) for s in (1, -1))
        assert np.abs(ahead - behind).max() < 1e-13 * max(1, np.abs(ahead).max()), law.name
        elsewhere = law.evaluate(with_flat(simulation, at + 0.1))
        assert np.abs(elsewhere - law.evaluate(simulation.parameters)).max() > 1e-3, "no constant"


def test_labels_are_unique_and_say_what_they_are():
    for model in MODELS:
        found = laws(simulate(model).architecture)
        assert len({law.name for law in found}) == len(found)
        assert all(law.long_name and law.symbol for law in found)


# -- complete ---------------------------------------------------------------------------------------------

# small enough to find all T, v with ⟨∇L(θ), Tθ + v⟩ = 0; no model has a width of 2 where states are centred
COUNTED = [
    *((model, {"m": 2}) for model in ONE_LAYER),
    ("architecture: pure_attention, positions: sinusoidal", {"m": 3, "n_ctx": 2}),
    ("architecture: transformer, heads: 2", {"m": 2}),
    ("architecture: transformer, heads: 2, layers: 2", {"m": 2}),
    ("architecture: transformer, heads: 2, value_projection: false", {"m": 2}),
    ("architecture: transformer, heads: 2, output_projection: false", {"m": 2}),
    ("architecture: transformer, heads: 2, value_projection: false, output_projection: false", {"m": 2}),
    ("architecture: transformer, mlp: {width: 3}", {"m": 2}),
    ("architecture: transformer, mlp: {width: 3, activation: relu}", {"m": 2}),
    (
        "architecture: transformer, heads: 3, layer_norm: pre, value_projection: false, "
        "output_projection: false",
        {"m": 3},
    ),
    ("architecture: transformer, heads: 3, layer_norm: post, output_projection: false", {"m": 3}),
]


@pytest.mark.parametrize(("model", "sizes"), COUNTED)
def test_there_is_no_other_law_of_degree_two(model, sizes):
    simulation = simulate(model, seeds=64, **sizes)
    found = laws(simulation.architecture)
    n_conserved = independent(found, simulation)
    n_symmetries, gap = symmetries(simulation)
    assert gap > 1e3, "what vanishes and what does not are apart"
    assert n_conserved == n_symmetries
    # and a law that were missing would be missed
    assert independent(found[1:], simulation) < n_symmetries


def symmetries(simulation):
    """Dimension of {(T, v): ⟨∇L(θ), Tθ + v⟩ = 0 for all θ}, T symmetric; and what sets it apart from more."""
    size = simulation.parameters.flat.shape[1]
    rows, columns = np.triu_indices(size)
    n_unknowns = len(rows) + size
    rng = np.random.default_rng(0)
    equations = []
    for step in range(1 + int(1.15 * n_unknowns) // len(simulation.parameters.flat)):
        at = simulation.parameters.flat
        at[...] = 0.9 * rng.normal(size=at.shape)
        simulation.evaluate(step)
        g = simulation.gradients.flat
        of_matrix = g[:, rows] * at[:, columns] + (rows != columns) * g[:, columns] * at[:, rows]
        equations.append(np.concatenate([of_matrix, g], axis=1))
    equations = np.concatenate(equations)
    values = np.linalg.svd(equations / np.linalg.norm(equations, axis=1, keepdims=True), compute_uv=False)
    n_null = int(np.sum(values < 1e-9 * values[0]))
    return n_null, values[-n_null - 1] / values[-n_null]


def independent(found, simulation):
    """How many independent quantities laws give, products of two linear ones among them."""
    size = simulation.parameters.flat.shape[1]
    at = np.random.default_rng(1).normal(size=(size * 2 + 100, size))

    def values(flat):
        parameters = with_flat(simulation, flat)
        return np.concatenate([law.evaluate(parameters).reshape(len(flat), -1) for law in found], axis=1)

    once, twice = (values(s * at) - values(0 * at) for s in (1, 2))
    linear = once[:, np.abs(twice - 2 * once).max(axis=0) < 1e-9]
    i, j = np.triu_indices(linear.shape[1])
    return np.linalg.matrix_rank(np.concatenate([once, linear[:, i] * linear[:, j]], axis=1))


# -- under flow -------------------------------------------------------------------------------------------


def flow_drift(simulation, error=0.0, time=2.0):
    """Largest drift of each law, of one replica on one batch; `error` is planted into the gradient of W_K."""
    optimizer = registry.get("optimizer", "flow")
    declared, contexts = simulation.parameters.declared, simulation.contexts(0)
    flat = simulation.parameters.flat.copy()

    def gradient(_, at):
        parameters = Parameters(declared, at[None])
        _, gradients = simulation.architecture.loss_and_gradients(parameters, contexts)
        gradients["W_K"] = gradients["W_K"] * (1 + error)
        return np.concatenate([gradients[p.name].reshape(-1) for p in declared])

    options = optimizer.Options(rtol=1e-11, atol=1e-13)
    flow = optimizer([options], flat.shape, 1, time, simulation.backend)
    flow.advance(flat, simulation.gradients.flat, 0, gradient)
    moved = np.abs(flat - simulation.parameters.flat).max()
    assert moved > 0.05, "nothing happened"
    both = simulation.parameters, with_flat(simulation, flat)
    return {
        law.name: float(np.abs(np.subtract(*map(law.evaluate, both))).max())
        for law in laws(simulation.architecture)
    }


@pytest.mark.parametrize("model", MODELS)
def test_flow_keeps_every_law_and_a_small_error_does_not(model):
    simulation = simulate(model, seeds=1)
    # small centred states are stiff; and where a neuron is driven onto its kink, no integrator gets on
    time = 0.25 if "relu" in model or "pre" in model else 2.0
    assert max(flow_drift(simulation, time=time).values()) <= 1e-9
    assert flow_drift(simulation, error=1e-4, time=time)["queries_keys"] > 1e-8


# -- others' architectures --------------------------------------------------------------------------------


def test_an_architecture_may_declare_a_law_of_its_own(small):
    class Declares(PureAttention):
        def conserved(self):
            return (Law("own", "a sum", "s", lambda w: w["W_1"].sum(axis=(1, 2))),)

    simulation = Simulation(small(), "numpy")
    plain = laws(simulation.architecture)
    simulation.architecture.__class__ = Declares
    assert [law.name for law in laws(simulation.architecture)] == [*(law.name for law in plain), "own"]
    simulation.architecture.stream = None
    assert [law.name for law in laws(simulation.architecture)] == ["own"]


def test_free_directions():
    rows = np.array([[1.0, 0, 2, 0], [2, 0, 4, 0]])
    basis = free_directions(rows)
    assert basis.shape == (4, 3)
    np.testing.assert_allclose(rows @ basis, 0, atol=1e-15)
    np.testing.assert_allclose(basis.T @ basis, np.eye(3), atol=1e-15)
