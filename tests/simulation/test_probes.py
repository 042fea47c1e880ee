"""What the probes record, against plain formulas."""

import numpy as np
import pytest

from attndyn.data.contexts import population
from attndyn.simulation import Simulation
from attndyn.simulation.probe import State


def measure(spec, probe):
    simulation = Simulation(spec, "numpy")
    loss = simulation.evaluate(0)
    state = State(0, simulation.parameters, simulation.gradients, loss)
    return simulation, simulation.probes[probe].declare(), simulation.probes[probe].measure(state)


def whole_map(simulation):
    limit = population(simulation.data.pi, simulation.data.transition)
    return simulation.architecture.attention(simulation.parameters, limit)[:, :, 0]


@pytest.mark.parametrize("probe", ["loss", "attention", "parameters", "gradients"])
def test_declared_is_what_comes(small, probe):
    _, declaration, values = measure(small(), probe)
    assert declaration.variables.keys() == values.keys()
    for name, variable in declaration.variables.items():
        assert values[name].shape == (3, *variable.shape)
        assert len(variable.dims) == len(variable.shape)
        assert variable.long_name
        assert variable.units


@pytest.mark.parametrize("probe", ["loss", "parameters", "gradients", "attention"])
def test_values_are_not_views_of_the_state(small, probe):
    simulation, _, values = measure(small(), probe)
    before = {name: array.copy() for name, array in values.items()}
    simulation.parameters.flat += 1
    simulation.gradients.flat += 1
    assert all(np.array_equal(before[name], values[name]) for name in values)


def test_attention_and_entropy(small):
    simulation, declaration, values = measure(small(), "attention")
    a = whole_map(simulation)
    np.testing.assert_array_equal(values["attention"], a)
    np.testing.assert_allclose(values["entropy"], -(a * np.log(a)).sum(axis=-1), rtol=1e-13)
    assert declaration.labels["query"] == ["0", "1", "2", "3"]


def test_entropy_of_a_weight_that_vanishes(small):
    """A probability that underflows to 0 adds 0 to the entropy, not NaN."""
    simulation, _, _ = measure(small(), "attention")
    simulation.parameters.flat *= 100
    state = State(0, simulation.parameters, simulation.gradients, np.zeros(3))
    values = simulation.probes["attention"].measure(state)
    assert values["attention"].min() == 0
    assert np.isfinite(values["entropy"]).all()


@pytest.mark.parametrize("chosen", ["tokens: ['7', '2']", "most: 2"])
def test_many_tokens_are_a_few_and_the_rest(small, chosen):
    stationary = "data.stationary={kind: zipf, d_vocab: 9, exponent: 1.0}"
    spec = small(stationary, f"probes={{loss: {{every: 1}}, attention: {{every: 1, {chosen}}}}}")
    simulation, declaration, values = measure(spec, "attention")
    shown = [2, 7] if "tokens" in chosen else [0, 1]
    rest = np.setdiff1d(np.arange(9), shown)
    assert declaration.labels["key"] == [*map(str, shown), "<rest>"]
    a, pi = whole_map(simulation)[:, 0, 0], simulation.data.pi
    found = values["attention"][:, 0, 0]
    np.testing.assert_allclose(found.sum(axis=-1), 1, rtol=1e-13)
    np.testing.assert_allclose(found[:, 0, 1], a[:, shown[0], shown[1]], rtol=1e-13)
    np.testing.assert_allclose(found[:, 1, 2], a[:, shown[1]][:, rest].sum(axis=1), rtol=1e-13)
    weights = pi[:, rest] / pi[:, rest].sum(axis=1, keepdims=True)
    mean = (weights * a[:, rest, shown[0]]).sum(axis=1)
    np.testing.assert_allclose(found[:, 2, 0], mean, rtol=1e-13)
    full = -(a * np.log(a)).sum(axis=-1)
    np.testing.assert_allclose(values["entropy"][:, 0, 0, 0], full[:, shown[0]], rtol=1e-13)
    np.testing.assert_allclose(
        values["entropy"][:, 0, 0, 2], (weights * full[:, rest]).sum(axis=1), rtol=1e-13
    )
