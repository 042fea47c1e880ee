"""The dense benchmark compares like with like, and times nothing where it does not."""

import os
from importlib.util import find_spec

import dense_step as benchmark
import numpy as np
import pytest

if find_spec("torch") is None and not os.environ.get("CI"):
    pytest.skip("PyTorch is not installed", allow_module_level=True)


def test_all_sides_take_the_same_first_step():
    said, every = benchmark.sides("float64")
    assert said.startswith("float64: loss ")
    assert list(every) == ["ours", "PyTorch, scaled_dot_product_attention", "PyTorch, explicit softmax"]


def test_another_batch_is_noticed(monkeypatch):
    tokens, targets = benchmark.batch(benchmark.dense("float64"))
    assert tokens.shape == targets.shape == (64, 64)
    assert np.array_equal(tokens[:, 1:], targets[:, :-1])
    monkeypatch.setattr(benchmark, "batch", lambda simulation: (tokens, targets[::-1].copy()))
    with pytest.raises(SystemExit, match="nothing was timed"):
        benchmark.sides("float64")


def test_a_step_is_one_step_of_the_run():
    simulation = benchmark.dense("float32")
    assert simulation.representation == "positions"
    before = simulation.parameters.flat.copy()
    benchmark.advance(simulation, 1)
    assert simulation.step == 1
    assert not np.array_equal(simulation.parameters.flat, before)
