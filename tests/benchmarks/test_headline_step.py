"""Our side of the benchmark is the engine, on the batch that PyTorch is given; PyTorch is not needed here."""

import importlib
import sys

import headline_step as benchmark
import numpy as np
import pytest
from step_rates import HEADLINE

from attndyn import load_spec
from attndyn.simulation import Simulation


def test_needs_no_pytorch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert importlib.reload(benchmark).headline("float64", fixed_batch=True).steps > 0


def loss_by_definition(w, tokens, targets):
    """Definition 3.2, written out for whole contexts."""
    x = w["W_0"][tokens]
    scores = x @ w["W_Q"] @ (x @ w["W_K"]).transpose(0, 2, 1) / np.sqrt(x.shape[-1])
    attention = np.exp(scores)
    attention /= attention.sum(axis=-1, keepdims=True)
    logits = (attention @ x @ w["W_1"])[:, -1]
    log_sum = np.log(np.exp(logits).sum(axis=1))
    return np.mean(log_sum - logits[np.arange(len(targets)), targets])


def test_both_sides_see_the_same_batch():
    """The engine's loss, from counts, is that of the tokens handed to PyTorch, position by position."""
    simulation = benchmark.headline("float64", fixed_batch=True)
    noise = np.random.default_rng(0).normal(size=simulation.parameters.flat.shape)
    simulation.parameters.flat[...] = 0.3 * noise
    tokens, targets = benchmark.first_batch(simulation)
    assert tokens.shape == (1000, 64)
    assert simulation.representation == "counts"
    expected = loss_by_definition(benchmark.weights(simulation), tokens, targets)
    assert simulation.evaluate(0)[0] == pytest.approx(expected, rel=1e-12)
    backwards = loss_by_definition(benchmark.weights(simulation), tokens[:, ::-1], targets)
    assert backwards != pytest.approx(expected, rel=1e-6)


def test_sampling_side_is_the_run_itself():
    """After its timed steps the state is that of a run of the spec: nothing was left out."""
    timed = benchmark.headline("float64", fixed_batch=False)
    benchmark.advance(timed, 5)
    benchmark.advance(timed, 3)
    overrides = (
        "replicas.seeds=1",
        "training.steps=8",
        "expect=[]",
        "analyzers=[]",
        "probes={loss: {every: 1}}",
    )
    whole = Simulation(load_spec(HEADLINE, overrides), "numpy")
    whole.run()
    assert timed.step == 8
    assert np.array_equal(timed.parameters.flat, whole.parameters.flat)


def test_fixed_batch_is_not_drawn_again(monkeypatch):
    simulation = benchmark.headline("float64", fixed_batch=True)
    monkeypatch.setattr(simulation.data, "batch", None)
    before = simulation.parameters.flat.copy()
    benchmark.advance(simulation, 2)
    assert not np.array_equal(simulation.parameters.flat, before)
