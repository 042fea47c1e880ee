"""The benchmark on text compares like with like."""

import os
from importlib.util import find_spec

import corpus_step as benchmark
import dense_step
import pytest

if find_spec("torch") is None and not os.environ.get("CI"):
    pytest.skip("PyTorch is not installed", allow_module_level=True)


def test_all_sides_take_the_same_first_step(monkeypatch):
    monkeypatch.setattr(benchmark, "D_VOCAB", 200)
    simulation = benchmark.corpus("float32")
    assert (simulation.representation, len(simulation.data.tokens)) == ("positions", 200)
    assert simulation.parameters["W_0"].shape == (1, 200, 128)
    said, every = dense_step.sides("float64", benchmark.corpus)
    assert said.startswith("float64: loss ")
    assert len(every) == 3
