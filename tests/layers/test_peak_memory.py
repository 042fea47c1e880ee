"""The peak memory that docs/architectures.md states, against what is measured."""

import tracemalloc

import numpy as np
import pytest

from attndyn.backend.numpy_backend import NumpyBackend
from attndyn.layers import parts
from attndyn.simulation import Simulation

CASES = [  # threads, contexts, sites, layers, heads, d_model, d_vocab, dtype
    (1, 64, 64, 8, 8, 64, 4, "float32"),
    (1, 32, 32, 4, 2, 64, 4, "float32"),
    (1, 64, 16, 6, 1, 64, 4, "float32"),
    (1, 16, 128, 2, 4, 32, 4, "float64"),
    (1, 8, 64, 1, 8, 64, 4, "float64"),
    (1, 64, 64, 3, 1, 256, 4, "float32"),
    (1, 64, 64, 2, 2, 32, 300, "float32"),
]


def evaluation(small, threads, contexts, sites, layers, heads, d_model, d_vocab, dtype):
    """A simulation of this size with its batch at hand, nothing else to be allocated by an evaluation."""
    simulation = Simulation(
        small(
            f"model={{architecture: transformer, layers: {layers}, heads: {heads}, d_model: {d_model}, "
            "attention: causal, init: {std: 0.1}}",
            f"data.stationary={{kind: zipf, d_vocab: {d_vocab}, exponent: 1.0}}",
            f"data.n_ctx={sites}",
            f"data.batch={contexts}",
            f"training={{steps: 5, dtype: {dtype}, loss_positions: all}}",
            "replicas.seeds=1",
            "probes={}",
            "analyzers=[]",
        ),
        NumpyBackend(dtype, threads),
    )
    batch = simulation.contexts(0)
    simulation.contexts = lambda step: batch
    return simulation


def peak(simulation, evaluations=1):
    """Bytes at the peak of that many evaluations, beyond those before."""
    simulation.evaluate(0)
    tracemalloc.start()
    try:
        for _ in range(evaluations):
            simulation.evaluate(0)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def stated(simulation, threads, contexts, sites, layers, heads, d_model, d_vocab, dtype):
    """The formula of docs/architectures.md without the run's own 4 P, in bytes."""
    w = np.dtype(dtype).itemsize
    attention, state, logits = heads * sites**2, sites * d_model, sites * d_vocab
    part = parts.cut(1, contexts, sites * (heads * sites + 2 * d_model) * w, NumpyBackend.part_bytes)[0][
        1
    ].stop
    at_once = threads if part < contexts else 1
    numbers = layers * (attention + 5 * state) + max(2 * attention + 10 * state, 4 * logits)
    return w * (at_once * part * numbers + (1 + 2 * at_once) * simulation.parameters.flat.size)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_peak_is_as_stated(small, case):
    simulation = evaluation(small, *case)
    assert peak(simulation) == pytest.approx(stated(simulation, *case), rel=0.2)


def test_peak_of_two_threads_is_at_most_as_stated(small):
    """How much less depends on how they meet."""
    case = (2, *CASES[0][1:])
    simulation = evaluation(small, *case)
    assert stated(simulation, *CASES[0]) * 0.8 < peak(simulation) < stated(simulation, *case) * 1.2


def test_peak_grows_neither_with_steps_nor_with_large_batches(small):
    case = list(CASES[0])
    once, often = (peak(evaluation(small, *case), n) for n in (1, 4))
    assert often == pytest.approx(once, rel=0.02)
    case[1] *= 4
    assert peak(evaluation(small, *case)) == pytest.approx(once, rel=0.02)
