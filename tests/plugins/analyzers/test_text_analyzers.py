"""Runs on texts drawn from known chains: what the analyzers must, and must not, find in them."""

import numpy as np
import pytest
import xarray as xr

from attndyn.conformance.example_runs import recorded
from attndyn.spec import parse_spec

D = 6
CHAIN = np.array([[0.05, 0.7, 0.1, 0.05, 0.05, 0.05]])
CHAIN = np.stack([np.roll(CHAIN[0], i) for i in range(D)]) + np.array([0.3, 0.1, 0, 0, 0, 0])
CHAIN = CHAIN / CHAIN.sum(axis=1, keepdims=True)
SPEC = """
name: text
data:
  kind: corpus
  source: {{kind: path, files: [{file}]}}
  tokenizer: {{kind: word, size: 10}}
  n_ctx: 12
  batch: 32
model: {{architecture: transformer, d_model: 12, attention: causal, init: {{std: 0.1}}}}
optimizer: {{kind: adam, lr: 1.0e-2}}
training: {{steps: {steps}, loss_positions: all}}
replicas: {{seeds: 2}}
probes:
  loss: {{every: 10}}
  token_classes: {{every: 10, most: 3, contexts: 32}}
  predictions: {{every: 10, contexts: 32}}
"""


def run(folder, words, steps=300, *overrides):
    file = folder / "text.txt"
    file.write_text(" ".join("abcdef"[i] for i in words))
    return recorded(parse_spec(SPEC.format(file=file, steps=steps), overrides=overrides))


def sample(order, n=30000):
    """Tokens of a chain whose next token hangs on the one `order` places back; on none for 0."""
    rng = np.random.default_rng(1)
    cumulative, uniform = CHAIN.cumsum(axis=1), rng.random(n)
    words = [0, 0]
    for u in uniform:
        words.append(min(int(np.searchsorted(cumulative[words[-order]], u)), D - 1))
    words = np.array(words)
    return rng.permutation(words) if order == 0 else words


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    return run(tmp_path_factory.mktemp("chain"), sample(1))


@pytest.fixture(scope="module")
def shuffled(tmp_path_factory):
    return run(tmp_path_factory.mktemp("shuffled"), sample(0), 150)


@pytest.fixture(scope="module")
def second(tmp_path_factory):
    # the place of a token is what tells it from the one before
    learned = ("model.positions=learned", "model.mlp={width: 24}")
    return run(tmp_path_factory.mktemp("second"), sample(2), 500, *learned)


def head(result):
    return result.isel(layer=0, head=0)


def test_a_chain_is_taken_up_down_to_its_floor(chain, run_analyzer):
    found = head(run_analyzer("ngram", chain)).sel(reference="bigram")
    assert found["taken_up"].all()
    assert (found["closest_kl"] < 0.01).all()
    assert (found["most_captured"] > 0.97).all()
    assert (found["reached_step"] < found["closest_step"]).all()
    assert (head(run_analyzer("ngram", chain))["nearest"].isel(step=-1) == 1).all()


def test_a_chain_is_of_first_order_to_the_end(chain, run_analyzer):
    found = run_analyzer("markov_fit", chain)
    assert (found["order"].isel(step=-1) == 1).all()
    assert (found["first_order_from"] > 0).all()
    assert found["first_order_until"].isnull().all()
    # predictions that are all alike at first are no more than those of a chain either
    assert (found["holds_from"] == 0).all()
    assert (found["holds_until"] <= found["first_order_from"]).all() | found["holds_until"].isnull().all()


def test_first_order_ends_below_low_and_not_below_level(chain, run_analyzer):
    made = chain.copy(deep=True)
    fit = made["predictions"].to_dataset()
    share, steps = np.full(fit.sizes["step"], 0.85), fit["step"].values
    share[:2], share[3], share[-2:] = 0.5, 0.95, 0.75
    made["predictions"] = fit.assign(
        token_share=xr.ones_like(fit["token_share"]) * xr.DataArray(share, dims="step"),
        spread=xr.ones_like(fit["spread"]).where(fit["step"] > 0, 0.0),
    )
    found = run_analyzer("markov_fit", made)
    assert (found["holds_from"] == 0).all()
    assert (found["holds_until"] == steps[1]).all()
    assert (found["first_order_from"] == steps[3]).all()
    assert (found["first_order_until"] == steps[-2]).all()
    assert (found["first_order_steps"] == steps[-2] - steps[3]).all()
    late = run_analyzer("markov_fit", made, low=0.9)
    assert (late["first_order_until"] == steps[4]).all()
    np.testing.assert_array_equal(found["fit_share"], fit["fit_share"])


def test_shuffled_text_has_no_bigram_no_order_and_no_phases(shuffled, run_analyzer):
    found = head(run_analyzer("ngram", shuffled))
    assert not found["taken_up"].sel(reference="bigram").any()
    assert not found["taken_up"].sel(reference="pseudo_bigram").any()
    assert found["taken_up"].sel(reference="unigram").all()
    assert found["captured"].sel(reference=["bigram", "pseudo_bigram"]).isnull().all()  # not judged
    order = run_analyzer("markov_fit", shuffled)
    assert (order["order"].isel(step=-1) == 0).all()
    assert (order["first_order_steps"] == 0).all()
    assert order["first_order_from"].isnull().all()
    assert (order["holds_from"] == 0).all()
    phases = head(run_analyzer("phases", shuffled))["phases"]
    assert (phases == 0).all()


def test_text_of_second_order_is_more_than_first(second, run_analyzer):
    found = run_analyzer("markov_fit", second)
    assert (found["order"].isel(step=-1) == 2).all()
    lags = found["attention_lag"].isel(layer=0, head=0, attention_step=-1)
    assert (lags.sel(lag="1") > 2 * found["uniform_lag"].sel(lag="1").isel(attention_step=-1)).all()


def test_bands_of_known_frequencies(chain):
    pi = chain.dataset["pi"].values[0]
    share = chain["token_classes"]["uniform_band"].values[0, 0]
    order = np.sort(pi)[::-1]
    before = np.cumsum(order) - order
    high = order[before < 0.5].sum()
    assert share[0] == pytest.approx(high, abs=0.05)
    assert share.sum() == pytest.approx(1)
    assert len(share) == 3  # no <unk>


def with_attention(trajectory, curve):
    """The run with attention to the most frequent token of `curve (replica, step)` times its frequency."""
    made = trajectory.copy(deep=True)
    classes = made["token_classes"].to_dataset()
    over = xr.ones_like(classes["attention_token"]) * classes["uniform_token"]  # the ratio is 1
    ratio = xr.DataArray(curve, dims=("replica", "step"), coords={"step": classes["step"]})
    attention = over.where(over["named"] != over["named"][0], over * ratio)
    made["token_classes"] = classes.assign(attention_token=attention.transpose(*over.dims))
    return made


def test_phases_of_made_attention(chain, run_analyzer, draw_analyzer):
    t = np.linspace(0, 1, chain["token_classes"].sizes["step"])
    curve = np.interp(t, [0, 0.1, 0.3, 0.6, 1], [1, 1, 3, 0.5, 0.5])
    made = with_attention(chain, [curve, curve])
    found = head(run_analyzer("phases", made))
    assert found["of"].values.tolist()[3:] == ["[high]", "[medium]", "[low]"]
    assert (found["phases"].isel(of=0) == 2).all()
    assert (found["phases"].isel(of=1) == 0).all()
    np.testing.assert_allclose(found["peak"].isel(of=0, cycle=0), 90, atol=15)
    for name in ("phases", "ngram", "markov_fit"):
        figure = draw_analyzer(name, made)
        if name == "phases":
            tops = [line.get_xydata() for line in figure.axes[0].lines if line.get_marker() == "."]
            np.testing.assert_allclose(np.concatenate(tops), [[90, 3]], rtol=1e-6)


def test_phases_of_a_replica_that_diverged_are_not_known(chain, run_analyzer):
    t = np.linspace(0, 1, chain["token_classes"].sizes["step"])
    curve = np.interp(t, [0, 0.1, 0.3, 0.6, 0.8, 1], [1, 0.2, 3, 0.5, 4, 4])
    made = with_attention(chain, [curve, np.where(t > 0.9, np.nan, curve)])
    found = head(run_analyzer("phases", made, cycles=1)).isel(of=0)
    np.testing.assert_array_equal(found["phases"], [3, np.nan])
    np.testing.assert_array_equal(found["falls_first"], [1, 1])
    assert found.sizes["cycle"] == 1
