"""YAML scalars by the core schema of 1.2, aliases, and the places of values."""

from __future__ import annotations

import math

import pytest

from attndyn.spec.canonical import to_yaml
from attndyn.spec.source import Findings, read_yaml, scalar


def read(text):
    findings = Findings()
    node = read_yaml(text, "f", findings)
    assert not findings
    return node


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("1e-3", 0.001), ("1E3", 1000.0), (".5", 0.5), ("5.", 5.0), ("-1.5e+2", -150.0), ("+.5", 0.5)),
        *(("12", 12), ("-7", -7), ("+7", 7), ("010", 10), ("0o10", 8), ("0x1F", 31)),
        *(("no", "no"), ("on", "on"), ("y", "y"), ("Yes", "Yes"), ("true", True), ("False", False)),
        *(("~", None), ("", None), ("null", None), ("nULL", "nULL")),
        *(("3:20", "3:20"), ("2026-01-01", "2026-01-01"), ("1_000", "1_000"), ("0b1", "0b1"), ("0o8", "0o8")),
        *(("e3", "e3"), (".", "."), ("-", "-"), ("1e", "1e"), ("inf", "inf"), ("nan", "nan"), ("١", "١")),
        *((".inf", math.inf), ("-.INF", -math.inf), ("=", "="), ("<<", "<<")),
    ],
)
def test_plain_scalars(text, value):
    found = scalar(text)
    assert (type(found), found) == (type(value), value)


def test_not_a_number():
    assert math.isnan(scalar(".nan"))


def test_quoted_and_block_scalars_are_strings():
    node = read("a: '1'\nb: \"true\"\nc: '~'\nd: ''\ne: |-\n  3\n")
    assert node.plain() == {"a": "1", "b": "true", "c": "~", "d": "", "e": "3"}


def test_places_of_keys_and_values():
    node = read("a: 1\nb:\n  - x\n  - {c: [2, 3]}\n")
    places = {("a",): "1:4", ("b",): "3:3", ("b", 0): "3:5", ("b", 1, "c", 1): "4:13", ("b", 7, "x"): "3:3"}
    for path, place in places.items():
        assert node.origin_of(path).where == f"f:{place}"
    assert node.origin_of(("b", 1, "c"), at_key=True).where == "f:4:6"
    assert node.origin_of(("b", 1, "d"), at_key=True).where == "f:4:5"


def test_alias_repeats_the_value_and_its_place():
    node = read("a: &x {b: [1, 2]}\nc: *x\n&k d: *k\n")
    assert node.plain() == {"a": {"b": [1, 2]}, "c": {"b": [1, 2]}, "d": "d"}
    assert node.origin_of(("c", "b", 1)).where == "f:1:15"


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_line_endings(ending):
    assert read(ending.join(["a: 1", "b: 2"])).origin_of(("b",)).where == "f:2:4"


AWKWARD = [
    "no",
    "1e-3",
    "0o7",
    "0x1",
    "1:30",
    "~",
    "",
    " a",
    "a: b",
    "# c",
    "<<",
    "2026-01-01",
    "+.5",
    ".nan",
]
AWKWARD += [
    "a\nb",
    "a\tb",
    "é",
    "\u2028",
    "\u0085",
    "'",
    '"',
    "- x",
    "!t",
    "&a",
    "*a",
    "%x",
    "@",
    "=",
    "1_0",
    "yes",
]


@pytest.mark.parametrize("text", AWKWARD)
def test_canonical_text_keeps_strings_strings(text):
    assert read(to_yaml({"key": text, "list": [text]})).plain() == {"key": text, "list": [text]}


@pytest.mark.parametrize("number", [1e-8, 1e300, 5e-324, -0.0, 1.0, 0.1 + 0.2, 123456789012345678, 2.0**70])
def test_canonical_text_keeps_numbers_exactly(number):
    found = read(to_yaml({"key": number})).plain()["key"]
    assert (type(found), repr(found)) == (type(number), repr(number))
