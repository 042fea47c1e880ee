"""Probes for large vocabularies, against brute force and models whose predictions are known."""

import numpy as np
import pytest

from attndyn.backend.numpy_backend import NumpyBackend
from attndyn.errors import PluginError, SpecError
from attndyn.layers.architecture import Architecture
from attndyn.simulation import Simulation
from attndyn.simulation.probe import State
from attndyn.simulation.probe_batch import probe_batch
from attndyn.simulation.probes.attention import AttentionOptions, AttentionProbe
from attndyn.simulation.probes.predictions import PredictionsOptions, PredictionsProbe
from attndyn.simulation.probes.token_classes import TokenClassesOptions, TokenClassesProbe
from attndyn.simulation.token_bands import BANDS, bands, named
from attndyn.simulation.token_map import token_map, token_rows
from attndyn.spec import parse_spec

SPEC = """
name: text
data:
  kind: markov
  stationary: {kind: geometric, d_vocab: 5, ratio: 0.5}
  transition: {kind: sticky, lam: 0.4}
  n_ctx: 9
  batch: 24
model: {architecture: transformer, d_model: 6, heads: 2, layers: 2, attention: causal, init: {std: 0.5}}
optimizer: {kind: gd, lr: 1.0}
training: {steps: 1, loss_positions: all}
replicas: {seeds: 2}
probes: {loss: {every: 1}}
"""


@pytest.fixture
def simulation():
    return Simulation(parse_spec(SPEC), "numpy")


def measure(probe, simulation):
    state = State(0, simulation.parameters, simulation.gradients, np.zeros(2))
    return probe.measure(state)


# -- bands ------------------------------------------------------------------------------------------------


def test_bands_by_share_of_the_text():
    tokens = ["a", "<unk>", "b", "c", "d"]
    pi = np.array([[0.1, 0.5, 0.2, 0.16, 0.04], [0.25, 0.5, 0.1, 0.1, 0.05]])
    found = bands(pi, tokens, 0.5, 0.9)
    names = [[BANDS[i] for i in row] for row in found]
    # without <unk> the first row is b .4, c .32, a .2, d .08, the second a .5, b .2, c .2, d .1
    assert names[0] == ["medium", "<unk>", "high", "high", "low"]
    assert names[1] == ["high", "<unk>", "medium", "medium", "low"]


def test_named_tokens_come_by_frequency():
    pi = np.array([0.2, 0.5, 0.3])
    assert named(pi, ["x", "y", "z"], ["x", "y"], 1).tolist() == [1, 0]
    assert named(pi, ["x", "y", "z"], None, 2).tolist() == [1, 2]


# -- attention by class -----------------------------------------------------------------------------------


def test_attention_by_class_against_loops(simulation):
    options = TokenClassesOptions(every=1, tokens=["3", "0"], lags=3, contexts=5)
    probe = TokenClassesProbe(options, simulation)
    found, contexts = measure(probe, simulation), probe_batch(simulation, 5)
    a = simulation.architecture.attention(simulation.parameters, contexts)
    band = bands(simulation.data.pi, simulation.data.tokens, 0.5, 0.9)
    token = np.zeros((2, 2, 2, 2))
    by_band, by_lag = np.zeros((2, 2, 2, 3)), np.zeros((2, 2, 2, 5))
    for r, context, query, key in np.ndindex(2, 5, 9, 9):
        value, label = a[r, :, context, :, query, key] / 45, contexts.keys[r, key, context]
        for at, wanted in enumerate((0, 3)):
            token[r, :, :, at] += value * (label == wanted)
        by_band[r, :, :, band[r, label]] += value
        if query >= 3:
            by_lag[r, :, :, min(query - key, 3) if key <= query else 4] += value * 9 / 6
    np.testing.assert_allclose(found["attention_token"], token, rtol=1e-12)
    np.testing.assert_allclose(found["attention_band"], by_band, rtol=1e-12)
    np.testing.assert_allclose(found["attention_lag"], by_lag, rtol=1e-12)
    np.testing.assert_allclose(
        found["entropy"], -(a * np.log(a + 1e-300)).sum(5).mean(axis=(2, 4)), rtol=1e-12
    )
    np.testing.assert_allclose(
        found["norm_token"], np.linalg.norm(simulation.parameters["W_0"][:, [0, 3]], axis=2)
    )
    assert probe.declare().labels["named"] == ["0", "3"]
    declared = probe.declare()
    assert declared.labels["band"] == ["high", "medium", "low"]  # no <unk>
    np.testing.assert_array_equal(declared.fixed["token_band"].values, np.array(BANDS)[band])


def test_shares_sum_to_one_and_uniform_attention_is_at_its_reference(simulation):
    probe = TokenClassesProbe(TokenClassesOptions(every=1), simulation)
    found = measure(probe, simulation)
    for name in ("band", "lag"):
        np.testing.assert_allclose(found[f"attention_{name}"].sum(axis=-1), 1, rtol=1e-12)
        np.testing.assert_allclose(found[f"uniform_{name}"].sum(axis=-1), 1, rtol=1e-12)
    simulation.parameters.flat[...] = 0
    found = measure(probe, simulation)
    for name in ("token", "band", "lag"):
        expected = np.broadcast_to(found[f"uniform_{name}"][:, None, None], found[f"attention_{name}"].shape)
        np.testing.assert_allclose(found[f"attention_{name}"], expected, rtol=1e-12)
    np.testing.assert_allclose(found["uniform_entropy"], np.log(np.arange(1, 10)).mean(), rtol=1e-12)


def test_a_text_with_words_outside_has_a_band_of_them(tmp_path):
    simulation = of_text(tmp_path, "data.tokenizer={kind: word, size: 16}")
    declared = TokenClassesProbe(TokenClassesOptions(every=1), simulation).declare()
    assert declared.labels["band"] == list(BANDS)
    band = dict(zip(simulation.data.tokens, declared.fixed["token_band"].values[0], strict=True))
    assert band["<unk>"] == "<unk>"
    assert set(band.values()) == set(BANDS)


def test_what_is_measured_is_within_its_bounds(tmp_path, simulation):
    """At first, and where attention is as uneven as it can be."""
    for scale in (1.0, 0.0, 30.0):
        simulation.parameters.flat *= scale
        for cls, options in (
            (TokenClassesProbe, TokenClassesOptions(every=1)),
            (AttentionProbe, AttentionOptions(every=1)),
        ):
            probe = cls(options, simulation)
            found = measure(probe, simulation)
            for name, declared in probe.declare().variables.items():
                low, high = np.nanmin(found[name]), np.nanmax(found[name])
                assert declared.valid_min is not None
                assert low >= declared.valid_min - 1e-12, name
                assert declared.valid_max is None or high <= declared.valid_max + 1e-12, name
        simulation = of_text(tmp_path) if scale == 0 else simulation


def test_a_probe_of_places_is_refused_where_it_stands(monkeypatch):
    made = Simulation(parse_spec(SPEC.replace("loss:", "token_classes:"), "a.yaml"), "numpy")
    monkeypatch.setattr(made.architecture, "representations", lambda loss_positions: ("counts",))
    with pytest.raises(SpecError, match=r"^a.yaml:13:\d+: probes.token_classes: needs contexts of positions"):
        made.probes["token_classes"]


def test_a_band_must_come_after_the_one_before():
    with pytest.raises(SpecError, match=r"probes.token_classes.medium: is 0.3; must be more than high, 0.5"):
        parse_spec(SPEC, overrides=("probes.token_classes={every: 1, medium: 0.3}",))
    with pytest.raises(SpecError, match=r"analyzers\[0\]\.medium: is 0.3; must be more than high, 0.5"):
        parse_spec(SPEC, overrides=("analyzers=[{kind: band_retraction, medium: 0.3}]",))


def test_an_order_ends_at_a_share_that_is_no_higher():
    with pytest.raises(SpecError, match=r"analyzers\[0\]\.low: is 0.95; allowed: at most level, 0.9"):
        parse_spec(SPEC, overrides=("analyzers=[{kind: markov_fit, low: 0.95}]",))


# -- predictions ------------------------------------------------------------------------------------------


def pretend(monkeypatch, simulation, rule):
    """Let the model predict `rule(replica, tokens so far)` at every place, and attend to its own place."""

    def logits(_, contexts):
        keys = contexts.keys.swapaxes(1, 2)
        out = np.empty((*keys.shape, 5))
        for r, b, i in np.ndindex(keys.shape):
            out[r, b, i] = np.log(rule(r, keys[r, b, : i + 1])) + 3.0  # logits are known up to a constant
        return out

    def attention(_, contexts):
        n, (n_replicas, places, n_contexts) = 2, contexts.keys.shape
        return np.broadcast_to(np.eye(places), (n_replicas, n, n_contexts, n, places, places))

    monkeypatch.setattr(simulation.architecture, "logits", logits)
    monkeypatch.setattr(simulation.architecture, "attention", attention)
    return measure(PredictionsProbe(PredictionsOptions(every=1), simulation), simulation)


def test_a_model_that_is_the_chain(monkeypatch, simulation):
    chain = simulation.data.transition
    found = pretend(monkeypatch, simulation, lambda r, seen: chain[r, seen[-1]])
    np.testing.assert_allclose(found["kl_bigram"], 0, atol=1e-14)
    np.testing.assert_allclose(found["kl_pseudo_bigram"], 0, atol=1e-14)
    np.testing.assert_allclose(found["residual"], 0, atol=1e-13)
    np.testing.assert_allclose(found["token_share"], 1, rtol=1e-10)
    assert (found["kl_unigram"] > 0.05).all()
    # that attends to itself only
    np.testing.assert_allclose(
        found["information_pseudo_bigram"][:, 0, 0], found["information_bigram"], rtol=1e-12
    )


def test_a_model_that_is_the_unigram(monkeypatch, simulation):
    pi = simulation.data.pi
    found = pretend(monkeypatch, simulation, lambda r, seen: pi[r])
    np.testing.assert_allclose(found["kl_unigram"], 0, atol=1e-14)
    np.testing.assert_allclose(found["kl_bigram"], found["information_bigram"], rtol=1e-12)
    np.testing.assert_allclose(found["kl_pseudo_bigram"], found["information_pseudo_bigram"], rtol=1e-12)
    assert (found["kl_bigram"] > 0.05).all()
    assert np.abs(found["spread"]).max() < 1e-13


def test_a_model_of_second_order_is_none_of_first(monkeypatch, simulation):
    chain = simulation.data.transition
    found = pretend(monkeypatch, simulation, lambda r, seen: chain[r, seen[-2 if len(seen) > 1 else -1]])
    assert (found["kl_bigram"] > 0.05).all()
    # the token before is sticky too, so that the last one tells something of it
    assert (found["token_share"] < 0.5).all()


def test_divergences_against_loops(simulation):
    probe = PredictionsProbe(PredictionsOptions(every=1, contexts=4), simulation)
    found, contexts = measure(probe, simulation), probe_batch(simulation, 4)
    logits = simulation.architecture.logits(simulation.parameters, contexts)
    p = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    a = simulation.architecture.attention(simulation.parameters, contexts)
    chain, pi, keys = simulation.data.transition, simulation.data.pi, contexts.keys.swapaxes(1, 2)
    kl = {name: np.zeros(2) for name in ("kl_unigram", "kl_bigram")} | {
        "kl_pseudo_bigram": np.zeros((2, 2, 2))
    }
    for r, b, i in np.ndindex(2, 4, 9):

        def far(q, p_i=p[r, b, i]):
            return (q * np.log(q / p_i)).sum() / 36

        kl["kl_unigram"][r] += far(pi[r])
        kl["kl_bigram"][r] += far(chain[r, keys[r, b, i]])
        for layer, head in np.ndindex(2, 2):
            kl["kl_pseudo_bigram"][r, layer, head] += far(a[r, layer, b, head, i] @ chain[r, keys[r, b]])
    for name, expected in kl.items():
        np.testing.assert_allclose(found[name], expected, rtol=1e-11)


def test_parts_change_nothing(monkeypatch, simulation):
    options = PredictionsOptions(every=1, contexts=16)
    whole = measure(PredictionsProbe(options, simulation), simulation)
    monkeypatch.setattr("attndyn.simulation.probes.predictions.PART_ENTRIES", 2 * 9 * 5 * 3)
    parts = PredictionsProbe(options, simulation)
    assert len(parts._parts) == 6
    for name, values in measure(parts, simulation).items():
        np.testing.assert_allclose(values, whole[name], rtol=1e-12, atol=1e-14)


def test_logits_are_those_of_the_loss(simulation):
    contexts = simulation.data.batch(0, "positions")
    loss, _ = simulation.architecture.loss_and_gradients(simulation.parameters, contexts)
    logits = simulation.architecture.logits(simulation.parameters, contexts)
    log_p = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    taken = np.take_along_axis(log_p, contexts.targets.swapaxes(1, 2)[..., None].astype(int), axis=3)
    np.testing.assert_allclose(loss, -taken.mean(axis=(1, 2, 3)), rtol=1e-12)


def test_an_architecture_without_logits_says_so(simulation):
    assert isinstance(simulation.backend, NumpyBackend)
    with pytest.raises(PluginError, match="the architecture 'transformer' has no 'logits'"):
        Architecture.logits(simulation.architecture, {}, None)


def test_rows_of_a_large_vocabulary_are_those_of_the_map(monkeypatch, simulation):
    shown = np.array([0, 2])
    whole = token_map(simulation)(simulation.parameters)
    rows = token_rows(simulation, shown)(simulation.parameters)
    np.testing.assert_allclose(rows[..., :2, :], whole[..., shown, :], rtol=1e-12)
    np.testing.assert_allclose(rows.sum(axis=-1), 1, rtol=1e-12)
    keys = probe_batch(simulation).keys
    count = np.stack([np.bincount(k.ravel(), minlength=5) for k in keys])[:, None, None, [1, 3, 4], None]
    rest = (whole[..., [1, 3, 4], :] * count).sum(axis=3) / count.sum(axis=3)
    np.testing.assert_allclose(rows[..., 2, :], rest, rtol=1e-12)


# -- the attention map of a text ---------------------------------------------------------------------------


def of_text(tmp_path, *overrides):
    """A simulation on 25 words, of which ten occur at one place only: not all are in a probe's contexts."""
    words = np.random.default_rng(1).integers(0, 15, 3000).astype(str).tolist()
    words[100:110] = [f"rare{i}" for i in range(10)]
    (tmp_path / "text.txt").write_text(" ".join(words))
    text = [line for line in SPEC.splitlines() if not line.lstrip().startswith(("stationary", "transition"))]
    text.insert(3, f"  source: {{kind: path, files: [{tmp_path}/text.txt]}}")
    return Simulation(parse_spec("\n".join(text).replace("markov", "corpus"), overrides=overrides), "numpy")


def test_the_rest_of_a_small_text_is_a_mean_over_what_is_there(tmp_path):
    """A table of pairs there is, and yet no population limit: one absent token is no reason for NaN."""
    simulation = of_text(tmp_path)
    keys = probe_batch(simulation).keys
    assert simulation.data.transition is not None
    probe = AttentionProbe(AttentionOptions(every=1, most=12), simulation)
    absent = [set(range(25)) - set(k.ravel().tolist()) for k in keys]
    assert all(absent)
    assert all(min(tokens) >= 12 for tokens in absent)
    found, whole = measure(probe, simulation), token_map(simulation)(simulation.parameters)
    for name in ("attention", "entropy"):
        assert np.isfinite(found[name]).all()
        assert "mean over a batch of contexts" in probe.declare().variables[name].long_name
    np.testing.assert_allclose(found["attention"].sum(axis=-1), 1, rtol=1e-12)
    np.testing.assert_allclose(found["attention"][..., :12, :12], whole[..., :12, :12], rtol=1e-12)
    count = np.stack([np.bincount(k.ravel(), minlength=25)[12:] for k in keys])[:, None, None, :, None]
    rest = np.nansum(whole[..., 12:, :] * count, axis=3) / count.sum(axis=3)
    np.testing.assert_allclose(found["attention"][..., 12, :12], rest[..., :12], rtol=1e-12)
    np.testing.assert_allclose(found["entropy"][..., 12], -(rest * np.log(rest + 1e-300)).sum(-1), rtol=1e-12)


def test_a_shown_token_that_the_contexts_lack_is_nan(tmp_path):
    simulation = of_text(tmp_path)
    lacking = max(set(range(25)) - set(probe_batch(simulation).keys[0].ravel().tolist()))
    shown = ["0", simulation.data.tokens[lacking]]
    probe = AttentionProbe(AttentionOptions(every=1, tokens=shown), simulation)
    at = probe.declare().labels["query"].index(shown[1])
    found = measure(probe, simulation)
    assert np.isnan(found["attention"][0, ..., at, :]).all()
    assert np.isnan(found["entropy"][0, ..., at]).all()
    assert np.isfinite(np.delete(found["attention"][0], at, axis=2)).all()


def test_where_the_population_limit_is_exact_the_map_of_a_text_is_at_the_stationary_weights(tmp_path):
    pure = "model={architecture: pure_attention, d_model: 6, init: {std: 0.5}}"
    simulation = of_text(tmp_path, pure, "training.loss_positions=last")
    probe = AttentionProbe(AttentionOptions(every=1, most=12), simulation)
    whole, pi = token_map(simulation)(simulation.parameters), simulation.data.pi[0]
    rest = (whole[..., 12:, :] * pi[12:, None]).sum(axis=3) / pi[12:].sum()
    np.testing.assert_allclose(
        measure(probe, simulation)["attention"][..., 12, :12], rest[..., :12], rtol=1e-12
    )
    assert all("at the stationary weights" in v.long_name for v in probe.declare().variables.values())


# -- large vocabularies -----------------------------------------------------------------------------------


def test_nothing_is_as_large_as_a_table_of_pairs(tmp_path):
    rng = np.random.default_rng(0)
    words = np.minimum(rng.zipf(1.3, 20000), 3000)
    (tmp_path / "text.txt").write_text(" ".join(f"w{i}" for i in words))
    text = SPEC.replace("kind: markov", "kind: corpus").splitlines()
    text = [line for line in text if not line.lstrip().startswith(("stationary", "transition"))]
    source = (
        f"  source: {{kind: path, files: [{tmp_path}/text.txt]}}\n  tokenizer: {{kind: word, size: 2500}}"
    )
    text.insert(3, source)
    spec = parse_spec("\n".join(text), overrides=("replicas.seeds=1", "training.dtype=float32"))
    simulation = Simulation(spec, "numpy")
    d_vocab = len(simulation.data.tokens)
    assert d_vocab > 1000
    assert simulation.data.transition is None
    for cls, options in (
        (PredictionsProbe, PredictionsOptions(every=1)),
        (TokenClassesProbe, TokenClassesOptions(every=1)),
        (AttentionProbe, AttentionOptions(every=1, most=4)),
    ):
        probe = cls(options, simulation)
        held = [v for v in vars(probe).values() if hasattr(v, "size")]
        assert max(v.size for v in held) < d_vocab**2 / 4
        found = measure(probe, simulation)
        assert all(np.isfinite(v).all() for name, v in found.items() if name != "norm_band")
