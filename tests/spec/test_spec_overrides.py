"""`--set`: what it changes, and how its paths are read."""

from __future__ import annotations

import pytest

from attndyn.spec import load_spec, parse_spec
from attndyn.spec.overrides import parse_path


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("a", ("a",)),
        ("a.b-c.d_1", ("a", "b-c", "d_1")),
        ("a.0.b", ("a", "0", "b")),
        ("a[0].b", ("a", 0, "b")),
        ("replicas.vary.optimizer.lr", ("replicas", "vary", "optimizer.lr")),
        ("replicas.vary", ("replicas", "vary")),
        *((wrong, None) for wrong in ("", ".a", "a.", "a..b", "[0]", "a[x]", "a[0", "a b", "a.[0]", "é")),
    ],
)
def test_paths(text, path):
    assert parse_path(text) == path


def test_values_are_read_like_the_file(small):
    spec = small(
        "optimizer.lr=1e-4",
        "data.stationary={kind: explicit, pi: [0.5, 0.25, 0.25]}",
        "data.stationary.pi[1]=0.3",
        "data.stationary.pi.2=0.2",
        "model.init.std=null",
        "probes.gradients.steps[1]=6",
        "analyzers=[entropy]",
        "analyzers[0]={kind: cosine, tokens: 3}",
        "description='a = b'",
    )
    assert spec.optimizer.lr == 1e-4
    assert spec.data.stationary.pi == (0.5, 0.3, 0.2)
    assert spec.model.init.scale(5) == 5.0**-2
    assert spec.probes["gradients"].steps == [1, 6]
    assert spec.analyzers[0].tokens == 3
    assert spec.description == "a = b"


def test_missing_mappings_on_the_way_are_made(small):
    spec = small(
        "replicas.vary.data.transition.lam=[0.1, 0.2]",
        "optimizer.schedule={kind: warmup}",
        "optimizer.schedule.warmup=3",
    )
    assert spec.replicas.vary == {"data.transition.lam": [0.1, 0.2]}
    assert spec.optimizer.schedule.warmup == 3


def test_later_overrides_win(small):
    assert small("training.steps=8", "training.steps=9").training.steps == 9


def test_an_alias_is_changed_in_one_place_only(tmp_path):
    text = """
name: shared
data: {kind: markov, stationary: {kind: zipf, d_vocab: 3}, transition: {kind: sticky, lam: 0.5}}
model: {architecture: pure_attention, d_model: 4}
optimizer: {kind: gd, lr: 0.1}
training: {steps: 10}
probes: {loss: &often {every: 1}, attention: *often}
"""
    path = tmp_path / "spec.yaml"
    path.write_text(text)
    spec = load_spec(path, ["probes.attention.every=5"])
    assert (spec.probes["loss"].every, spec.probes["attention"].every) == (1, 5)
    assert parse_spec(text).probes["attention"].every == 1
