"""A comparison shows what two runs have in common, says what they have not, and leaves the runs alone."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pytest

import attndyn
from attndyn.errors import RunError
from attndyn.report import compare, write_comparison
from attndyn.report.compare_figures import curve_titles, draw_boundaries, draw_curves, draw_retractions
from attndyn.report.compare_tables import boundary_rows, caveats, common_tokens, retraction_rows, spec_rows
from attndyn.report.compared import collect
from attndyn.report.files import Image
from attndyn.spec import parse_spec

TINY = """
name: tiny
description: a <b>bold</b> & "quoted" description
data:
  kind: markov
  stationary: {kind: geometric, d_vocab: 4, ratio: 0.4}
  transition: {kind: sticky, lam: 0.5}
  n_ctx: 12
  batch: 7
model: {architecture: pure_attention, d_model: 5, init: {kind: normal, std: 0.3}}
optimizer: {kind: adam, lr: 1e-2}
training: {steps: 8}
replicas: {seeds: 3}
probes: {loss: {every: 1}, attention: {every: 2}, parameters: {every: 2}}
analyzers: [stages, norms]
"""


class Page(HTMLParser):
    """What a page consists of: elements with their attributes, and the text."""

    def __init__(self, text: str):
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data

    def all(self, tag, attribute):
        return [attrs.get(attribute) for name, attrs in self.elements if name == tag]


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    """A function from overrides to a run; the same overrides give the same run."""
    made = {}

    def simulate(*overrides: str):
        if overrides not in made:
            made[overrides] = attndyn.run(
                parse_spec(TINY, overrides=overrides), tmp_path_factory.mktemp("runs")
            )
        return made[overrides]

    return simulate


@pytest.fixture
def quick(monkeypatch):
    """Figures are laid out, but not encoded."""

    def lay_out(figure):
        figure.draw_without_rendering()
        return Image(b"<svg/>", b"")

    monkeypatch.setattr(compare, "render", lay_out)


@pytest.fixture
def unlike(simulated):
    """Two runs of other architectures, lengths and heads."""
    return [
        simulated(),
        simulated(
            *("name=other", "training.steps=4", "replicas.seeds=2"),
            *("model={architecture: transformer, layers: 2, heads: 3, d_model: 6, init: {std: 0.3}}",),
        ),
    ]


@pytest.fixture
def learnt(simulated):
    """A run whose embeddings condense, by which it has a boundary."""
    return simulated("name=learnt", "training.steps=60", "data.batch=200", "model.init.std=1e-3")


def test_the_page_is_complete_by_itself_and_the_runs_are_as_they_were(unlike, learnt, tmp_path):
    unlike = [*unlike, learnt]
    before = [sorted(run.directory.rglob("*")) for run in unlike]
    path = write_comparison(unlike, tmp_path / "a" / "b")
    assert path == tmp_path / "a" / "b" / "compare.html"
    figures = {p.name for p in (path.parent / "figures").iterdir()}
    assert figures == {
        f"{name}.{kind}" for name in ("curves", "boundaries", "retractions") for kind in ("svg", "png")
    }
    page = Page(path.read_text("utf-8"))
    assert len(page.all("img", "src")) == 3
    assert all(page.all("img", "alt"))
    assert all(source.startswith("data:image/svg+xml;base64,") for source in page.all("img", "src"))
    assert not {"script", "link", "iframe", "object", "embed"} & {tag for tag, _ in page.elements}
    assert "url(" not in path.read_text("utf-8")
    anchors = {href.removeprefix("#") for href in page.all("a", "href")}
    assert anchors <= {attrs.get("id") for _, attrs in page.elements}
    assert [sorted(run.directory.rglob("*")) for run in unlike] == before


def test_text_of_the_specs_is_only_text(quick, simulated, tmp_path):
    hostile = "name=bad", 'description="<script>alert(1)</script>{{ 7 * 7 }}"'
    page = Page(write_comparison([simulated(), simulated(*hostile)], tmp_path).read_text("utf-8"))
    assert "script" not in {tag for tag, _ in page.elements}
    assert "b" not in {tag for tag, _ in page.elements}
    assert "<script>alert(1)</script>{{ 7 * 7 }}" in page.text
    assert 'a <b>bold</b> & "quoted" description' in page.text


def test_only_what_differs_in_the_specs_is_listed(simulated):
    other = simulated("name=other", "optimizer.lr=0.02", "model.value_projection=true")
    rows = spec_rows(collect([simulated(), other]))
    assert rows == [("model.value_projection", ["false", "true"]), ("optimizer.lr", ["0.01", "0.02"])]


def test_an_option_that_one_architecture_lacks_is_marked(unlike):
    rows = dict(spec_rows(collect(unlike)))
    assert rows["model.layers"] == ["–", "2"]
    assert rows["model.architecture"] == ["pure_attention", "transformer"]
    assert "optimizer.lr" not in rows


def test_runs_of_one_name_are_told_apart(simulated):
    one, other = simulated(), simulated("optimizer.lr=0.02")
    labels = [run.label for run in collect([one, other])]
    assert labels == ["tiny (lr 0.01)", "tiny (lr 0.02)"]


def test_labels_are_plain_text_whatever_the_specs_say(simulated):
    """They stand in the page, too; figures escape them on their own."""
    made = [simulated(f"data.tokens=['{token}', b, c, d]") for token in ("_x$", "_y$")]
    compared = collect(made)
    assert [run.label for run in compared] == ["tiny (tokens [_x$, b, c, d])", "tiny (tokens [_y$, b, c, d])"]
    shown = draw_curves(compared).legends[0].texts
    assert shown[0].get_text() == r"tiny (tokens [_x\$, b, c, d])"


def test_runs_of_one_spec_are_told_apart_by_their_directories(simulated, tmp_path):
    same = attndyn.run(parse_spec(TINY), tmp_path)
    labels = [run.label for run in collect([simulated(), same, simulated("optimizer.lr=0.02")])]
    assert labels[1] == f"tiny ({same.directory.name})" != labels[0]
    assert labels[2] == "tiny (lr 0.02)"


def test_what_all_runs_lack_is_said_once(simulated):
    bare = [simulated(f"optimizer.lr={lr}", "probes={loss: {every: 1}}", "analyzers=[]") for lr in (0.1, 0.2)]
    said = caveats(collect(bare))
    assert [line.split(":")[0] for line in said if "without the probe" in line] == ["All runs"] * 4


def test_curves_of_the_probes_for_texts_and_a_caption_of_what_is_drawn(simulated):
    probes = "probes={loss: {every: 1}, token_classes: {every: 2}, predictions: {every: 2}}"
    model = "model={architecture: transformer, d_model: 5}"
    compared = collect([simulated(f"optimizer.lr={lr}", probes, model, "analyzers=[]") for lr in (0.1, 0.2)])
    titles = [ax.get_title(loc="left") for ax in draw_curves(compared).axes]
    assert titles == curve_titles(compared)
    assert titles == [
        "loss",
        "attention to the most frequent token over its frequency",
        "entropy of attention over places",
        "KL of the unigram from the predictions",
        "KL of the bigram from the predictions",
        "KL of the pseudo-2-gram from the predictions",
        "share of the predictions' spread for the last token",
    ]
    ratio = compared[0].curves["ratio"]
    classes = compared[0].run.trajectory["token_classes"]
    expected = classes["attention_token"].sel(named="0").mean(["layer", "head"]) / classes[
        "uniform_token"
    ].sel(named="0")
    np.testing.assert_allclose(ratio.transpose("replica", "step"), expected.transpose("replica", "step"))


def test_without_a_name_for_the_most_frequent_token_there_is_no_curve_of_it(simulated):
    """Listed tokens are sorted, but the most frequent of them is not that of all."""
    for tokens, there in (("['1', '2']", False), ("['1', '0']", True)):
        probes = f"probes={{loss: {{every: 1}}, token_classes: {{every: 2, tokens: {tokens}}}}}"
        model = "model={architecture: transformer, d_model: 5}"
        made = [simulated(f"name={name}", probes, model, "analyzers=[]") for name in ("one", "two")]
        curves = collect(made)[0].curves
        assert ("ratio" in curves) == there
        assert "entropy_of_places" in curves


def test_different_lengths_and_heads_are_said(unlike):
    said = " ".join(caveats(collect(unlike)))
    assert "tiny: 8; other: 4" in said
    assert "tiny: 1 × 1; other: 2 × 3" in said
    assert "frequencies" not in said


def test_like_runs_have_nothing_to_bear_in_mind(simulated):
    assert caveats(collect([simulated(), simulated("name=other", "optimizer.lr=0.02")])) == []


def test_tokens_in_common_are_compared_and_the_others_said(simulated):
    other = simulated("name=other", "data.stationary={kind: geometric, d_vocab: 3, ratio: 0.3}")
    compared = collect([simulated(), other])
    tokens = common_tokens(compared)
    assert tokens == ["0", "1", "2"]
    said = " ".join(caveats(compared))
    assert "1 of 4" in said
    assert "frequencies differ" in said
    assert "chains differ" in said
    titles = [ax.get_title(loc="left") for ax in draw_curves(compared).axes]
    assert [title for title in titles if "norm" in title] == [f"embedding norm of token {t}" for t in "012"]


def test_no_token_in_common(quick, simulated, tmp_path):
    stationary = "data.stationary={kind: explicit, pi: [0.5, 0.3, 0.2]}"
    other = simulated("name=other", stationary, "data.tokens=[x, y, z]")
    said = " ".join(caveats(collect([simulated(), other])))
    assert "no token in common" in said
    write_comparison([simulated(), other], tmp_path)


def test_a_probe_that_is_missing_is_said_and_the_rest_compared(quick, simulated, tmp_path):
    bare = simulated("name=bare", "probes={loss: {every: 1}}", "analyzers=[]")
    compared = collect([simulated(), bare])
    said = caveats(compared)
    assert "bare: no attention_maps, entropy without the probe 'attention'." in said
    assert "bare: no stages without the probe 'attention' and 'parameters'." in said
    page = Page(write_comparison([simulated(), bare], tmp_path).read_text("utf-8"))
    assert len(page.all("img", "src")) == 2  # the tiny run has no boundary to draw
    barest = simulated("name=barest", "probes={loss: {every: 1}}", "analyzers=[]", "training.steps=3")
    page = Page(write_comparison([bare, barest], tmp_path).read_text("utf-8"))
    assert len(page.all("img", "src")) == 1  # the loss
    assert page.text.count("No run has anything to draw here.") == 2


def test_curves_of_a_run_have_its_colour(unlike):
    compared = collect(unlike)
    loss = draw_curves(compared).axes[0]
    ends = {line.get_color(): line.get_xdata()[-1] for line in loss.lines}
    assert ends == {compared[0].color: 8, compared[1].color: 4}


def test_focus_is_that_of_the_other_queries(simulated):
    run = collect([simulated(), simulated("optimizer.lr=0.02")])[0]
    maps = run.run.trajectory["attention"]["attention"].isel(layer=0, head=0)
    pi = run.root["pi"].isel(replica=0).values
    expected = (maps.sel(key="0").isel(query=[1, 2, 3]).values * pi[1:]).sum(axis=-1) / pi[1:].sum()
    np.testing.assert_allclose(run.curves["focus"], expected)


def test_figures_have_a_row_for_what_is_found(simulated, learnt):
    compared = collect([simulated(), learnt])
    ax = draw_boundaries(compared).axes[0]
    assert "rank one" in [label.get_text() for label in ax.get_yticklabels()]
    medians = [line for line in ax.lines if line.get_linestyle() == "None"]
    assert {line.get_color() for line in medians} == {compared[1].color}
    boundary = (
        compared[1]
        .results["stages"]["boundary_median"]
        .isel(setting=0, layer=0, head=0)
        .sel(boundary="rank_one")
    )
    assert any(line.get_xdata()[0] == pytest.approx(float(boundary)) for line in medians)
    assert dict(boundary_rows(compared))["rank one"][0] == "absent"
    assert dict(boundary_rows(compared))["rank one"][1].endswith("in 3 of 3")
    rows = [label.get_text() for label in draw_retractions(compared).axes[0].get_yticklabels()]
    assert rows == ["medium tokens", "0", "1", "2", "3"]
    assert [name for name, _ in retraction_rows(compared)] == rows


def test_too_few_too_many_and_twice_are_one_clear_line(simulated, tmp_path):
    run = simulated()
    with pytest.raises(RunError, match=re.escape("2 to 8 runs; given: 1")):
        write_comparison([run], tmp_path)
    with pytest.raises(RunError, match="given: 9"):
        write_comparison([run] * 9, tmp_path)
    with pytest.raises(RunError, match="given 2 times"):
        write_comparison([run, attndyn.open_run(run.directory)], tmp_path)


def test_a_directory_that_cannot_be_written_is_one_clear_line(quick, unlike, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot be written"):
        write_comparison(unlike, tmp_path / "file" / "below")


def test_without_a_directory_it_makes_its_own(quick, unlike, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = write_comparison(unlike)
    assert path.parent.parent == compare.COMPARISONS
    assert path.is_file()
