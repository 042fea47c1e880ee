"""Cross-entropy of states: the same for a large vocabulary, whose logits stay as they are, as for a small."""

import numpy as np
import pytest

from attndyn.backend.numpy_backend import NumpyBackend
from attndyn.layers import cross_entropy

BACKEND = NumpyBackend()
R, B, Q = 2, 5, 3


def case(d_vocab, weights):
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(R, B, Q, d_vocab))
    targets = rng.integers(0, d_vocab, (R, Q, B))
    if weights == "equal":
        return logits, targets, np.full((R, 1, 1), 1 / (Q * B))
    shape = (R, Q, B) if weights == "each" else (R, Q, 1)
    sample_weights = rng.random(shape)
    return logits, targets, sample_weights / (sample_weights.sum(axis=(1, 2), keepdims=True) * (B * Q))


@pytest.mark.parametrize("weights", ["equal", "each", "by query"])
@pytest.mark.parametrize("d_vocab", [cross_entropy.WIDE, cross_entropy.WIDE + 1, 100])
def test_loss_and_gradient_written_out(d_vocab, weights):
    logits, targets, sample_weights = case(d_vocab, weights)
    kept = logits.copy()
    loss, d_logits = cross_entropy.of_states(BACKEND, logits, targets, sample_weights)
    assert np.array_equal(logits, kept)
    assert d_logits.shape == logits.shape
    by_place = np.broadcast_to(sample_weights, (R, Q, B)).transpose(0, 2, 1)
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=3, keepdims=True)
    hit = np.eye(d_vocab)[targets.transpose(0, 2, 1)]
    expected = -(by_place * np.log((probabilities * hit).sum(axis=3))).sum(axis=(1, 2))
    np.testing.assert_allclose(loss, expected, rtol=1e-13)
    np.testing.assert_allclose(d_logits, (probabilities - hit) * by_place[..., None], atol=1e-15)


def test_nothing_is_copied_for_a_large_vocabulary():
    logits, targets, weights = case(100, "equal")
    _, d_logits = cross_entropy.of_states(BACKEND, logits, targets, weights)
    assert d_logits.flags.c_contiguous
