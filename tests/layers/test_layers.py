"""Every layer's backward pass against central differences, on sizes that are all different."""

import numpy as np
import pytest

from attndyn.backend.base import Backend
from attndyn.backend.numpy_backend import NumpyBackend
from attndyn.conformance.gradients import central_differences, relative_error
from attndyn.layers import attention, cross_entropy, embedding, projection

R, B, Q, K, V, M, H = 2, 5, 3, 4, 6, 7, 8
LIMIT = 1e-7


@pytest.fixture
def rng():
    return np.random.default_rng(3)


@pytest.fixture(params=["reference", "numpy"])
def backend(request):
    return Backend(np) if request.param == "reference" else NumpyBackend()


def check(output, backward, inputs, rng):
    """Compare `backward(d_output)` with differences of `sum(output() * d_output)` in every input."""
    d_output = rng.normal(size=output().shape)
    gradients = backward(d_output)
    for name, array in inputs.items():
        expected = central_differences(lambda: float((output() * d_output).sum()), array)
        assert relative_error(gradients[name], expected) <= LIMIT, name


def test_projection(rng):
    x, w = rng.normal(size=(R, K, M)), rng.normal(size=(R, M, H))

    def backward(d_y):
        return dict(zip("xw", projection.backward(d_y, x, w), strict=True))

    check(lambda: projection.forward(x, w), backward, {"x": x, "w": w}, rng)


def test_embedding(rng, backend):
    w_0, tokens = rng.normal(size=(R, V, M)), rng.integers(0, V, (R, K, B))
    assert embedding.forward(backend, w_0, tokens).shape == (R, B, K, M)
    assert np.array_equal(embedding.forward(backend, w_0, tokens)[1, 2, 3], w_0[1, tokens[1, 3, 2]])

    def backward(d):
        return {"w_0": embedding.backward(backend, d, tokens, V)}

    check(lambda: embedding.forward(backend, w_0, tokens), backward, {"w_0": w_0}, rng)


def log_weights(rng, shape):
    weights = rng.integers(0, 3, shape).astype(float)
    weights[:, 0] = 2.0
    with np.errstate(divide="ignore"):
        return np.log(weights)


@pytest.mark.parametrize("queries", ["some", "all"])
def test_attention_over_tokens(rng, backend, queries):
    table, weights = rng.normal(size=(R, K, K)), log_weights(rng, (R, K, B))
    query = rng.integers(0, K, (R, Q, B)) if queries == "some" else None

    def forward():
        return attention.over_tokens(backend, table, query, weights)

    def backward(d):
        return {"table": attention.over_tokens_backward(backend, d, forward(), query, K)}

    assert forward().shape == (R, K, Q if queries == "some" else K, B)
    np.testing.assert_allclose(forward().sum(axis=1), 1.0, rtol=1e-14)
    check(forward, backward, {"table": table}, rng)


@pytest.mark.parametrize("targets", ["tokens", "distributions", "shared distributions"])
@pytest.mark.parametrize("weights", ["equal", "each its own"])
def test_cross_entropy(rng, backend, targets, weights):
    logits = rng.normal(size=(R, V, Q, B))
    if targets == "tokens":
        goal = rng.integers(0, V, (R, Q, B))
    else:
        goal = rng.random((R, V, Q, 1 if targets.startswith("shared") else B))
        goal /= goal.sum(axis=1, keepdims=True)
    weight = np.full((R, 1, 1), 1 / (Q * B)) if weights == "equal" else rng.random((R, Q, B))

    def forward():
        return cross_entropy.forward_backward(backend, logits, goal, weight)[0]

    def backward(d_loss):
        d_logits = cross_entropy.forward_backward(backend, logits, goal, weight)[1]
        return {"logits": d_logits * d_loss[:, None, None, None]}

    assert forward().shape == (R,)
    check(forward, backward, {"logits": logits}, rng)
