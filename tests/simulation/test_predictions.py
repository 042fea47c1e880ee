"""N-grams of texts against loops over the text, and the first-order fit of constructed predictions."""

from itertools import pairwise

import numpy as np
import pytest

from attndyn.backend.numpy_backend import NumpyBackend
from attndyn.data.bigram import weight_of_frequencies
from attndyn.errors import SpecError
from attndyn.simulation import Simulation
from attndyn.simulation.bigram_table import TooLarge
from attndyn.simulation.first_order import FirstOrderFit
from attndyn.simulation.probe import State
from attndyn.simulation.probe_batch import probe_batch
from attndyn.simulation.probes.predictions import PredictionsOptions, PredictionsProbe
from attndyn.spec import parse_spec

# runs forwards only: a is followed by b or c, and so on; the last word of a document is followed by nothing
DOCUMENTS = ["a b c d e a c d a b d e", "c d e b c e a b c d z", "a c e b d a b c d e", "b c d a b d e a c y"]
SPEC = """
name: text
data:
  kind: corpus
  source: {{kind: text, text: "{text}"}}
  documents: "|"
  n_ctx: 5
  batch: 4
model: {{architecture: transformer, d_model: 6, heads: 2, layers: 2, attention: causal, init: {{std: 0.5}}}}
optimizer: {{kind: gd, lr: 1.0}}
training: {{steps: 1, loss_positions: all}}
replicas: {{seeds: 3}}
probes: {{loss: {{every: 1}}}}
"""


def simulation(documents=DOCUMENTS, *overrides):
    return Simulation(parse_spec(SPEC.format(text="|".join(documents)), overrides=overrides), "numpy")


@pytest.fixture
def sparse(monkeypatch):
    """No table of pairs, as for a large vocabulary."""
    monkeypatch.setattr("attndyn.data.corpus.source.MAX_DENSE", 1)


def measure(made, **options):
    probe = PredictionsProbe(PredictionsOptions(every=1, **options), made)
    return probe.measure(State(0, made.parameters, made.gradients, np.zeros(3)))


def bigram_by_loops(made):
    """P and π from the documents, word by word."""
    index = {word: i for i, word in enumerate(made.data.tokens)}
    count, occurs = np.zeros((len(index), len(index))), np.zeros(len(index))
    for document in DOCUMENTS:
        words = [index[word] for word in document.split()]
        for word, after in pairwise(words):
            count[word, after] += 1
        for word in words:
            occurs[word] += 1
    pi = occurs / occurs.sum()
    alpha = weight_of_frequencies(made.data.pairs, pi)
    assert 0 < alpha < 100
    return (count + alpha * pi) / (count.sum(axis=1, keepdims=True) + alpha), pi


@pytest.mark.parametrize(("parts", "positions"), [(2**22, "all"), (1, "all"), (1, "last")])
def test_divergences_of_a_text_against_loops(monkeypatch, sparse, parts, positions):
    monkeypatch.setattr("attndyn.simulation.probes.predictions.PART_ENTRIES", parts)
    made = simulation(DOCUMENTS, f"training.loss_positions={positions}")
    assert made.data.transition is None
    found, contexts = measure(made, contexts=6), probe_batch(made, 6)
    chain, pi = bigram_by_loops(made)
    np.testing.assert_allclose(made.data.pi[0], pi)
    logits = made.architecture.logits(made.parameters, contexts)
    p = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    a = made.architecture.attention(made.parameters, contexts)
    keys = contexts.keys.swapaxes(1, 2)
    first = 0 if positions == "all" else 4
    n = keys[0, :, first:].size
    assert keys.shape == (3, 6, 5)
    kl, told = np.zeros((3, 4, 2, 2)), np.zeros((3, 3, 2, 2))

    def far(q, other):
        return (q * np.log(np.where(q > 0, q, 1) / other)).sum() / n

    for r, b, i in np.ndindex(keys.shape):
        if i < first:
            continue
        row = chain[keys[r, b, i]]
        kl[r, 0] += far(pi, p[r, b, i - first])
        kl[r, 1] += far(row, p[r, b, i - first])
        told[r, 0] += far(pi, np.full(len(pi), 1 / len(pi)))
        told[r, 1] += far(row, pi)
        for layer, head in np.ndindex(2, 2):
            mixed = a[r, layer, b, head, i] @ chain[keys[r, b]]
            kl[r, 2, layer, head] += far(mixed, p[r, b, i - first])
            told[r, 2, layer, head] += far(mixed, pi)
    for i, name in enumerate(("unigram", "bigram")):
        np.testing.assert_allclose(found[f"kl_{name}"], kl[:, i, 0, 0], rtol=1e-11)
        np.testing.assert_allclose(found[f"information_{name}"], told[:, i, 0, 0], rtol=1e-11)
    np.testing.assert_allclose(found["kl_pseudo_bigram"], kl[:, 2], rtol=1e-11)
    np.testing.assert_allclose(found["information_pseudo_bigram"], told[:, 2], rtol=1e-11)
    assert (found["information_unigram"] > 0.1).all()


def test_a_table_of_pairs_or_none_is_the_same(monkeypatch):
    found = []
    for most in (1, 512):
        monkeypatch.setattr("attndyn.data.corpus.source.MAX_DENSE", most)
        found.append(measure(simulation(), repeats=2))
    for name, values in found[0].items():
        np.testing.assert_array_equal(values, found[1][name], err_msg=name)
        assert np.isfinite(values).all()


@pytest.mark.parametrize("most", [1, 512])
def test_certain_successors_have_a_floor_of_zero(monkeypatch, most):
    monkeypatch.setattr("attndyn.data.corpus.source.MAX_DENSE", most)
    circle = "abcde" * 4
    documents = [" ".join(circle[i : i + 9]) for i in range(5)] * 8
    made = simulation(documents)
    after = np.array([made.data.tokens.index("bcdea"["abcde".index(word)]) for word in made.data.tokens])

    def logits(_, contexts):
        return 40.0 * np.eye(5)[after[contexts.keys.swapaxes(1, 2)]]

    monkeypatch.setattr(made.architecture, "logits", logits)
    found = measure(made, contexts=32)
    np.testing.assert_allclose(found["kl_bigram"], 0, atol=1e-6)
    np.testing.assert_allclose(found["information_bigram"], np.log(5), atol=1e-4)
    np.testing.assert_allclose(found["shrinkage"], 0, atol=1e-6)


def test_known_chains_of_their_own():
    spec = """
    name: chains
    data: {kind: markov, stationary: {kind: zipf, d_vocab: 5, exponent: 1.0},
           transition: {kind: sticky, lam: 0.3}, n_ctx: 6, batch: 8}
    model: {architecture: transformer, d_model: 4, attention: causal}
    optimizer: {kind: gd, lr: 1.0}
    training: {steps: 1, loss_positions: all, dtype: float64}
    replicas: {vary: {data.transition.lam: [0.1, 0.6, 0.9]}}
    probes: {loss: {every: 1}}
    """
    made = Simulation(parse_spec(spec), "numpy")
    found, contexts = measure(made, contexts=20), probe_batch(made, 20)
    assert contexts.keys.shape == (3, 6, 20)  # more than a batch has
    for r, (pi, chain) in enumerate(zip(made.data.pi, made.data.transition, strict=True)):
        rows = chain[contexts.keys[r].ravel()]
        told = (rows * np.log(rows / pi)).sum(axis=1).mean()
        np.testing.assert_allclose(found["information_bigram"][r], told, rtol=1e-10)
        logits = made.architecture.logits(made.parameters, contexts)[r].reshape(-1, 5)
        log_p = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
        at_query = chain[contexts.query[r].T.ravel()]
        kl = (at_query * (np.log(at_query) - log_p)).sum(axis=1).mean()
        np.testing.assert_allclose(found["kl_bigram"][r], kl, rtol=1e-10)
    assert (found["shrinkage"] == 0).all()


def test_shuffled_text_has_no_bigram():
    rng = np.random.default_rng(0)
    words = [f"w{i}" for i in np.minimum(rng.zipf(1.4, 20000), 2500)]
    made = simulation([" ".join(words)], "data.documents=null", "training.dtype=float32")
    assert made.data.transition is None
    found = measure(made, repeats=2)
    assert (found["information_bigram"] == 0).all()
    assert (found["information_pseudo_bigram"] == 0).all()
    assert (found["shrinkage"] == 1).all()


def test_replicas_share_one_table(sparse):
    made = simulation()
    probe = PredictionsProbe(PredictionsOptions(every=1), made)
    assert probe._bigram._rows.shape == (1, 5, 7)
    assert len(probe._parts[0].place) == 1


def test_a_table_that_is_too_large_is_refused_before_it_is_made(monkeypatch, sparse):
    monkeypatch.setattr("attndyn.simulation.bigram_table.MAX_TABLE", 34)
    message = r"probes.predictions.contexts: is 9; bigrams of 5 tokens × 7 are 35 entries; at most 34"
    with pytest.raises(SpecError, match=message):
        measure(simulation(), contexts=9)
    monkeypatch.setattr("attndyn.simulation.bigram_table.MAX_TABLE", 35)
    measure(simulation(), contexts=9)


def test_means_over_too_many_queries_are_refused_before_they_are_made(monkeypatch):
    queries = np.tile([[0, 1, 2]], (2, 8, 1))
    most = 2 * 3 * queries[0].size  # halves, tokens, queries; the same for both replicas
    monkeypatch.setattr("attndyn.simulation.first_order.MAX_WEIGHTS", most)
    assert FirstOrderFit(queries, 4, NumpyBackend()).weights.size == most
    monkeypatch.setattr("attndyn.simulation.first_order.MAX_WEIGHTS", most - 1)
    monkeypatch.setattr("attndyn.simulation.first_order._weights", None)
    with pytest.raises(TooLarge, match="means over 2 × 3 repeated tokens × 24 queries are 144 entries"):
        FirstOrderFit(queries, 4, NumpyBackend())
    monkeypatch.setattr("attndyn.simulation.first_order.MAX_WEIGHTS", 1)
    with pytest.raises(SpecError, match=r"probes.predictions.contexts: is 9; means over 2 × \d+ repeated"):
        measure(simulation(), contexts=9, repeats=2)


# -- how much hangs on the last token ---------------------------------------------------------------------

N_TOKENS, V = 12, 40


def batch(rng, n_contexts=64, n_queries=32):
    share = 1 / np.arange(1, N_TOKENS + 1)
    return rng.choice(N_TOKENS, (2, n_contexts, n_queries), p=share / share.sum())


def token_share(queries, logits, repeats=8):
    """Of predictions softmax(logits), `(R, B, Q, V)`."""
    p = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    p = p.reshape(len(p), -1, p.shape[-1])
    fit = FirstOrderFit(queries, repeats, NumpyBackend())
    entropy = -(p * np.log(p)).sum(axis=-1)
    residual, spread = fit.measure(
        fit.weights @ p[:, None], (fit.weights @ entropy[:, None, :, None])[..., 0]
    )
    assert np.isfinite(residual).all()
    return 1 - residual / spread, residual, spread


@pytest.mark.parametrize("of", ["context", "query"])
def test_predictions_that_ignore_the_last_token_have_a_share_of_zero(of):
    shares = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        queries = batch(rng)
        shape = (2, 64, 1 if of == "context" else 32, V)
        logits = np.broadcast_to(0.3 * rng.normal(size=shape), (2, 64, 32, V))
        shares.append(token_share(queries, logits)[0])
    assert abs(np.mean(shares)) < 0.005
    assert np.abs(shares).max() < 0.03


@pytest.mark.parametrize("part", [0.2, 0.5, 0.8])
def test_the_share_of_the_last_token_beside_the_context(part):
    shares = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        queries = batch(rng)
        of_token = rng.normal(size=(N_TOKENS, V))
        of_token -= of_token.mean(axis=0)
        weight = np.bincount(queries.ravel(), minlength=N_TOKENS) / queries.size
        of_token -= weight @ of_token
        of_token /= np.sqrt((weight @ of_token**2).mean())
        of_context = rng.normal(size=(2, 64, 1, V))
        logits = np.sqrt(part) * of_token[queries] + np.sqrt(1 - part) * of_context
        shares.append(token_share(queries, 0.2 * logits)[0])
    np.testing.assert_allclose(np.mean(shares), part, atol=0.02)


def test_halves_of_unequal_weight_are_no_spread():
    """What halves differ by is added to what is seen, never taken from it."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        queries = batch(rng, 10, 3)
        # a half that weighs otherwise than its queries has another entropy: some are flat, most sharp
        sharpness = rng.permuted(np.repeat([0.1, 5.0], [2, 8]).reshape(10, 1, 1), axis=0)
        logits = np.broadcast_to(sharpness * rng.normal(size=V), (2, 10, 3, V))
        _, residual, spread = token_share(queries, logits, repeats=2)
        fit = FirstOrderFit(queries, 2, NumpyBackend())
        p = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
        p = p.reshape(2, 30, V)
        for r in range(2):
            # of every query its weight in the mean of all: a token's part by half, and of that the contexts'
            whole = (fit._parts[r] * fit._sizes[r])[..., None] * fit.weights[r]
            weight = whole.sum(axis=(0, 1))
            mean = weight @ p[r]
            seen = weight @ (p[r] * np.log(p[r])).sum(axis=1) - mean @ np.log(mean)
            assert weight.sum() == pytest.approx(1)
            assert spread[r] >= seen - 1e-12
            assert residual[r] >= -1e-12


def test_first_order_predictions_have_no_residual():
    rng = np.random.default_rng(0)
    queries = batch(rng)
    share, residual, spread = token_share(queries, rng.normal(size=(N_TOKENS, V))[queries])
    np.testing.assert_allclose(residual, 0, atol=1e-13)
    np.testing.assert_allclose(share, 1, rtol=1e-12)
    assert (spread > 0.1).all()


@pytest.mark.parametrize("repeats", [2, 3, 8, 20, 1000])
def test_tokens_enter_that_are_in_enough_contexts(repeats):
    queries = batch(np.random.default_rng(1), 30, 3)
    fit = FirstOrderFit(queries, repeats, NumpyBackend())
    for r, of_replica in enumerate(queries):
        entering = 0
        for token in range(N_TOKENS):
            contexts = [(of_replica[h::2] == token).any(axis=1).sum() for h in (0, 1)]
            if min(contexts) >= repeats / 2:
                entering += (of_replica == token).sum()
        assert fit.share[r] == pytest.approx(entering / 90)
    sums = fit.weights.sum(axis=-1)
    assert np.isin(np.round(sums, 12), [0, 1]).all()
    if repeats == 1000:
        assert np.isnan(fit.measure(np.zeros((2, 2, 1, V)), np.zeros((2, 2, 1)))).all()


def test_the_probe_says_how_many_queries_enter():
    made = simulation()
    queries = probe_batch(made, 6).query[0].T
    few, many = measure(made, contexts=6, repeats=6), measure(made, contexts=6, repeats=2)
    for repeats, found in ((6, few), (2, many)):
        fit = FirstOrderFit(queries[None], repeats, NumpyBackend())
        np.testing.assert_allclose(found["fit_share"], fit.share[0])
    assert 0 < few["fit_share"][0] < many["fit_share"][0] <= 1
