"""Good specs: defaults, canonical text, equality."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from attndyn.conformance.plan import spec_files
from attndyn.registry import names
from attndyn.spec import load_spec, parse_spec

SPECS = spec_files(Path(__file__).parents[2] / "specs")
LEAST = """
name: least
data: {kind: markov, stationary: {kind: zipf, d_vocab: 3}, transition: {kind: sticky, lam: 0.5}}
model: {architecture: pure_attention, d_model: 4}
optimizer: {kind: gd, lr: 1}
training: {steps: 10}
"""


def test_defaults():
    spec = parse_spec(LEAST)
    assert (spec.data.regime, spec.data.n_ctx, spec.data.batch, spec.data.size) == ("sampled", 64, 1000, None)
    assert spec.data.targets == "sampled"
    assert spec.data.labels == ("0", "1", "2")
    assert spec.representation == "auto"
    assert spec.model.init.scale(4) == 4.0**-2
    assert (spec.training.dtype, spec.training.loss_positions, spec.training.max_loss) == (
        "float64",
        "last",
        1e4,
    )
    assert (spec.replicas.seeds, spec.replicas.base_seed) == (1, 0)
    assert {name: probe.every for name, probe in spec.probes.items()} == {
        "loss": 1,
        "attention": 10,
        "parameters": 50,
    }
    assert spec.analyzers == []
    assert isinstance(spec.optimizer.lr, float)


@pytest.mark.parametrize("path", SPECS, ids=[path.stem for path in SPECS])
def test_canonical_text_loads_back_to_the_same(path):
    spec = load_spec(path)
    again = parse_spec(spec.to_yaml())
    assert again == spec
    assert again.to_yaml() == spec.to_yaml()
    assert again.sha256 == spec.sha256


@pytest.mark.parametrize(
    "override",
    [
        "data.stationary={kind: explicit, pi: [0.1, 0.2, 0.7]}",
        "data.stationary={kind: symmetric, p: 0.5, d_vocab: 3, delta: 1e-17}",
        "data.transition={kind: random, seed: 3, concentration: 0.3}",
        "data.tokens=[no, '1e3', é]",
        "replicas={vary: {optimizer.lr: [1, 1e-3], data.transition.lam: [0.0, 0.9]}, combine: zip}",
        "analyzers=[entropy, {kind: cosine, tokens: 2}]",
        "expect=[{kind: value, id: a, claim: b, source: c, relation: at_most, number: 1, "
        "of: {probe: loss, variable: loss, at: last}}]",
        'description="two\\nlines: with # and 1:30"',
        "data={kind: markov, transition: {kind: explicit, matrix: [[0, 1], [0.5, 0.5]]}}",
    ],
)
def test_canonical_text_of_every_shape(override):
    spec = parse_spec(LEAST, overrides=[override])
    assert parse_spec(spec.to_yaml()) == spec
    assert spec != parse_spec(LEAST)
    assert spec.sha256 != parse_spec(LEAST).sha256


def test_order_and_layout_of_the_file_do_not_matter():
    shuffled = "\n".join(reversed(LEAST.strip().splitlines()))
    assert parse_spec(shuffled).sha256 == parse_spec(LEAST).sha256


def test_a_spec_cannot_be_changed():
    with pytest.raises(ValidationError):
        parse_spec(LEAST).training.steps = 3


def test_all_probes_and_analyzers_can_be_asked_for():
    probes = ", ".join(f"{name}: {{count: 5}}" for name in names("probe"))
    analyzers = ", ".join(names("analyzer"))
    spec = parse_spec(LEAST, overrides=[f"probes={{{probes}}}", f"analyzers=[{analyzers}]"])
    assert [options.kind for options in spec.analyzers] == names("analyzer")
