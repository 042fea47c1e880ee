"""The stage analyzer on short real runs: the headline setting, and gradient descent without sampling."""

import pytest
import xarray as xr

import attndyn
from attndyn import registry
from attndyn.spec import parse_spec

HEADLINE = """
name: {regime}
data:
  kind: markov
  stationary: {{kind: geometric, d_vocab: 4, ratio: 0.25}}
  transition: {{kind: sticky, lam: 0.5}}
  regime: {regime}
  n_ctx: 64
  batch: 300
model: {{architecture: pure_attention, d_model: {d_model}}}
optimizer: {optimizer}
training: {{steps: {steps}}}
replicas: {{seeds: 2}}
probes: {{attention: {{every: 10}}, parameters: {{every: 20}}}}
analyzers: []
"""


def analyze(trajectory):
    stages = registry.get("analyzer", "stages")
    return stages(stages.Options()).analyze(trajectory)


@pytest.fixture(scope="module")
def headline(tmp_path_factory):
    """The headline setting with a smaller batch, two seeds."""
    spec = HEADLINE.format(regime="sampled", d_model=64, optimizer="{kind: adam, lr: 1.0e-3}", steps=1900)
    return attndyn.run(parse_spec(spec), out=tmp_path_factory.mktemp("runs")).trajectory


@pytest.fixture(scope="module")
def population(tmp_path_factory):
    """The same data without sampling, gradient descent: the time t is half the step."""
    spec = HEADLINE.format(regime="population", d_model=32, optimizer="{kind: gd, lr: 0.5}", steps=3000)
    return attndyn.run(parse_spec(spec), out=tmp_path_factory.mktemp("runs")).trajectory


def test_headline_setting_shows_all_stages_in_order(headline):
    found = analyze(headline)
    assert found["in_order"].all()
    assert (found["boundary_share"] == 1).all()
    assert found["query_dilutes"].squeeze().values.tolist() == [[False, True, True, True]] * 2
    # rough places from the published settings; the smaller batch here makes the later ones later
    steps = found["boundary_median"].squeeze()
    for name, (low, high) in {
        "rank_one": (0, 20),
        "condensation_end": (100, 150),
        "collapse_end": (150, 240),
        "focus_onset": (220, 360),
        "focus_peak": (360, 500),
        "dilution_end": (480, 620),
        "direction_1": (850, 1250),
        "direction_2": (1300, 1800),
    }.items():
        assert low < float(steps.sel(boundary=name)) < high, name
    assert ((found["focus_depth"] > 0.05) & (found["focus_depth"] < 0.15)).all()


def test_headline_setting_at_half_the_cadence(headline):
    found, coarse = analyze(headline), analyze(every_other(headline))
    moved = abs(coarse["boundary_step"] - found["boundary_step"]).max(["replica", "layer", "head"])
    for name in moved["boundary"].values.tolist():
        of_weights = name.startswith(("rank_one", "condensation", "collapse", "new", "direction"))
        assert float(moved.sel(boundary=name)) < (40 if of_weights else 20), name


def every_other(trajectory):
    parts = {"/": trajectory.to_dataset()}
    for name in ("attention", "parameters"):
        parts[f"/{name}"] = trajectory[name].to_dataset(inherit=False).isel(step=slice(None, None, 2))
    return xr.DataTree.from_dict(parts)


def test_headline_setting_backwards_is_not_in_order(headline):
    parts = {"/": headline.to_dataset()}
    for name in ("attention", "parameters"):
        data = headline[name].to_dataset(inherit=False)
        parts[f"/{name}"] = data.isel(step=slice(None, None, -1)).assign_coords(step=data["step"].values)
    found = analyze(xr.DataTree.from_dict(parts))
    present = found["boundary_share"].squeeze()
    assert present.sel(boundary=["focus_onset", "focus_peak", "dilution_onset", "dilution_end"]).max() == 0
    assert present.sel(boundary=["direction_0", "direction_1", "direction_2"]).max() == 0
    assert present.sel(boundary="condensation_end") == 0
    assert not found["in_order"].any()


def test_population_setting_focuses_little_and_dilutes_row_by_row(population):
    """Gradient descent without noise: times as derived and measured for it, t = step / 2."""
    found = analyze(population)
    time = found["boundary_median"].squeeze() / 2
    assert float(time.sel(boundary="condensation_end")) == pytest.approx(25, abs=5)
    assert float(time.sel(boundary="collapse_end")) == pytest.approx(280, abs=30)
    assert float(time.sel(boundary="dilution_onset")) == pytest.approx(360, abs=40)
    assert float(time.sel(boundary="new_direction")) > float(time.sel(boundary="dilution_onset")) + 100
    assert found["query_focus_depth"].sel(query="1").values == pytest.approx(0.005, abs=0.001)
    ends = found["query_boundary"].sel(event="dilution_end").squeeze().sel(query=["1", "2", "3"])
    assert (ends.diff("query") > 0).all()
    assert found["query_dilutes"].sel(query=["1", "2", "3"]).all()
    assert not found["query_dilutes"].sel(query="0").any()
