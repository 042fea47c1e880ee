import numpy as np
import pytest
import xarray as xr

import attndyn
from attndyn.analysis.settings import ALL, Setting
from attndyn.report import style
from attndyn.report.overview import draw_overview, in_words
from attndyn.report.views import View

SPANS = [("condensation", 0.0, 2.0), ("focus", 2.0, 5.0), ("dilution", 5.0, 6.0)]
NAMES = ["cosine", "pca", "norms", "projection"]


@pytest.fixture
def run(small, tmp_path):
    return attndyn.run(small("probes.parameters.every=2"), tmp_path)


def drawn(trajectory, analysis, spans=SPANS, replica=0, names=None):
    setting = Setting(ALL, tuple(range(trajectory.sizes["replica"])))
    view = View(setting, trajectory, analysis, replica, f"seed {replica}", spans, names or {})
    with style.style():
        figure, notes = draw_overview(view)
        figure.draw_without_rendering()
    return figure, notes


def titles(figure):
    return [ax.get_title() or ax.get_title("left") for ax in figure.axes]


def test_columns_are_stages_and_curves_are_shaded(run):
    figure, notes = drawn(run.trajectory, run.analyze(NAMES))
    assert notes == []
    assert titles(figure)[:4] == ["step 0", "condensation\nstep 2", "focus\nstep 4", "dilution\nstep 6"]
    curves = style.step_axes(figure)
    assert [ax.get_title("left").split()[0] for ax in curves] == [
        "attention",
        "embedding",
        "orthogonal",
        "loss",
    ]
    shades = [[patch.get_x() for patch in ax.patches] for ax in curves]
    assert shades == [[0.0, 2.0, 5.0]] * 4
    legend = figure.subfigs[-1].legends[-1]
    assert [text.get_text() for text in legend.get_texts()] == [label for label, _, _ in SPANS]


def test_words_name_what_is_drawn_and_nothing_else(run):
    setting = Setting(ALL, (0, 1, 2))
    view = View(setting, run.trajectory, run.analyze(["norms"]), 0, "seed 0")
    assert in_words(view) == "snapshots: attention maps; curves over training: entropy, norms, loss"
    assert in_words(View(setting, run.trajectory, run.analyze(NAMES), 0, "seed 0", SPANS)) == (
        "snapshots at the end of each stage: cosine of embeddings, embeddings in one basis, attention maps; "
        "curves over training, stages shaded: entropy, norms, projection, loss"
    )


def test_the_maps_are_those_of_the_steps_and_the_replica(run):
    figure, _ = drawn(run.trajectory, run.analyze(NAMES), replica=2)
    images = [ax.images[0].get_array() for ax in figure.axes if ax.images and ax.get_label() != "<colorbar>"]
    attention = run.trajectory["attention"]["attention"].isel(replica=2, layer=0, head=0)
    np.testing.assert_array_equal(images[4:8], attention.sel(step=[0, 2, 4, 6]).values)
    assert figure.get_suptitle() == "maps: seed 2"


def test_a_row_recorded_at_other_steps_says_so(small, tmp_path):
    run = attndyn.run(small("probes.attention={steps: [1, 3]}", "probes.parameters.every=2"), tmp_path)
    figure, _ = drawn(run.trajectory, run.analyze(NAMES), spans=[])
    assert titles(figure)[:4] == ["step 0", "step 2", "step 4", "step 6"]
    named = [title for title in titles(figure)[8:] if title.startswith("step")]
    assert named == ["step 1", "step 1", "step 3", "step 6"]


def test_panels_without_data_are_left_out_and_named(run):
    root, loss = run.trajectory.to_dataset(), run.trajectory["loss"].to_dataset()
    figure, notes = drawn(xr.DataTree.from_dict({"/": root, "loss": loss}), {})
    assert titles(figure) == ["loss"]
    assert len(notes) == 6
    assert "entropy (needs the probe 'attention')" in notes
    assert not figure.texts  # said once, below the figure
    figure, notes = drawn(xr.DataTree.from_dict({"/": root}), {})
    assert figure.axes == []
    assert len(notes) == 7


def test_of_several_heads_the_first_is_shown_and_named(run):
    many = {path: node.to_dataset(inherit=False) for path, node in run.trajectory.load().subtree_with_keys}
    twice = many["attention"].isel(head=[0, 0]).isel(layer=[0, 0, 0])
    twice["attention"][{"layer": 2}] = 1.0
    tree = xr.DataTree.from_dict(many | {"attention": twice})
    figure, _ = drawn(tree, run.analyze(NAMES))
    labels = [ax.get_ylabel() for ax in figure.axes]
    assert "attention\nlayer 0, head 0\nquery" in labels
    assert style.step_axes(figure)[0].get_title("left").endswith("layer 0, head 0")


def test_stages_are_named_by_their_tokens(run):
    spans, names = [("token 1", 0.0, 2.0), ("focus", 2.0, 6.0)], {"token 1": "token the"}
    figure, _ = drawn(run.trajectory, run.analyze(NAMES), spans, names=names)
    assert titles(figure)[1] == "token the\nstep 2"
    assert figure.subfigs[-1].legends[-1].get_texts()[0].get_text() == "token the"


@pytest.mark.parametrize("analyzers", [NAMES, ["norms"], ["norms", "cosine"]])
def test_all_text_is_inside_the_figure(run, analyzers):
    spans = [(f"token {k}", k / 2, (k + 1) / 2) for k in range(12)]
    figure, _ = drawn(run.trajectory, run.analyze(analyzers), spans)
    assert [figure.get_suptitle()] == ["maps: seed 0"]
    texts = [figure._suptitle] + [
        text for legend in figure.subfigs[-1].legends for text in legend.get_texts()
    ]
    texts += [ax.title for ax in figure.axes] + [ax.yaxis.label for ax in figure.axes]
    for text in texts:
        if text.get_text():
            patch = text.get_bbox_patch()  # of the stages' names
            box = (patch or text).get_window_extent()
            assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1, text
            assert figure.bbox.y0 <= box.y0 < box.y1 <= figure.bbox.y1, text


def test_not_finite_records_leave_gaps(run):
    analysis = {name: result.copy(deep=True) for name, result in run.analyze(NAMES).items()}
    for result in analysis.values():
        for name, array in result.data_vars.items():
            result[name] = xr.full_like(array, np.nan, dtype=float)
    lost = {path: node.to_dataset(inherit=False) for path, node in run.trajectory.load().subtree_with_keys}
    for probe in ("loss", "attention"):
        lost[probe] = xr.full_like(lost[probe], np.nan)
    lost["loss"]["loss"][:, 0] = np.inf
    figure, notes = drawn(xr.DataTree.from_dict(lost), analysis)
    assert notes == []
    assert len(style.step_axes(figure)) == 4


def test_principal_components_have_equal_scales(run):
    figure, _ = drawn(run.trajectory, run.analyze(NAMES))
    (labelled,) = [ax for ax in figure.axes if ax.get_xlabel().startswith("PC 1 (")]
    assert np.diff(labelled.get_xlim()) == pytest.approx(np.diff(labelled.get_ylim()))
    scores = run.analysis["pca"]["scores"].isel(replica=0)
    for component, limits in enumerate((labelled.get_xlim(), labelled.get_ylim())):
        of_component = scores.isel(component=component)
        assert limits[0] < float(of_component.min()) <= float(of_component.max()) < limits[1]
