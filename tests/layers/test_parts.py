"""A batch in parts: the same sums, the same digits on any number of threads, memory that does not grow."""

import numpy as np
import pytest

from attndyn.backend.numpy_backend import NumpyBackend
from attndyn.layers import parts
from attndyn.simulation import Simulation

DEEP = (
    "model={architecture: transformer, layers: 2, heads: 2, d_model: 6, attention: causal, mlp: {width: 5}, "
    "layer_norm: pre, positions: learned, init: {std: 0.5}}",
    "training.loss_positions=all",
    "data.batch=13",
)


def simulate(small, part_bytes, *changes, threads=1):
    backend = NumpyBackend(threads=threads)
    backend.part_bytes = part_bytes
    return Simulation(small(*DEEP, *changes), backend)


@pytest.mark.parametrize("replicas", [1, 3])
@pytest.mark.parametrize("contexts", [1, 5, 64])
@pytest.mark.parametrize("part_bytes", [1, 250, 1000, 10**9, None])
def test_every_context_of_every_replica_is_in_one_part(replicas, contexts, part_bytes):
    seen = np.zeros((replicas, contexts), dtype=int)
    for part in parts.cut(replicas, contexts, 100, part_bytes):
        seen[part] += 1
        n_replicas, n_contexts = seen[part].shape
        if part_bytes is not None:
            assert n_replicas * n_contexts <= max(1, part_bytes // 100)
    assert (seen == 1).all()


def test_sums_are_those_of_the_whole(small):
    whole, cut = simulate(small, None), simulate(small, 1)
    for step in range(2):
        np.testing.assert_allclose(cut.evaluate(step), whole.evaluate(step), rtol=1e-13)
        for name, expected in whole.gradients.items():
            scale = np.abs(expected).max()
            np.testing.assert_allclose(cut.gradients[name], expected, atol=1e-13 * scale, err_msg=name)


@pytest.mark.parametrize("representation", ["counts", "positions"])
def test_sums_over_tokens_too(small, representation):
    changes = ("model={architecture: transformer, layers: 2, heads: 2, d_model: 6, init: {std: 0.5}}",)
    changes += (f"representation={representation}",)
    whole, cut = simulate(small, None, *changes), simulate(small, 1, *changes)
    np.testing.assert_allclose(cut.evaluate(0), whole.evaluate(0), rtol=1e-13)
    scale = np.abs(whole.gradients.flat).max()
    np.testing.assert_allclose(cut.gradients.flat, whole.gradients.flat, atol=1e-13 * scale)


def test_digits_do_not_depend_on_threads(small):
    one, three = (simulate(small, 1000, threads=threads) for threads in (1, 3))
    one.run()
    three.run()
    assert np.array_equal(one.parameters.flat, three.parameters.flat)


def test_digits_do_not_depend_on_other_replicas(small):
    """Cut between replicas or not, a replica's contexts are cut in the same places."""
    together, alone = simulate(small, 30_000), simulate(small, 30_000, "replicas.seeds=1")
    together.run()
    alone.run()
    assert np.array_equal(together.parameters.flat[0], alone.parameters.flat[0])
