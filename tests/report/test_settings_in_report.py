"""Runs that vary values: every figure and every number of the report is of one setting at a time."""

import numpy as np
import pytest

import attndyn
from attndyn.analysis.settings import settings
from attndyn.analysis.timeline import replica_spans
from attndyn.report import style, write_report, writer
from attndyn.report.files import Image
from attndyn.report.settings_figure import draw_comparison
from attndyn.report.views import MAX_SETTINGS, views
from attndyn.spec import parse_spec


@pytest.fixture(scope="module")
def figures():
    """The figures of the last report, in the order in which they were drawn."""
    return []


@pytest.fixture(scope="module")
def run(tmp_path_factory, figures):
    """Three seeds of two learning rates, and its report."""
    spec = """
name: varied
data:
  kind: markov
  stationary: {kind: geometric, d_vocab: 4, ratio: 0.4}
  transition: {kind: sticky, lam: 0.5}
  n_ctx: 12
  batch: 7
model: {architecture: pure_attention, d_model: 5, init: {kind: normal, std: 0.3}}
optimizer: {kind: sgd, lr: 0.1}
training: {steps: 8}
replicas: {seeds: 3, vary: {optimizer.lr: [0.1, 2.0]}}
probes: {loss: {every: 1}, attention: {every: 2}, parameters: {every: 2}}
analyzers: [stages, norms]
"""
    run = attndyn.run(parse_spec(spec), tmp_path_factory.mktemp("varied"))

    def lay_out(figure):
        figure.draw_without_rendering()
        figures.append(figure)
        return Image(b"<svg/>", b"")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "render", lay_out)
        write_report(run)
    return run


def test_a_view_holds_the_replicas_of_one_setting(run):
    first, second = views(run.trajectory, run.analysis, lost={0, 3, 4})
    assert (first.setting.label, second.setting.label) == ("lr 0.1", "lr 2")
    assert second.trajectory["loss"]["replica"].values.tolist() == [3, 4, 5]
    assert second.analysis["norms"].sizes["replica"] == 3
    assert second.analysis["stages"]["setting"].values.tolist() == ["lr 2"]
    assert first.shown in (1, 2)  # replica 0 is lost
    assert (second.shown, second.shown_name) == (2, "seed 2, lr 2")
    assert second.spans == replica_spans(run.analysis["stages"], 5)


def test_curves_are_of_one_setting(run, figures):
    norms = figures[-1]
    assert [part.get_suptitle() for part in norms.subfigs] == ["lr 0.1", "lr 2"]
    for part, setting in zip(norms.subfigs, settings(run.trajectory), strict=True):
        of_setting = run.analysis["norms"]["embedding_norm"].isel(replica=list(setting.replicas), token=0)
        line = style.step_axes(part)[0].lines[0]
        np.testing.assert_allclose(line.get_ydata(), of_setting.median("replica"))
    first, second = ([ax.get_ylim() for ax in style.step_axes(part)] for part in norms.subfigs)
    assert first == second


def test_every_setting_has_an_overview_and_they_are_compared(run, figures):
    found = {path.stem for path in (run.directory / "figures").iterdir()}
    assert found == {"overview", "overview-2", "settings", "stages", "norms"}
    loss = style.step_axes(figures[2])[0]
    assert loss.get_legend_handles_labels()[1] == ["lr 0.1", "lr 2"]
    for line, setting in zip(loss.lines, settings(run.trajectory), strict=True):
        of_setting = run.trajectory["loss"]["loss"].isel(replica=list(setting.replicas))
        np.testing.assert_allclose(line.get_ydata(), of_setting.median("replica"))


def test_the_page_says_what_differs(run):
    text = (run.directory / "report.html").read_text("utf-8")
    assert "2 settings (lr 0.1; lr 2)" in text
    for label in ("lr 0.1", "lr 2"):
        assert f'<th scope="col" class="number">{label}</th>' in text
    assert '<th scope="row">seed 2, lr 2</th>' in text


def test_of_many_settings_the_page_names_those_left_out(small, tmp_path, monkeypatch):
    count = MAX_SETTINGS + 2
    rates = [0.01 * (k + 1) for k in range(count)]
    run = attndyn.run(small("replicas.seeds=1", f"replicas.vary={{optimizer.lr: {rates}}}"), tmp_path)
    monkeypatch.setattr(writer, "render", lambda figure: Image(b"<svg/>", b""))
    write_report(run)
    assert "Figures leave out 2 of them: lr 0.07; lr 0.08." in (run.directory / "report.html").read_text(
        "utf-8"
    )
    assert (run.directory / "figures" / f"overview-{MAX_SETTINGS}.svg").exists()
    assert not (run.directory / "figures" / f"overview-{MAX_SETTINGS + 1}.svg").exists()


def test_nothing_to_compare_is_an_empty_figure(small, tmp_path):
    run = attndyn.run(
        small("replicas.vary={optimizer.lr: [0.1, 0.2]}", "probes={parameters: {every: 2}}"), tmp_path
    )
    assert not draw_comparison(views(run.trajectory, {}, set())).axes[0].lines
