"""Training on text: loss and gradients against central differences, and against the model in PyTorch."""

import os
from importlib.util import find_spec

import numpy as np
import pytest

if find_spec("torch") is None and not os.environ.get("CI"):
    pytest.skip("PyTorch is not installed", allow_module_level=True)

from attndyn.conformance.gradients import central_differences, relative_error
from attndyn.layers.cross_entropy import WIDE
from attndyn.simulation import Simulation
from attndyn.spec import parse_spec
from reference import torch_reference

SPEC = """
name: text
data:
  kind: corpus
  source: {{kind: text, text: "{text}"}}
  tokenizer: {{kind: word, size: {size}}}
  documents: "."
  n_ctx: 5
  batch: 3
model: {{architecture: {architecture}, d_model: 6, attention: causal, positions: learned, init: {{std: 0.5}}}}
optimizer: {{kind: gd, lr: 0.1}}
training: {{steps: 3, loss_positions: {positions}}}
replicas: {{seeds: 2}}
probes: {{loss: {{every: 1}}}}
"""
STEP = 2


def simulation(size, architecture="transformer", positions="all"):
    """More words than are looked up by products and turned round in memory, or fewer."""
    words = np.random.default_rng(0).integers(0, 60, 400)
    text = " ".join("." if n % 9 == 8 else f"w{word}" for n, word in enumerate(words))
    spec = SPEC.format(text=text, size=size, architecture=architecture, positions=positions)
    return Simulation(parse_spec(spec), "numpy")


@pytest.mark.parametrize("positions", ["last", "all"])
@pytest.mark.parametrize("size", [4, WIDE + 15])
@pytest.mark.parametrize("architecture", ["pure_attention", "residual", "transformer"])
def test_loss_and_gradients_equal_pytorch(architecture, size, positions):
    made = simulation(size, architecture, positions)
    assert made.representation == "positions"
    assert len(made.data.tokens) == size
    loss = made.evaluate(STEP)
    # every place and what follows it, from the source that is asked for all of them
    batch = simulation(size, architecture, "all").data.batch(STEP, "positions")
    for replica in range(2):
        tokens, following = (array[replica].T.astype(np.int64) for array in (batch.keys, batch.targets))
        weights = {name: array[replica].copy() for name, array in made.parameters.items()}
        contexts = torch_reference.Sampled(tokens, following, positions)
        expected, gradients = torch_reference.loss_and_gradients(weights, made.spec.model, contexts)
        assert loss[replica] == pytest.approx(expected, rel=1e-12)
        for name, gradient in gradients.items():
            assert relative_error(made.gradients[name][replica], gradient) < 1e-11, name


@pytest.mark.parametrize("size", [4, WIDE + 15])
def test_gradients_are_those_of_the_loss(size):
    """Along random directions; of the small model, entry by entry."""
    made = simulation(size)
    made.evaluate(STEP)
    found = {name: gradient.copy() for name, gradient in made.gradients.items()}
    flat, gradient = made.parameters.flat, made.gradients.flat.copy()
    begun, rng = flat.copy(), np.random.default_rng(1)
    for _ in range(12):
        direction = rng.normal(size=flat.shape)
        along = np.zeros(1)

        def moved(along=along, direction=direction):
            flat[...] = begun + along * direction
            return float(made.evaluate(STEP).sum())

        expected = central_differences(moved, along)[0]
        assert (gradient * direction).sum() == pytest.approx(expected, rel=1e-6)
    flat[...] = begun
    if size == 4:
        for name, parameter in made.parameters.items():
            expected = central_differences(lambda: float(made.evaluate(STEP).sum()), parameter)
            assert relative_error(found[name], expected) < 1e-7, name


def test_a_target_one_place_off_is_noticed():
    made = simulation(4)
    batch = made.data.batch(STEP, "positions")
    off = torch_reference.Sampled(batch.keys[0].T.astype(int), batch.keys[0].T.astype(int), "all")
    weights = {name: array[0].copy() for name, array in made.parameters.items()}
    loss, _ = torch_reference.loss_and_gradients(weights, made.spec.model, off)
    assert abs(loss - made.evaluate(STEP)[0]) > 1e-3
