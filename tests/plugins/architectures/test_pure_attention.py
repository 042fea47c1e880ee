"""Pure attention: gradients by central differences, and the three representations as one model."""

import numpy as np
import pytest

from attndyn.backend.base import Backend
from attndyn.backend.numpy_backend import NumpyBackend
from attndyn.conformance.gradients import central_differences, relative_error
from attndyn.data.contexts import Contexts, population
from attndyn.layers.parameters import Parameters
from attndyn.simulation import Simulation
from attndyn_plugins.architectures.pure_attention import PureAttention

LIMIT = 1e-7

REGIMES = [
    ("population", "last", "sampled", "population"),
    *(
        (regime, positions, targets, representation)
        for regime in ["sampled"]
        for positions in ("last", "all")
        for targets in ("sampled", "exact")
        for representation in ("counts", "positions")
    ),
]


def simulate(small, regime="sampled", positions="last", targets="sampled", representation="auto", *more):
    return Simulation(
        small(
            f"data.regime={regime}",
            f"training.loss_positions={positions}",
            f"data.targets={targets}",
            f"representation={representation}",
            "model.init.std=0.7",  # far from the origin: every term of the gradient counts
            *more,
        ),
        "numpy",
    )


@pytest.mark.parametrize("values", ["false", "true"])
@pytest.mark.parametrize("regime", REGIMES, ids="-".join)
def test_gradients(small, regime, values):
    simulation = simulate(small, *regime, f"model.value_projection={values}")
    simulation.evaluate(3)
    contexts = simulation.contexts(3)
    for replica in range(3):

        def loss(replica=replica):
            return simulation.architecture.loss_and_gradients(simulation.parameters, contexts)[0][replica]

        for name, array in simulation.parameters.items():
            expected = central_differences(loss, array[replica])
            assert np.abs(expected).max() > 1e-4, name  # there is something to compare
            assert relative_error(simulation.gradients[name][replica], expected) <= LIMIT, name


@pytest.mark.parametrize("name", ["W_0", "W_Q", "W_K", "W_V", "W_1"])
def test_a_wrong_sign_in_any_gradient_is_seen(small, name):
    simulation = simulate(small, "sampled", "last", "sampled", "counts", "model.value_projection=true")
    simulation.evaluate(0)
    contexts = simulation.contexts(0)
    expected = central_differences(
        lambda: simulation.architecture.loss_and_gradients(simulation.parameters, contexts)[0][0],
        simulation.parameters[name][0],
    )
    assert relative_error(-simulation.gradients[name][0], expected) > 1


@pytest.mark.parametrize("values", ["false", "true"])
@pytest.mark.parametrize("positions", ["last", "all"])
@pytest.mark.parametrize("targets", ["sampled", "exact"])
def test_counts_equal_positions(small, positions, targets, values):
    """The exact reduction: same loss and same gradients, to rounding."""
    by_counts, by_positions = (
        simulate(small, "sampled", positions, targets, r, f"model.value_projection={values}")
        for r in ("counts", "positions")
    )
    for step in range(4):
        np.testing.assert_allclose(by_counts.evaluate(step), by_positions.evaluate(step), rtol=1e-12)
        for name in by_counts.gradients:
            found, expected = by_counts.gradients[name], by_positions.gradients[name]
            assert relative_error(found, expected) <= 1e-12, name


def test_population_as_contexts_of_exact_proportions():
    """With counts proportional to π, and all pairs in the chain's proportions, nothing is approximated."""
    counts = np.array([5, 3, 2])
    transition = np.array([[0.6, 0.2, 0.2], [0.4, 0.4, 0.2], [0.3, 0.3, 0.4]])
    rng = np.random.default_rng(0)
    pi = counts / 10
    backend = NumpyBackend()
    model = PureAttention(PureAttention.Options(d_model=4), 3, 10, backend)
    flat = rng.normal(size=(1, sum(p.size for p in model.parameters)))
    parameters = Parameters(model.parameters, flat)
    # one context a pair (query, next), weighted by how often the pair comes
    query, following = (a.ravel() for a in np.meshgrid(range(3), range(3), indexing="ij"))
    by_pairs = Contexts(
        representation="counts",
        query=query[None, None],
        keys=None,
        log_weights=np.log(np.tile(counts, (9, 1)).T.astype(float))[None],
        targets=following[None, None],
        sample_weights=(pi[:, None] * transition).ravel()[None, None],
    )
    limit = population(pi[None], transition[None])
    (loss, gradients), (expected_loss, expected) = (
        model.loss_and_gradients(parameters, c) for c in (by_pairs, limit)
    )
    np.testing.assert_allclose(loss, expected_loss, rtol=1e-13)
    for name in expected:
        assert relative_error(gradients[name], expected[name]) <= 1e-12, name


def test_counts_converge_to_population(small):
    """s → ∞: counts over s fluctuate around π by 1/√s, so mean loss and gradients are off by 1/s."""
    limit = simulate(small, "population", "last", "sampled", "auto", "replicas.seeds=1")
    expected_loss, expected = limit.evaluate(0)[0], limit.gradients.flat
    lengths, deviations = (16, 64, 256, 1024), []
    for n_ctx in lengths:
        changes = (f"data.n_ctx={n_ctx}", "data.batch=4000", "replicas.seeds=1")
        sampled = simulate(small, "sampled", "last", "exact", "counts", *changes)
        steps = [(sampled.evaluate(step)[0], sampled.gradients.flat.copy()) for step in range(16)]
        loss, gradients = (np.mean(part, axis=0) for part in zip(*steps, strict=True))
        deviations.append(np.linalg.norm(gradients - expected) / np.linalg.norm(expected))
    slope = np.polyfit(np.log(lengths), np.log(deviations), 1)[0]
    assert -1.15 < slope < -0.85
    assert deviations[-1] < 0.01
    assert abs(loss - expected_loss) < 0.005


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_attention_map(small, dtype):
    simulation = Simulation(small(f"training.dtype={dtype}"), "numpy")
    limit = population(simulation.data.pi, simulation.data.transition).on(simulation.backend)
    a = simulation.architecture.attention(simulation.parameters, limit)
    assert a.shape == (3, 1, 1, 1, 4, 4)
    assert a.dtype == dtype
    w = {k: v[1] for k, v in simulation.parameters.items()}
    scores = w["W_0"] @ w["W_Q"][0, 0] @ (w["W_0"] @ w["W_K"][0, 0]).T / np.sqrt(5)
    expected = simulation.data.pi[1] * np.exp(scores)
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(a[1, 0, 0, 0], expected, rtol=1e-12 if dtype == "float64" else 1e-5)


def test_reference_backend_gives_the_same(small):
    spec = small("model.value_projection=true")
    fast, plain = Simulation(spec, NumpyBackend()), Simulation(spec, Backend(np))
    np.testing.assert_allclose(fast.evaluate(0), plain.evaluate(0), rtol=1e-13)
    np.testing.assert_allclose(fast.gradients.flat, plain.gradients.flat, rtol=1e-10, atol=1e-14)
