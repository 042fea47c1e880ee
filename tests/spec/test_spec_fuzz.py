"""Whatever is done to a good spec, loading it gives a spec or a list of problems, never another error."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
import yaml

from attndyn.conformance.plan import spec_files
from attndyn.errors import SpecError
from attndyn.spec import parse_spec
from attndyn.spec.source import Findings, read_yaml

SPECS = spec_files(Path(__file__).parents[2] / "specs")
HOSTILE_VALUES = json.loads(r"""
[null, true, false, 0, -1, 1, 2, 3.5, 1e308, -0.0, 1e-320, 1e60, 10000000000000000000000,
 "", " ", "x", "no", "1e-3", "population", "positions", "{", "*a", "&a", "!!x", "%", "\u2028", "\ufeff",
 [], [[]], [null], [0.5, 0.5], ["stages", "stages"], [[0.5, 0.5], [0.5, 0.5]],
 {}, {"kind": "flow"}, {"kind": "sticky"}, {"kind": null}, {"kind": ["x"]}, {"a": {"b": {}}}]
""")
HOSTILE_TEXT = [
    *"\n\t :[]{}|>'\"#?%@`\r\\\0~\u0085\u2028\ufeff",
    *[": ", "- ", "? ", "&a ", "*a", "!!int ", "<<: ", "0x", "---\n", "...\n"],
]


def loads_or_lists_problems(text, overrides=()):
    """Whether it loads; fails on any error that is not a list of printable problems."""
    try:
        spec = parse_spec(text, "fuzz", overrides)
    except SpecError as error:
        problems = [str(problem) for problem in error.problems]
        spec = None
    if spec is None:
        assert problems
        assert all(line.isprintable() for line in problems)
        return False
    assert parse_spec(spec.to_yaml()) == spec
    assert len(spec.replicas_expanded()) == spec.replicas.count()
    return True


def places(value, path=()):
    """Paths of all values inside a value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from places(inner, (*path, key))


def change_a_value(values, rng):
    path = rng.choice(list(places(values)))
    for step in path[:-1]:
        values = values[step]
    choice = rng.randrange(4)
    if choice == 0:
        del values[path[-1]]
    elif choice == 1 and isinstance(values, dict):
        values[rng.choice(["x", path[-1] + "s", "kind", "name", "lr"])] = values.pop(path[-1])
    else:
        values[path[-1]] = rng.choice(HOSTILE_VALUES)


@pytest.mark.parametrize("seed", range(6))
def test_changed_values(seed):
    rng = random.Random(seed)
    loaded = 0
    for _ in range(60):
        # by our own reader: to another one 1e-3 may be a string, which no spec survives
        values = read_yaml(rng.choice(SPECS).read_text("utf-8"), "fuzz", Findings()).plain()
        for _ in range(rng.choice([1, 1, 2, 3])):  # one change in five is harmless
            change_a_value(values, rng)
        loaded += loads_or_lists_problems(json.dumps(values))
    assert 0 < loaded < 60  # some changes are harmless, and some are not


@pytest.mark.parametrize("seed", range(6))
def test_changed_text(seed):
    rng = random.Random(100 + seed)
    for _ in range(60):
        text = rng.choice(SPECS).read_text("utf-8")
        for _ in range(rng.randint(1, 4)):
            start = rng.randrange(len(text))
            cut = start + rng.choice([0, 0, 1, 2, 10])
            text = text[:start] + rng.choice([*HOSTILE_TEXT, ""]) + text[cut:]
        loads_or_lists_problems(text)


@pytest.mark.parametrize("seed", range(4))
def test_changed_overrides(seed):
    rng = random.Random(200 + seed)
    text = SPECS[0].read_text("utf-8")
    paths = [".".join(map(str, path)) for path in places(yaml.safe_load(text))]
    for _ in range(60):
        value = json.dumps(rng.choice(HOSTILE_VALUES), ensure_ascii=False)
        override = f"{rng.choice(paths)}{rng.choice(['', '', '.x', '[0]', '.0', '..', '='])}={value}"
        position = rng.randrange(len(override))
        broken = override[:position] + rng.choice(HOSTILE_TEXT) + override[position:]
        loads_or_lists_problems(text, [rng.choice([override, broken])])
