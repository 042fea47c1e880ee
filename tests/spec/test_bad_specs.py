"""Every wrong spec of `bad_specs.yaml` shows exactly the problems listed there, each at its place."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from attndyn import registry
from attndyn.errors import PluginError, SpecError
from attndyn.spec import load_spec, parse_spec

TABLE = yaml.safe_load(Path(__file__).with_name("bad_specs.yaml").read_text("utf-8"))
CASES = TABLE["cases"]


def text_of(case):
    if "text" in case:
        return case["text"]
    text = TABLE["good"]
    for old, new in case.get("edit", {}).items():
        assert text.count(old) == 1, f"{old!r} is not found once"
        text = text.replace(old, new)
    return text


def problems_of(text, overrides=()):
    with pytest.raises(SpecError) as caught:
        parse_spec(text, "spec.yaml", overrides)
    return [str(problem).removeprefix("spec.yaml:") for problem in caught.value.problems]


@pytest.mark.parametrize("case", CASES, ids=[case["case"] for case in CASES])
def test_wrong_spec(case):
    found = problems_of(text_of(case), case.get("set", ()))
    assert len(found) == len(case["problems"]), found
    for line, expected in zip(found, case["problems"], strict=True):
        assert line.startswith(expected)
        assert line.isprintable()


def test_the_good_spec_is_good_and_the_table_is_long():
    assert parse_spec(TABLE["good"]).name == "good"
    assert len(CASES) >= 70
    assert len({case["case"] for case in CASES}) == len(CASES)


def test_a_long_list_of_problems_is_cut():
    found = problems_of("name: x\n" + "".join(f"key{n}: 1\n" for n in range(500)))
    assert len(found) == 101
    assert found[-1].endswith("more problems from here")


@pytest.mark.parametrize(
    ("content", "where", "message"),
    [
        (b"name: \xff\n", ":1:7", "not UTF-8: found the byte 0xff"),
        (b"name: x\nd\xc3\xa9: \xc3\n", ":2:5", "not UTF-8: found the byte 0xc3"),
        ("name: x".encode("utf-16"), ":1:1", "not UTF-8: found the byte 0xff"),
        (b"name: \x00\n", ":1:7", "the control character U+0000 is not allowed"),
        (b"#" * (2**20 + 1), "", "the file is larger than 1048576 bytes, the most a spec may have"),
    ],
    ids=["byte", "truncated character", "utf-16", "nul", "large"],
)
def test_unreadable_content(tmp_path, content, where, message):
    path = tmp_path / "spec.yaml"
    path.write_bytes(content)
    with pytest.raises(SpecError) as caught:
        load_spec(path)
    assert str(caught.value) == f"{path}{where}: {message}"


def test_missing_file_directory_and_impossible_name(tmp_path):
    names = {tmp_path / "none.yaml": "no such file", tmp_path: "is a directory, not a spec file"}
    for path, message in names.items():
        with pytest.raises(SpecError, match=f"^{path}: {message}$"):
            load_spec(path)
    with pytest.raises(SpecError, match=r"^a\\x00b: cannot be read"):
        load_spec("a\0b")


def test_file_name_cannot_forge_lines(tmp_path):
    path = tmp_path / "a\nb.yaml"
    path.write_text("[]")
    with pytest.raises(SpecError) as caught:
        load_spec(path)
    assert str(caught.value).isprintable()


def test_a_plugin_that_fails_to_load_is_a_problem_of_the_spec(monkeypatch):
    real = registry.get

    def get(kind, name):
        if name in ("adam", "loss", "entropy"):
            raise PluginError(f"{kind} '{name}' is broken: first line\nsecond line")
        return real(kind, name)

    monkeypatch.setattr(registry, "get", get)
    assert problems_of(TABLE["good"]) == [
        "10:19: optimizer.kind: optimizer 'adam' is broken: first line second line",
        "14:3: probes.loss: probe 'loss' is broken: first line second line",
        "17:27: analyzers[1].kind: analyzer 'entropy' is broken: first line second line",
    ]
