"""A run on a text: what the spec says wrong, what the file holds, and going on with it from elsewhere."""

import json
from itertools import pairwise

import numpy as np
import pytest

import attndyn
from attndyn.cli.progress import Progress
from attndyn.errors import RunError, SpecError
from attndyn.simulation import Simulation
from attndyn.spec import load_spec
from attndyn.trajectory import pairs

SPEC = """name: read
data:
  kind: corpus
  source: {kind: path, files: [texts/a.txt]}
  tokenizer: {kind: word, size: 6}
  n_ctx: 5
  batch: 3
model: {architecture: transformer, d_model: 4, attention: causal, init: {std: 0.3}}
optimizer: {kind: adam, lr: 1e-2}
training: {steps: 4, loss_positions: all}
replicas: {seeds: 2}
probes: {loss: {every: 1}, attention: {every: 2}, parameters: {every: 2}}
"""
TEXT = "the cat saw the dog , the dog saw a cat and the cat ran . " * 4


@pytest.fixture
def spec_file(tmp_path):
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text(TEXT)
    (tmp_path / "read.yaml").write_text(SPEC)
    return tmp_path / "read.yaml"


def problems(spec_file, *overrides):
    with pytest.raises(SpecError) as caught:
        Simulation(load_spec(spec_file, overrides), "numpy")
    return [str(problem) for problem in caught.value.problems]


def test_files_are_relative_to_the_spec(spec_file, tmp_path, monkeypatch):
    monkeypatch.chdir("/")
    spec = load_spec(spec_file)
    assert spec.data.source.files == (str(tmp_path / "texts" / "a.txt"),)
    (tmp_path / "moved.yaml").write_text(spec.to_yaml())
    assert load_spec(tmp_path / "moved.yaml") == spec


def test_what_is_wrong_is_named_with_its_place(spec_file, tmp_path):
    (found,) = problems(spec_file, "data.n_ctx=100")
    assert found.startswith("--set data.n_ctx=100: data.n_ctx: a context and the token after it are 101")
    (tmp_path / "texts" / "a.txt").unlink()
    (found,) = problems(spec_file)
    place = f"{spec_file}:4:32: data.source.files[0]: {tmp_path}/texts/a.txt: no such file; "
    assert found == f"{place}--set 'data.source.files=[FILE]' names another"


def test_tokens_that_are_none_are_named_once_the_text_is_read(spec_file):
    (found,) = problems(spec_file, "probes={loss: {every: 1}, attention: {every: 1, tokens: [the, horse]}}")
    assert (
        "probes.attention.tokens[1]: found 'horse', which is no token of the data; the first are '<u" in found
    )
    (found,) = problems(spec_file, "probes={loss: {every: 1}, attention: {every: 1, tokens: [dogs]}}")
    assert found.endswith("which is no token of the data; the nearest are 'dog'")
    (found,) = problems(spec_file, "model.mask_token=17")
    assert "model.mask_token: found 17, which is no token of the data; allowed: 0 to 5" in found
    (found,) = problems(spec_file, "representation=counts")
    assert found.startswith("--set representation=counts: representation: 'counts' is not exact")
    assert "exact here: positions" in found
    spec_file.write_text(f"{SPEC}representation: counts\n")
    (found,) = problems(spec_file)
    assert found.startswith(f"{spec_file}:13:17: representation: 'counts' is not exact")


def test_a_tag_that_is_also_a_key(spec_file):
    """`file` is a kind of tokenizer and the key of one, `text` the same of a source."""
    found = problems(spec_file, "data.tokenizer.kind=file")
    assert [line.split(": ", 1)[1] for line in found] == [
        "data.tokenizer.file: is missing; this key is required"
    ]
    found = problems(spec_file, "data.source.kind=text")
    assert [line.split(": ", 1)[1] for line in found] == [
        "data.source.text: is missing; this key is required",
        "data.source.files: unknown key; allowed: kind, text",
    ]


def test_what_the_text_became_is_said(spec_file, tmp_path, capsys):
    (tmp_path / "texts" / "a.txt").write_text("|".join([TEXT, "the cat .", TEXT[:-2]]))
    spec = load_spec(spec_file, ["data.documents='|'", "data.held_out=0.1"])
    with Progress() as progress:
        run = attndyn.run(spec, tmp_path / "out", backend="numpy", sinks=[progress])
    facts = json.loads(run.trajectory.attrs["data_facts"])
    n = 2 * len(TEXT.split()) - 1
    unknown = int(run.trajectory["count"].sel(token="<unk>"))
    assert facts == {
        "tokens": n - n // 10,
        "documents": 2,
        "windows": n - n // 10 - 2 * 5,
        "held_out": n // 10,
        "vocabulary": 6,
        "unknown": unknown,
        "short_documents": 1,
        "short_tokens": 3,
    }
    line = run.trajectory.attrs["data_summary"]
    assert line.startswith(f"text: {n - n // 10} tokens to train on, of 2 documents and in ")
    assert line.endswith("left out as too short: 1 document of 3 tokens")
    assert f"<unk> {100 * unknown / facts['tokens']:.1f}%" in line
    assert line in capsys.readouterr().out.splitlines()
    run.close()


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (
            "{kind: hub, repo: a..b/c, revision: R, file: x}",
            "data.source.repo: found 'a..b/c', the name of no",
        ),
        ("{kind: hub, repo: -a/c, revision: R, file: x}", "data.source.repo: found '-a/c', the name of no"),
        ("{kind: hub, repo: a/c.git, revision: R, file: x}", "data.source.repo: found 'a/c.git', the name"),
        ("{kind: hub, repo: a/b, revision: R, file: ../x}", "data.source.file: found '../x'; a path inside"),
        (
            "{kind: hub, repo: a/b, revision: R, file: [x, /y]}",
            "data.source.file[1]: found '/y'; a path inside",
        ),
        ("{kind: hub, repo: a/b, revision: R, file: [x, x]}", "data.source.file[1]: is given twice"),
        ("{kind: path, files: [x, ./x]}", "data.source.files[1]: is given twice"),
    ],
)
def test_names_that_cannot_be(spec_file, source, said):
    (found,) = problems(spec_file, f"data.source={source.replace('R', 40 * 'a')}")
    assert said in found


def test_a_model_too_large_for_the_vocabulary(spec_file, monkeypatch):
    monkeypatch.setattr("attndyn.spec.checks.MAX_ENTRIES", 2 * 4 * 6 - 1)
    spec = load_spec(spec_file, ["data.batch=1", "data.n_ctx=2"])
    with pytest.raises(SpecError, match="d_model × widest"):
        Simulation(spec, "numpy")


def test_the_run_keeps_what_was_counted(spec_file, tmp_path):
    run = attndyn.run(load_spec(spec_file), tmp_path / "out", backend="numpy")
    tree = run.trajectory
    assert run.status["state"] == "complete"
    words = TEXT.split()
    assert tree["token"].values.tolist()[:2] == ["<unk>", "the"]
    assert tree["count"].sel(token="the") == words.count("the")
    assert float(tree["pi"].sel(token="the", replica=1)) == words.count("the") / len(words)
    counts = pairs(tree)
    where = {token: i for i, token in enumerate(tree["token"].values.tolist())}
    followed = sum(pair == ("the", "cat") for pair in pairwise(words))
    assert counts[where["the"], where["cat"]] == followed
    assert counts.sum() == len(words) - 1
    assert list(json.loads(tree.attrs["texts"])) == [str(tmp_path / "texts" / "a.txt")]
    assert tree["transition"].dims == ("replica", "token", "next_token")
    for group in tree.subtree:
        for name, variable in group.variables.items():
            assert {"long_name", "units"} <= variable.attrs.keys(), (group.path, name)
    assert np.isfinite(tree["loss"]["loss"]).all()
    run.close()


def test_no_pairs_where_nothing_was_read(small, tmp_path):
    run = attndyn.run(small(), tmp_path, backend="numpy")
    with pytest.raises(RunError, match="not of a text"):
        pairs(run.trajectory)
    assert run.trajectory.attrs["texts"] == "{}"
    run.close()


def test_large_vocabularies_are_kept_sparse(spec_file, tmp_path, monkeypatch):
    monkeypatch.setattr("attndyn.data.corpus.source.MAX_DENSE", 3)
    run = attndyn.run(load_spec(spec_file), tmp_path / "out", backend="numpy")
    assert "transition" not in run.trajectory
    assert pairs(run.trajectory).sum() == len(TEXT.split()) - 1
    run.close()


def interrupted(spec, out, after):
    """A run that stops before update `after`."""

    class Stop:
        def start(self, simulation): ...
        def record(self, probe, step, values): ...
        def finish(self, simulation, outcome): ...

        def advance(self, simulation):
            if simulation.step == after:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        attndyn.run(spec, out, backend="numpy", sinks=[Stop()])
    (directory,) = (out / spec.name).iterdir()
    return directory


def test_resuming_from_elsewhere(spec_file, tmp_path, monkeypatch):
    spec = load_spec(spec_file)
    whole = attndyn.run(spec, tmp_path / "whole", backend="numpy")
    directory = interrupted(spec, tmp_path / "part", 2)
    monkeypatch.chdir("/")
    stored = load_spec(directory / "spec.yaml")
    again = attndyn.run(stored, backend="numpy", resume=directory)
    assert again.status["state"] == "complete"
    for one, other in zip(whole.trajectory.subtree, again.trajectory.subtree, strict=True):
        assert one.to_dataset(inherit=False).equals(other.to_dataset(inherit=False))
    whole.close()
    again.close()


def test_a_changed_text_is_not_gone_on_with(spec_file, tmp_path):
    spec = load_spec(spec_file)
    directory = interrupted(spec, tmp_path / "part", 2)
    file = tmp_path / "texts" / "a.txt"
    file.write_text(TEXT.replace("cat", "dog"))
    with pytest.raises(RunError, match=r"was begun before .*a\.txt was changed; run it anew"):
        attndyn.run(spec, backend="numpy", resume=directory)
    # what is there can still be read without the text
    file.unlink()
    run = attndyn.open_run(directory)
    assert run.spec == spec
    run.close()
