"""Markov contexts: counts are counts of the positions, batches can be made again, sets are shuffled whole."""

import numpy as np
import pytest

from attndyn import registry

POSITIONS = ["last", "all"]


def source(small, *changes, positions="last"):
    spec = small(*changes, f"training.loss_positions={positions}")
    replicas = spec.replicas_expanded()
    data = registry.get("data", "markov")
    return data([s.data for s in replicas.specs], replicas.seeds, positions)


def same(one, other):
    return all(np.array_equal(getattr(one, f), getattr(other, f)) for f in ("log_weights", "targets"))


@pytest.mark.parametrize("positions", POSITIONS)
def test_counts_count_the_positions(small, positions):
    data = source(small, positions=positions)
    counts, places = (data.batch(5, r) for r in ("counts", "positions"))
    expected = np.stack([(places.keys == token).sum(axis=1) for token in range(4)], axis=1)
    np.testing.assert_allclose(np.exp(counts.log_weights), expected, rtol=1e-14)
    assert expected.sum(axis=1).tolist() == [[12] * 7] * 3
    if positions == "last":
        assert np.array_equal(counts.query, places.query)
        assert np.array_equal(counts.targets, places.targets)


def test_all_positions_by_counts(small):
    """Each token is a query as often as it occurs, its target the mean of what followed it."""
    data = source(small, positions="all")
    counts, places = (data.batch(5, r) for r in ("counts", "positions"))
    replica, context, token = 1, 3, 0
    here = places.query[replica, :, context] == token
    followers = places.targets[replica, here, context]
    assert here.sum() > 1
    assert counts.sample_weights[replica, token, context] == pytest.approx(here.sum() / (12 * 7))
    expected = np.bincount(followers, minlength=4) / here.sum()
    np.testing.assert_allclose(counts.targets[replica, :, token, context], expected)
    np.testing.assert_allclose(counts.sample_weights.sum(axis=(1, 2)), 1.0)


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("representation", ["counts", "positions"])
def test_targets_follow_the_queries(small, positions, representation):
    exact = source(small, "data.targets=exact", positions=positions).batch(2, representation)
    query = np.arange(4)[None, :, None] if exact.query is None else exact.query
    rows = source(small).transition[0]
    replica, place, context = 0, -1, 0
    assert np.array_equal(exact.targets[replica, :, place, context], rows[query[replica, place, context]])


def test_a_batch_can_be_made_again_alone(small):
    walked = source(small)
    batches = [walked.batch(step, "counts") for step in range(4)]
    assert same(source(small).batch(3, "counts"), batches[3])
    assert not same(batches[2], batches[3])


def test_a_replica_does_not_depend_on_the_others(small):
    among = source(small).batch(4, "positions").of(2)
    alone = source(small, "replicas={seeds: 1, base_seed: 2}").batch(4, "positions")
    assert np.array_equal(among.keys, alone.keys)
    assert same(among, alone)


def test_equal_seeds_share_contexts_and_different_laws_do_not(small):
    data = source(small, "replicas={seeds: 2, vary: {optimizer.lr: [0.1, 0.2]}}").batch(0, "positions")
    assert np.array_equal(data.keys[0], data.keys[2])
    assert not np.array_equal(data.keys[0], data.keys[1])
    data = source(small, "replicas={seeds: 1, vary: {data.transition.lam: [0.1, 0.9]}}").batch(0, "positions")
    stays = (data.keys[:, 1:] == data.keys[:, :-1]).mean(axis=(1, 2))
    assert stays[1] > stays[0] + 0.2


def test_a_fixed_set_is_shuffled_whole_each_epoch(small):
    data = source(small, "data.size=15", "data.batch=7")
    seen = np.concatenate([data.batch(step, "positions").keys for step in range(15)], axis=2)
    contexts = [tuple(c) for c in seen[0].T]  # 105 of replica 0: seven epochs of 15
    epochs = [contexts[15 * e : 15 * (e + 1)] for e in range(7)]
    assert all(sorted(epoch) == sorted(epochs[0]) for epoch in epochs)
    assert epochs[0] != epochs[1]
    assert same(source(small, "data.size=15").batch(9, "counts"), data.batch(9, "counts"))


def test_population(small):
    data = source(small, "data.regime=population")
    assert data.representations == ("population",)
    limit = data.batch(0, "population")
    np.testing.assert_allclose(np.exp(limit.log_weights[..., 0]), data.pi, rtol=1e-14)
    assert np.array_equal(limit.targets[..., 0], data.transition.transpose(0, 2, 1))


def test_long_contexts_are_counted_right(small):
    """More positions than a byte can count."""
    data = source(small, "data.n_ctx=300", "data.transition.lam=0.99")
    np.testing.assert_allclose(np.exp(data.batch(0, "counts").log_weights).sum(axis=1), 300, rtol=1e-13)


def test_probes_look_at_as_many_contexts_as_they_ask_for(small):
    data = source(small, positions="all")
    few, many = data.probe_contexts(5), data.probe_contexts(20)  # a batch has 7
    np.testing.assert_array_equal(few.keys, data.batch(2**62, "positions").keys[..., :5])
    assert many.keys.shape == many.query.shape == (3, 12, 20)
    np.testing.assert_array_equal(many.keys[..., :5], few.keys)
    np.testing.assert_array_equal(many.keys[..., 7:14], data.batch(2**62 + 1, "positions").keys)


@pytest.mark.parametrize("n_contexts", [5, 12, 20, 64])
def test_of_a_fixed_set_no_context_is_looked_at_twice(small, n_contexts):
    """Seven do not divide twenty: a batch is in two epochs."""
    data = source(small, "data.size=20", "data.n_ctx=64", positions="all")
    found = data.probe_contexts(n_contexts).keys
    assert found.shape == (3, 64, min(n_contexts, 20))
    trained = np.concatenate([data.batch(step, "positions").keys for step in range(20)], axis=-1)
    for of_replica, of_set in zip(found, trained, strict=True):
        contexts = {tuple(context) for context in of_replica.T}
        assert len(contexts) == min(n_contexts, 20)
        assert contexts <= {tuple(context) for context in of_set.T}
