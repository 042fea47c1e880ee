"""docs/specs.md: its examples load, and its tables are true."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from attndyn import registry
from attndyn.data import stationary, transition
from attndyn.data.corpus import sources, tokenizers
from attndyn.data.corpus.options import CorpusOptions
from attndyn.data.options import MarkovOptions
from attndyn.errors import SpecError
from attndyn.spec import ReplicaOptions, Spec, Training, parse_spec
from attndyn.spec.base import ProbeOptions
from attndyn.spec.sections import DEFAULT_PROBES
from attndyn.spec.source import Findings, read_yaml

TEXT = (Path(__file__).parents[2] / "docs" / "specs.md").read_text("utf-8")
BLOCKS = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
WHOLE = BLOCKS[0]


def rows(heading, header):
    """Cells of the table under a heading whose header row begins with `header`."""
    section = re.split(r"^#+ ", TEXT.split(f"# {heading}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]
    lines = section.split(f"| {header} |", 1)[1].splitlines()[2:]
    table = [line for line in lines if not line or line.startswith("|")]
    table = table[: table.index("")] if "" in table else table
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def value_of(text):
    return read_yaml(text, "docs", Findings()).plain()


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_examples_load(block):
    if block == WHOLE:
        assert parse_spec(block).name == "first"
    else:
        sections = value_of(block)
        parse_spec(WHOLE, overrides=[f"{name}={json.dumps(value)}" for name, value in sections.items()])


def test_the_problems_shown_are_the_problems_found():
    wrong = WHOLE.replace("lam: 0.5", "lam: 1.5").replace("adam", "adm")
    with pytest.raises(SpecError) as caught:
        parse_spec(wrong, "first.yaml")
    assert all(f"    {problem}\n" in TEXT for problem in caught.value.problems)
    assert len(caught.value.problems) == 2


@pytest.mark.parametrize(
    ("heading", "model"),
    [
        ("The top", Spec),
        ("data", MarkovOptions),
        ("corpora", CorpusOptions),
        ("model", registry.get("architecture", "pure_attention").Options),
        ("training", Training),
        ("replicas", ReplicaOptions),
        ("probes", ProbeOptions),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_keys_and_defaults(heading, model):
    table = {key.strip("`"): default for key, default, _ in rows(heading, "key")}
    assert table.keys() == model.model_fields.keys()
    for key, cell in table.items():
        if cell.startswith("`"):
            assert model.model_fields[key].default == value_of(cell.strip("`")), key


@pytest.mark.parametrize(
    ("heading", "column", "classes"),
    [
        ("corpora", "source", [sources.PathSource, sources.HubSource, sources.TextSource]),
        (
            "corpora",
            "tokenizer",
            [tokenizers.Word, tokenizers.Char, tokenizers.Byte, tokenizers.TokenizerFile],
        ),
        (
            "stationary",
            "kind",
            [stationary.ExplicitPi, stationary.Geometric, stationary.Symmetric, stationary.Zipf],
        ),
        ("transition", "kind", [transition.Sticky, transition.Explicit, transition.Random]),
        (
            "optimizer",
            "kind",
            [registry.get("optimizer", name).Options for name in ("gd", "sgd", "adam", "adamw", "flow")],
        ),
    ],
    ids=["source", "tokenizer", "stationary", "transition", "optimizer"],
)
def test_kinds_and_their_keys(heading, column, classes):
    for (kind, keys, *_), model in zip(rows(heading, column), classes, strict=True):
        fields = {name: field for name, field in model.model_fields.items() if name != "kind"}
        assert kind.strip("`") in str(model.model_fields["kind"].annotation)
        assert sorted(re.findall(r"`(\w+)`", keys)) == sorted(fields)
        for name, default in re.findall(r"`(\w+)` \((.*?)[;)]", keys):
            assert fields[name].default == value_of(default), name


def test_probes():
    assert [row[0].strip("`") for row in rows("probes", "probe")] == [
        "loss",
        "attention",
        "parameters",
        "norms",
        "gradients",
        "token_classes",
        "predictions",
        "held_out",
        "invariants",
    ]
    assert {"probes": DEFAULT_PROBES} in [value_of(block) for block in BLOCKS]
