"""Every shipped architecture in every combination of options against an independent one in PyTorch."""

import os
from importlib.util import find_spec

import numpy as np
import pytest

if find_spec("torch") is None and not os.environ.get("CI"):
    pytest.skip("PyTorch is not installed", allow_module_level=True)

import torch

from plugins.architectures.test_architectures import ONE_LAYER, POSITIONS, TRANSFORMER, exact, simulate
from reference import torch_reference

LIMIT = 1e-11
STEP = 2


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    """More would compete for the cores with the other test workers."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def prepared(small, model, loss_positions, representation):
    """A simulation away from the initial zeros and ones, and its batch of `STEP` in plain form."""
    if representation == "population":
        changes = ("data.regime=population", "optimizer={kind: gd, lr: 0.1}")
    else:
        changes = (f"representation={representation}",)
    simulation = simulate(small, model, loss_positions, *changes)
    flat = simulation.parameters.flat
    flat += 0.2 * np.random.default_rng(0).normal(size=flat.shape)
    data = simulation.data
    if representation == "population":
        return simulation, torch_reference.Population(data.pi[1], data.transition[1])
    # positions, whatever the engine computes with
    batch = simulate(small, model, "all", "representation=positions").data.batch(STEP, "positions")
    tokens, following = (array[1].T.astype(np.int64) for array in (batch.keys, batch.targets))
    return simulation, torch_reference.Sampled(tokens, following, loss_positions)


def deviations(simulation, batch):
    """Largest deviation of the loss and of each gradient of replica 1, relative to its largest entry."""
    weights = {name: array[1].copy() for name, array in simulation.parameters.items()}
    loss, gradients = torch_reference.loss_and_gradients(weights, simulation.spec.model, batch)
    found = {"loss": abs(simulation.evaluate(STEP)[1] - loss) / loss}
    assert gradients.keys() == simulation.gradients.keys()
    for name, expected in gradients.items():
        largest = np.abs(expected).max()
        # a learned place that no query sees, a masked key: nothing but rounding
        scale = largest if largest > 1e-12 else 1.0
        found[name] = np.abs(simulation.gradients[name][1] - expected).max() / scale
    return found


@pytest.mark.parametrize("loss_positions", POSITIONS)
@pytest.mark.parametrize("model", ONE_LAYER + TRANSFORMER)
def test_loss_and_gradients_equal_pytorch(small, model, loss_positions):
    for representation in exact(small, model, loss_positions):
        found = deviations(*prepared(small, model, loss_positions, representation))
        beyond = {name: value for name, value in found.items() if not value <= LIMIT}
        assert beyond == {}, representation


@pytest.mark.parametrize(
    ("found", "planted"),
    [
        ("scale: none", "scale: inv_sqrt"),
        ("attention: causal", "attention: full"),
        ("mask_token: 1", "mask_token: 0"),
        ("layer_norm: pre", "layer_norm: post"),
        ("mlp: {width: 7, activation: relu}", "mlp: {width: 7, activation: gelu}"),
        ("positions: sinusoidal", "positions: none"),
    ],
)
def test_another_model_is_noticed(small, found, planted):
    """Where reference and engine are given options that differ in one, so do loss and gradients."""
    base = "architecture: transformer, layers: 2, heads: 3"
    simulation, batch = prepared(small, f"{base}, {found}", "all", "positions")
    other = simulate(small, f"{base}, {planted}", "all").spec
    simulation.spec = simulation.spec.model_copy(update={"model": other.model})
    assert max(deviations(simulation, batch).values()) > 1e-4
