"""The JSON Schema: valid by its own rules, and of one mind with the loader."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from attndyn.conformance.plan import spec_files
from attndyn.errors import SpecError
from attndyn.registry import names
from attndyn.spec import json_schema, parse_spec

SPECS = spec_files(Path(__file__).parents[2] / "specs")
TABLE = yaml.safe_load(Path(__file__).with_name("bad_specs.yaml").read_text("utf-8"))


@pytest.fixture(scope="module")
def schema():
    return json_schema()


@pytest.fixture(scope="module")
def validator(schema):
    return Draft202012Validator(schema)


def test_it_is_a_schema(schema):
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == Draft202012Validator.META_SCHEMA["$schema"]


@pytest.mark.parametrize("path", SPECS, ids=[path.stem for path in SPECS])
def test_accepts_the_spec_files_and_their_canonical_text(validator, path):
    text = path.read_text("utf-8")
    for values in (yaml.safe_load(text), yaml.safe_load(parse_spec(text).to_yaml())):
        assert [error.message for error in validator.iter_errors(values)] == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("lr: 1e-3", "lr: -1.0e-3"),
        ("kind: adam", "kind: adm"),
        ("seeds: 2", "seed: 2"),
        ("loss: {every: 1}", "los: {every: 1}"),
        ("entropy]", "entrpy]"),
        ("kind: markov", "kind: marko"),
        ("kind: geometric, ", ""),
        ("d_model: 16", "d_model: wide"),
    ],
)
def test_refuses_what_the_loader_refuses(validator, old, new):
    text = TABLE["good"].replace("1e-3", "1.0e-3").replace(old.replace("1e-3", "1.0e-3"), new)
    assert list(validator.iter_errors(yaml.safe_load(text)))
    with pytest.raises(SpecError):
        parse_spec(text)


def test_every_plugin_is_in_it(schema):
    properties, definitions = schema["properties"], schema["$defs"]
    assert sorted(properties["probes"]["properties"]) == names("probe")
    for kind in ("analyzer", "optimizer", "architecture", "data"):
        assert [name for name in definitions if name.startswith(f"{kind}_")] == [
            f"{kind}_{name}" for name in names(kind)
        ]


def test_everything_of_the_engine_is_described(schema):
    assert all("description" in section for section in schema["properties"].values())
    for name in ("Training", "ReplicaOptions", "data_markov", "Geometric", "Sticky", "Random", "NormalInit"):
        fields = schema["$defs"][name]["properties"]
        undescribed = [key for key, field in fields.items() if "description" not in field and key != "kind"]
        assert not undescribed, name
