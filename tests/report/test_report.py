import re
import signal
from html.parser import HTMLParser

import numpy as np
import pytest
import xarray as xr

import attndyn
from attndyn import registry
from attndyn.errors import AnalyzersFailed, RunError
from attndyn.report import write_report, writer
from attndyn.report.files import Image
from attndyn.spec import parse_spec

ALL = "stages, condensation, cosine, attention_maps, entropy, norms, projection, pca"
TINY = f"""
name: tiny
description: a <b>bold</b> & "quoted" description
data:
  kind: markov
  stationary: {{kind: geometric, d_vocab: 4, ratio: 0.4}}
  transition: {{kind: sticky, lam: 0.5}}
  n_ctx: 12
  batch: 7
model: {{architecture: pure_attention, d_model: 5, init: {{kind: normal, std: 0.3}}}}
optimizer: {{kind: adam, lr: 1e-2}}
training: {{steps: 8}}
replicas: {{seeds: 3}}
probes: {{loss: {{every: 1}}, attention: {{every: 2}}, parameters: {{every: 2}}}}
analyzers: [{ALL}]
"""


def simulated(directory, *overrides):
    return attndyn.run(parse_spec(TINY, overrides=overrides), directory)


class Page(HTMLParser):
    """What a page consists of: elements with their attributes, ids, and the text."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.text = [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data

    def all(self, tag, attribute):
        return [attrs.get(attribute) for name, attrs in self.elements if name == tag]

    @property
    def ids(self):
        return [attrs["id"] for _, attrs in self.elements if "id" in attrs]


def page_of(run):
    return Page((run.directory / "report.html").read_text("utf-8"))


@pytest.fixture
def quick(monkeypatch):
    """Figures are laid out, with all their text, but not encoded: most of the time a report takes."""

    def lay_out(figure):
        figure.draw_without_rendering()
        return Image(b"<svg/>", b"")

    monkeypatch.setattr(writer, "render", lay_out)


@pytest.fixture(scope="module")
def reported(tmp_path_factory):
    run = simulated(tmp_path_factory.mktemp("reported"))
    assert write_report(run) == run.directory / "report.html"
    return run


def test_every_analyzer_has_a_figure_in_both_formats(reported):
    names = ["overview", *ALL.split(", ")]
    found = sorted(path.name for path in (reported.directory / "figures").iterdir())
    assert found == sorted(f"{name}.{kind}" for name in names for kind in ("png", "svg"))
    assert set(reported.analysis) == set(ALL.split(", "))
    assert not list(reported.directory.rglob("*.tmp"))


def test_the_page_is_complete_by_itself(reported):
    page = page_of(reported)
    assert all(source.startswith("data:image/svg+xml;base64,") for source in page.all("img", "src"))
    assert len(page.all("img", "src")) == 1 + len(ALL.split(", "))
    assert all(page.all("img", "alt"))
    assert not {"script", "link", "iframe", "object", "embed"} & {tag for tag, _ in page.elements}
    assert not [name for _, attrs in page.elements for name in attrs if name.startswith("on")]
    assert "url(" not in (reported.directory / "report.html").read_text("utf-8")


def test_the_page_can_be_found_ones_way_in(reported):
    page = page_of(reported)
    assert page.all("html", "lang") == ["en"]
    assert "viewport" in page.all("meta", "name")
    targets = [href.removeprefix("#") for href in page.all("a", "href")]
    assert set(targets) <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert max(np.diff(levels)) == 1


def test_the_page_says_where_the_numbers_come_from(reported):
    text, attrs = page_of(reported).text, reported.trajectory.attrs
    for expected in ("spec_sha256", "created", "representation", "dtype", "attndyn_version"):
        assert attrs[expected] in text
    assert attrs["spec_yaml"] in text
    assert "attndyn run spec.yaml --backend numpy" in text
    assert "seed 0" in text
    assert str(reported.directory) not in text


def test_text_of_the_spec_is_only_text(tmp_path):
    hostile = "</code></pre><script>alert(1)</script><img src=x onerror=alert(1)>\"'{{7*7}}{% raw %}"
    spec = parse_spec(TINY, overrides=["analyzers=[norms]", "replicas.seeds=1"]).model_copy(
        update={"description": hostile}
    )
    run = attndyn.run(spec, tmp_path)
    write_report(run)
    page = page_of(run)
    assert hostile in page.text
    assert "script" not in {tag for tag, _ in page.elements}
    assert "x" not in page.all("img", "src")


def test_the_same_run_gives_the_same_bytes(tmp_path):
    runs = [simulated(tmp_path / name, "analyzers=[norms]", "replicas.seeds=1") for name in "ab"]
    for run in runs:
        write_report(run)
    first, second = ({p.name: p.read_bytes() for p in (run.directory / "figures").iterdir()} for run in runs)
    assert first == second
    page = (runs[0].directory / "report.html").read_bytes()
    write_report(runs[0])
    assert (runs[0].directory / "report.html").read_bytes() == page


def test_results_that_are_there_are_not_made_again(quick, tmp_path, monkeypatch):
    run = simulated(tmp_path, "analyzers=[norms, pca]", "replicas.seeds=1")
    run.analyze(["norms", "entropy"])
    asked, analyze = [], run.analyze
    monkeypatch.setattr(run, "analyze", lambda names: asked.append(names) or analyze(names))
    write_report(run)
    assert asked == [["pca"]]
    titles = [target for target in page_of(run).all("a", "href") if target.startswith("#analysis")]
    assert titles == ["#analysis-norms", "#analysis-pca", "#analysis-entropy"]


def test_an_analyzer_that_fails_is_left_out_with_a_note(quick, tmp_path, monkeypatch):
    def broken(self, trajectory):
        raise RunError("of no use")

    monkeypatch.setattr(registry.get("analyzer", "norms"), "analyze", broken)
    run = simulated(tmp_path, "analyzers=[norms, pca]", "replicas.seeds=1")
    with pytest.raises(AnalyzersFailed):
        write_report(run)
    run.close()
    page = page_of(run)
    assert "norms (failed: of no use)" in page.text
    assert [t for t in page.all("a", "href") if t.startswith("#analysis")] == ["#analysis-pca"]


def test_what_the_spec_does_not_ask_for_is_left_out_with_a_note(quick, tmp_path):
    run = simulated(tmp_path, "analyzers=[]", "probes={loss: {every: 1}}")
    write_report(run)
    text = page_of(run).text
    assert "embeddings in one basis (needs the analyzer 'pca')" in text
    assert "attention maps (needs the probe 'attention')" in text
    assert "Stage boundaries" not in text
    assert not run.analysis


@pytest.mark.parametrize(
    "overrides",
    [
        [
            "replicas.seeds=1",
            "replicas.vary={optimizer.lr: [0.01, 0.02, 0.03]}",
            "model.value_projection=true",
        ],
        ["data.regime=population", "optimizer={kind: flow}", "training={time: 4, steps: 8}"],
        ["data.stationary={kind: zipf, d_vocab: 40, exponent: 1}", "replicas.seeds=1"],
        ["probes={loss: {steps: [8]}, attention: {steps: [8]}, parameters: {steps: [8]}}"],
        [
            "probes={loss: {every: 3}, attention: {every: 4}, parameters: {every: 3}}",
            "training.dtype=float32",
        ],
    ],
    ids=["varied", "flow", "forty-tokens", "one-record", "cadences"],
)
def test_every_kind_of_run_has_a_report(quick, tmp_path, overrides):
    run = simulated(tmp_path, *overrides)
    write_report(run)
    found = {path.stem for path in (run.directory / "figures").iterdir()}
    assert {"overview", *ALL.split(", ")} <= found
    assert "Run complete" in page_of(run).text


def test_a_diverged_run_shows_a_replica_that_did_not(quick, tmp_path):
    overrides = ["data.regime=population", "optimizer={kind: gd, lr: 0.1}", "replicas.seeds=1"]
    run = simulated(tmp_path, *overrides, "replicas.vary={optimizer.lr: [1e9, 0.1]}")
    assert [lost["replica"] for lost in run.status["diverged"]] == [0]
    write_report(run)
    text = page_of(run).text
    assert "Run diverged" in text
    assert "Replica 0 (seed 0) diverged" in text
    assert "one replica (seed 0, lr 0.1)" in text


def test_an_interrupted_run_shows_what_there_is(quick, tmp_path):
    class Interrupting:
        def advance(self, simulation):
            if simulation.step == 5:
                signal.raise_signal(signal.SIGINT)

        def start(self, simulation): ...
        def record(self, probe, step, values): ...
        def finish(self, simulation, outcome): ...

    run = attndyn.run(parse_spec(TINY), tmp_path, sinks=[Interrupting()])
    write_report(run)
    text = page_of(run).text
    assert "Run interrupted" in text
    assert "step 5 of 8" in text


def test_a_run_of_which_all_is_lost_still_has_a_report(quick, tmp_path):
    run = simulated(tmp_path, "data.regime=population", "optimizer={kind: gd, lr: 1e9}")
    assert len(run.status["diverged"]) == 3
    write_report(run)
    assert "Run diverged" in page_of(run).text


def test_tokens_may_be_named_anything(tmp_path):
    run = simulated(tmp_path, "replicas.seeds=1", "analyzers=[cosine, norms, pca]")
    names = np.array(["$x^2$", "日本\x01語", "<script>alert(1)</script>", "a\nb & c"], dtype=object)
    relabel = {"token": names, "next_token": names, "query": names, "key": names}
    groups = {path: node.to_dataset(inherit=False) for path, node in run.trajectory.load().subtree_with_keys}
    renamed = {
        path: group.assign_coords({dim: relabel[dim] for dim in relabel if dim in group.coords})
        for path, group in groups.items()
    }
    run.trajectory = xr.DataTree.from_dict(renamed)
    write_report(run)
    assert "<script>" not in (run.directory / "report.html").read_text("utf-8")
    for path in (run.directory / "figures").glob("*.svg"):
        assert not re.search(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]", path.read_bytes()), path.name


def test_a_directory_that_cannot_be_written_is_one_clear_line(quick, tmp_path):
    run = simulated(tmp_path, "analyzers=[]", "replicas.seeds=1")
    (run.directory / "figures").write_text("in the way")
    with pytest.raises(RunError, match=r"figures: cannot be written \(File exists\)"):
        write_report(run)
    assert not (run.directory / "report.html").exists()
