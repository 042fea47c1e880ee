"""Norms that retract in a known band, and the figure of a run on text."""

import numpy as np
import pytest
import xarray as xr

from attndyn.conformance.example_runs import recorded
from attndyn.spec import parse_spec

# without <unk>: high are a and b, medium c to e, low f
TOKENS = ["<unk>", "a", "b", "c", "d", "e", "f"]
PI = np.array([0.2, 0.24, 0.2, 0.16, 0.08, 0.08, 0.04])
STEPS = np.arange(0, 101, 2)


def curve(*points):
    return np.interp(STEPS, *np.array(points, float).T)


@pytest.fixture
def trajectory(make_trajectory):
    grows = curve((0, 0), (30, 2), (100, 2))
    norms = [
        grows,
        grows,
        grows,
        curve((0, 0), (20, 2), (40, 1), (60, 2), (100, 2)),
        curve((0, 0), (20, 2), (60, 0.4), (100, 0.4)),
        grows,
        curve((0, 0), (20, 1), (30, 0.2), (40, 1), (100, 1)),
    ]
    w_0 = np.stack(norms, axis=1)[None, :, :, None] * np.array([0.6, 0.8])
    return make_trajectory(PI, {"W_0": np.concatenate([w_0, w_0])}, STEPS, TOKENS)


def test_bands(trajectory, run_analyzer, draw_analyzer):
    found = run_analyzer("band_retraction", trajectory).isel(replica=1)
    np.testing.assert_allclose(found["depth"], [0, 0, 0, 0.5, 0.8, 0, 0.8], atol=1e-12)
    np.testing.assert_allclose(found["band_depth"], [0, 1.3 / 3, 0.8, 0], atol=1e-12)
    np.testing.assert_allclose(found["band_share"], [0, 2 / 3, 1, 0], rtol=1e-12)
    np.testing.assert_allclose(found["band_regrown"], [np.nan, 0.5, 1, np.nan])
    np.testing.assert_allclose(found["band_trough"].sel(band=["high", "low"]), [np.nan, 30])
    assert float(found["band_recovery"].sel(band="medium")) == pytest.approx(50, abs=1)
    # the mean norm of the medium band falls from (2 + 2 + 4/3) / 3 and less deep than its tokens' norms
    assert 0 < float(found["mean_depth"].sel(band="medium")) < 0.5
    assert float(found["mean_depth"].sel(band="low")) == pytest.approx(0.8)
    np.testing.assert_allclose(found["band_norm"].isel(step=-1), [2, (2 + 0.4 + 2) / 3, 1, 2])
    draw_analyzer("band_retraction", trajectory)


def test_bands_end_where_they_are_told_to(trajectory, run_analyzer):
    found = run_analyzer("band_retraction", trajectory, high=0.9, medium=0.94).isel(replica=0)
    assert float(found["band_share"].sel(band="high")) == pytest.approx(2 / 5)


@pytest.fixture(scope="module")
def trained():
    """A run whose norms are recorded at every step."""
    return recorded(
        parse_spec(
            """
            name: trained
            data: {kind: markov, stationary: {kind: zipf, d_vocab: 40, exponent: 1.0},
                   transition: {kind: sticky, lam: 0.5}, n_ctx: 16, batch: 32}
            model: {architecture: pure_attention, d_model: 16, attention: causal}
            optimizer: {kind: adam, lr: 1.0e-2}
            training: {steps: 400, loss_positions: all}
            replicas: {seeds: 2}
            probes: {norms: {every: 1}, parameters: {every: 8}}
            """
        )
    )


def thinned(tree, every):
    """The same run with norms recorded at every so manieth step."""
    made = tree.copy()
    made["norms"] = tree["norms"].to_dataset().isel(step=slice(None, None, every))
    return made


def without_norms(tree):
    return xr.DataTree.from_dict(
        {node.path: node.to_dataset(inherit=False) for node in tree.subtree if node.path != "/norms"}
    )


def test_twice_the_cadence_makes_little_difference(trained, run_analyzer):
    finest = run_analyzer("band_retraction", trained)
    assert (finest["band_share"].sel(band="medium") > 0.9).all()
    for every in (2, 4, 8):
        found = run_analyzer("band_retraction", thinned(trained, every))
        np.testing.assert_allclose(found["band_share"], finest["band_share"], atol=0.02)
        np.testing.assert_allclose(found["band_depth"], finest["band_depth"], atol=0.02)


@pytest.mark.parametrize("every", [16, 32])
def test_nothing_is_said_where_few_records_lie_in_the_falls(trained, run_analyzer, every):
    found = run_analyzer("band_retraction", thinned(trained, every))
    assert (found["band_resolved"].sel(band=["medium", "low"]) < 0.5).all()
    for name in ("share", "depth", "start", "regrown"):
        assert found[f"band_{name}"].isnull().all()


def test_norms_are_read_where_they_were_recorded(trained, run_analyzer):
    """At equal steps they are those of the parameters, to the last bit where both are float64."""
    for name in ("retraction", "band_retraction"):
        assert run_analyzer(name, trained)["depth"].values.max() > 0.5
        from_norms = run_analyzer(name, thinned(trained, 8))
        from_parameters = run_analyzer(name, without_norms(trained))
        xr.testing.assert_identical(from_norms, from_parameters)


def test_overview_has_what_was_recorded(run_analyzer, draw_analyzer):
    spec = parse_spec(
        """
        name: overview
        data: {kind: markov, stationary: {kind: zipf, d_vocab: 9, exponent: 1.0},
               transition: {kind: sticky, lam: 0.3}, n_ctx: 8, batch: 6}
        model: {architecture: transformer, d_model: 4, heads: 2, attention: causal}
        optimizer: {kind: adam, lr: 1.0e-2}
        training: {steps: 12, loss_positions: all}
        replicas: {seeds: 3}
        probes: {loss: {every: 1}, token_classes: {every: 3, most: 2}, predictions: {every: 4}}
        """
    )
    made = recorded(spec)
    found = run_analyzer("text_overview", made, smoothing=0.0)
    np.testing.assert_allclose(found["loss"], made["loss"]["loss"], rtol=1e-12)
    assert dict(found.sizes) | {"loss_step": 13, "classes_step": 5, "predictions_step": 4} == dict(
        found.sizes
    )
    heads = made["token_classes"]["attention_token"].mean(["layer", "head"])
    np.testing.assert_allclose(found["attention"], heads, rtol=1e-12)
    np.testing.assert_allclose(found["kl"].sel(reference="bigram").T, made["predictions"]["kl_bigram"].T)


def test_overview_has_what_was_held_out_where_it_was_recorded(run_analyzer, draw_analyzer):
    text = " ".join(f"w{i * i % 11}" for i in range(200))
    spec = parse_spec(
        f"""
        name: overview
        data: {{kind: corpus, source: {{kind: text, text: {text}}}, n_ctx: 8, batch: 6, held_out: 0.3}}
        model: {{architecture: transformer, d_model: 4, attention: causal}}
        optimizer: {{kind: adam, lr: 1.0e-2}}
        training: {{steps: 12, loss_positions: all}}
        replicas: {{seeds: 3}}
        probes: {{loss: {{every: 1}}, held_out: {{every: 5}}, token_classes: {{every: 3}},
                 predictions: {{every: 4}}}}
        """
    )
    made = recorded(spec)
    found = run_analyzer("text_overview", made)
    assert found["held_out_step"].values.tolist() == [0, 5, 10, 12]
    np.testing.assert_array_equal(found["held_out_loss"], made["held_out"]["held_out_loss"])
    draw_analyzer("text_overview", made)
