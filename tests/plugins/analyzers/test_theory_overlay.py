"""Predictions beside a short run, and a run that the theory does not follow."""

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import attndyn
from attndyn import registry
from attndyn.spec import parse_spec

SPEC = """
name: small
data:
  kind: markov
  stationary: {kind: explicit, pi: [0.6, 0.3, 0.1]}
  transition: {kind: sticky, lam: 0.5}
  regime: population
model: {architecture: pure_attention, d_model: 5, init: {kind: normal, std: 1e-4}}
optimizer: {kind: flow, rtol: 1e-6, atol: 1e-10}
training: {time: 80, steps: 160}
replicas: {seeds: 2}
probes: {loss: {every: 1}, parameters: {every: 1}}
"""


@pytest.fixture
def analyzed(tmp_path):
    def analyze(*changes):
        run = attndyn.run(parse_spec(SPEC, "small", changes), tmp_path)
        analyzer = run.analyzer("theory_overlay")
        result = analyzer.analyze(run.trajectory)
        figure = Figure(layout="constrained")
        FigureCanvasAgg(figure)
        analyzer.draw(result, run.trajectory, figure)
        return result, figure

    return analyze


def test_the_reduced_flow_lies_on_the_measured_curves(analyzed):
    found, figure = analyzed()
    settled = found["time"] > 60
    np.testing.assert_allclose(
        found["predicted_row_norm"].where(settled, 0), found["row_norm"].where(settled, 0), rtol=2e-3
    )
    np.testing.assert_allclose(found["predicted_loss"], found["loss"], atol=1e-4)
    for name in ("condensation_rate", "plateau_norm", "onset_condensation"):
        np.testing.assert_allclose(found[f"measured_{name}"], found[f"predicted_{name}"], rtol=5e-3)
    assert found["predicted_onset_focus"].attrs["units"] == "time"
    assert len(np.unique(found["predicted_onset_focus"])) == 2, "each seed from its own parameters"
    assert "without a residual" in found["predicted_second_direction_rate"].attrs["reason"]
    assert found["predicted_focus_rate"].attrs["reason"] == ""
    assert any("predicted" in ax.get_title(loc="left") for ax in figure.axes)


def test_a_run_beyond_the_theory_is_drawn_with_the_reason(analyzed):
    found, figure = analyzed("optimizer={kind: adam, lr: 0.001}", "training={steps: 8}")
    assert np.isnan(found["predicted_focus_rate"]).all()
    assert "adam" in found["predicted_condensation_rate"].attrs["reason"]
    assert np.isfinite(found["row_norm"]).all()
    assert any("adam" in ax.get_title(loc="left") for ax in figure.axes)


@pytest.mark.parametrize(
    "edge", ["model.init.std=1e-200", "data.stationary={kind: explicit, pi: [0.25, 0.25, 0.25, 0.25]}"]
)
def test_a_run_at_the_edge_of_the_theory_has_gaps_and_no_warning(analyzed, edge):
    found, _ = analyzed(edge, "training={time: 1, steps: 8}")
    assert np.isnan(found["predicted_onset_condensation"]).all()
    assert np.isnan(found["predicted_row_norm"]).all()
    assert np.isfinite(found["predicted_loss_plateau"]).all()


def test_it_is_a_plugin_like_others():
    assert registry.get("analyzer", "theory_overlay").requires == ("loss", "parameters")
