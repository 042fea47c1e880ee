"""`attndyn conform` where a spec's text is not on this machine: said in a line, and no verdict."""

import json
import sys

import pytest

from attndyn.cli import main
from conformance.suite_specs import tiny

TEXT = """
name: text
data:
  kind: corpus
  source: {kind: path, files: [a.txt]}
  n_ctx: 8
  batch: 2
model: {architecture: pure_attention, d_model: 4, attention: causal}
optimizer: {kind: adam, lr: 1e-2}
training: {steps: 4}
probes: {loss: {every: 1}}
expect:
  - kind: value
    id: of-text
    claim: the loss on the text falls
    source: test
    of: {probe: loss, variable: loss, at: last}
    relation: at_most
    other: {probe: loss, variable: loss, at: first}
"""


@pytest.fixture
def conform(tmp_path, monkeypatch, capsys):
    """The command on a folder with a spec of a text and another one: exit code, what it printed."""
    specs = tmp_path / "specs"
    specs.mkdir()
    (specs / "text.yaml").write_text(TEXT, "utf-8")
    (specs / "tiny.yaml").write_text(tiny(), "utf-8")
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["attndyn", "conform", "specs", "--out", "out", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code, *capsys.readouterr()

    return call


def test_is_not_run_and_the_others_are_judged(conform, tmp_path):
    code, out, err = conform("--ledger", "claims.md", "--suite", "all")
    assert code == 0, err
    lines = [line for line in err.splitlines() if "text.yaml" in line]
    assert lines == [f"specs/text.yaml: not run: {tmp_path / 'specs' / 'a.txt'}: no such file"]
    assert "1 specs with 1 claims" in out
    assert "1 claims wait for their data" in out
    judged = json.loads((tmp_path / "out" / "conformance" / "conformance.json").read_text())
    assert [spec["name"] for spec in judged["specs"]] == ["tiny"]
    assert judged["refused"] == []
    assert [each["spec"] for each in judged["left_out"]] == ["specs/text.yaml"]
    waiting = (tmp_path / "claims.md").read_text().split("## Not yet run")[1]
    assert "the loss on the text falls | test | not yet run | the data of text | `of-text`" in waiting


def test_is_judged_where_the_text_is(conform, tmp_path):
    (tmp_path / "specs" / "a.txt").write_text("a cat saw a dog , the dog saw a cat\n" * 20, "utf-8")
    code, out, err = conform()
    assert code == 0, err
    assert "not run" not in err
    assert "2 specs with 2 claims" in out


def test_the_spec_is_valid_all_the_same(conform, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["attndyn", "validate", "specs/text.yaml"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert (ended.value.code or 0) == 0, capsys.readouterr().err


def test_nothing_else_to_judge_is_no_failure(conform, tmp_path):
    (tmp_path / "specs" / "tiny.yaml").unlink()
    code, out, err = conform()
    assert code == 0, err
    assert "0 specs with 0 claims" in out
