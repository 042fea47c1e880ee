"""Probes for large vocabularies where replicas differ: each has its own frequencies, bands and contexts."""

import numpy as np
import pytest

from attndyn.simulation import Simulation
from attndyn.simulation.probe import State
from attndyn.simulation.probe_batch import probe_batch
from attndyn.simulation.probes.attention import AttentionOptions, AttentionProbe
from attndyn.simulation.probes.token_classes import TokenClassesOptions, TokenClassesProbe
from attndyn.simulation.token_bands import bands
from attndyn.simulation.token_map import token_rows
from attndyn.spec import parse_spec

SPEC = """
name: replicas
data:
  kind: markov
  stationary: {kind: geometric, d_vocab: 8, ratio: 0.5}
  transition: {kind: sticky, lam: 0.4}
  n_ctx: 9
  batch: 24
model: {architecture: transformer, d_model: 6, heads: 2, layers: 2, attention: causal, init: {std: 0.5}}
optimizer: {kind: gd, lr: 1.0}
training: {steps: 1, loss_positions: all}
replicas: {vary: {data.stationary.ratio: [0.3, 0.9]}}
probes: {loss: {every: 1}}
"""


def measure(probe, made):
    return probe.measure(State(0, made.parameters, made.gradients, np.zeros(2)))


def test_every_replica_has_its_own_bands_and_frequencies():
    made = Simulation(parse_spec(SPEC), "numpy")
    data = made.data
    found = measure(TokenClassesProbe(TokenClassesOptions(every=1, most=3, contexts=16), made), made)
    band = bands(data.pi, data.tokens, 0.5, 0.9)
    assert not np.array_equal(band[0], band[1])
    keys = probe_batch(made, 16).keys.swapaxes(1, 2)  # (R, B, K)
    a = made.architecture.attention(made.parameters, probe_batch(made, 16))
    norms = np.linalg.norm(made.parameters["W_0"], axis=2)
    for r in range(2):
        # attention that tells no place from another: a token's share of those seen so far
        seen = (keys[r][..., None] == np.arange(8)).cumsum(axis=1) / np.arange(1, 10)[:, None]
        share = seen.mean(axis=(0, 1))
        np.testing.assert_allclose(found["uniform_token"][r], share[:3], rtol=1e-12)
        given = np.zeros((2, 2, 8))
        np.add.at(given, (..., keys[r].ravel()), a[r].mean(axis=3).swapaxes(1, 2).reshape(2, 2, -1) / 16)
        for number in range(3):
            own = band[r] == number
            np.testing.assert_allclose(found["uniform_band"][r, number], share[own].sum(), atol=1e-15)
            by_band = found["attention_band"][r, ..., number]
            np.testing.assert_allclose(by_band, given[..., own].sum(axis=-1), atol=1e-14)
            if own.any():
                np.testing.assert_allclose(found["norm_band"][r, number], norms[r, own].mean(), rtol=1e-12)


def test_entropy_of_rows_of_a_large_vocabulary():
    made = Simulation(parse_spec(SPEC), "numpy")
    made.data.transition = None  # as for a text of many words
    probe = AttentionProbe(AttentionOptions(every=1, most=3), made)
    found = measure(probe, made)
    rows = token_rows(made, np.arange(3))(made.parameters)  # (R, layer, head, row, token)
    entropy = -(rows * np.log(np.where(rows > 0, rows, 1))).sum(axis=-1)
    np.testing.assert_allclose(found["entropy"], entropy, rtol=1e-12)
    assert (found["entropy"] <= np.log(8)).all()
    np.testing.assert_allclose(found["attention"][..., :3], rows[..., :3], rtol=1e-12)
    np.testing.assert_allclose(found["attention"][..., 3], rows[..., 3:].sum(axis=-1), rtol=1e-12)


@pytest.mark.parametrize("contexts", [5, 24, 60])
def test_contexts_are_as_many_as_asked_for(contexts):
    made = Simulation(parse_spec(SPEC), "numpy")
    probe = TokenClassesProbe(TokenClassesOptions(every=1, contexts=contexts), made)
    assert probe._contexts.keys.shape == (2, 9, contexts)
