"""docs/claims.md is what the specs give: its quick part is made again and compared.

The whole is made by `attndyn conform specs --ledger docs/claims.md`.
"""

import re
from pathlib import Path

import pytest

from attndyn import registry
from attndyn.conformance.ledger import row
from attndyn.conformance.plan import spec_files
from attndyn.conformance.suite import Suite
from attndyn.spec import load_spec

ROOT = Path(__file__).parents[2]
CLAIMS = ROOT / "docs" / "claims.md"
QUICK = [
    path
    for path in spec_files(ROOT / "specs")
    if re.search(r"^quick: true$", path.read_text("utf-8"), re.MULTILINE)
]
#: other processors round otherwise, and a trajectory amplifies that
WITHIN = 0.02
#: what is rounding in one place may be another multiple of it elsewhere
ROUNDING = 1e-9


def tables(text):
    """Rows by the spec's file, relative to the root, and the claim's id; cells by column."""
    found = {}
    for section in text.split("\n### ")[1:]:
        spec = re.match(r"\[[^]]+\]\(\.\./([^)]+)\)", section)[1]
        lines = [line for line in section.split("\n## ")[0].splitlines() if line.startswith("| ")]
        columns, _, *rest = [[c.strip() for c in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
        for cells in rest:
            given = dict(zip(columns, cells, strict=True))
            found[spec, given["id"].strip("`")] = given
    return found


def differences(document, made):
    """In what a row of the document is another than the one that is made now."""
    told = [name for name in ("verdict", "so in", "must be") if document[name] != _plain(made[name])]
    return told + (["figure"] if not _close(document["figure"], made["figure"]) else [])


def _plain(text):
    return re.sub(r"([\\|<\[])", r"\\\1", text)


def _close(first, second):
    if "" in (first, second):
        return first == second
    (a, *unit), (b, *other) = first.split(), second.split()
    a, b = float(a), float(b)
    small = max(abs(a), abs(b)) < ROUNDING
    return unit == other and (small or a == b or abs(a - b) <= WITHIN * abs(a))


@pytest.fixture(scope="module")
def document():
    if not CLAIMS.is_file():
        pytest.fail(f"{CLAIMS} is missing; make it: attndyn conform specs --ledger docs/claims.md")
    return tables(CLAIMS.read_text("utf-8"))


def test_there_is_a_quick_part():
    assert QUICK


@pytest.mark.parametrize("path", QUICK, ids=lambda path: path.stem)
def test_the_document_is_what_the_quick_specs_give(path, document, tmp_path):
    with registry.isolated():
        findings = Suite(tmp_path, "numpy").judge(path).findings
    name = path.relative_to(ROOT).as_posix()
    assert {f.id: f.problem for f in findings if f.problem} == {}
    told = {f.id: differences(document[name, f.id], row(f)) for f in findings}
    assert {id: what for id, what in told.items() if what} == {}


def test_every_claim_stands_in_the_document_with_its_verdict(document):
    """Those of long runs too: what a spec has on record is what the document says was found."""
    for path in spec_files(ROOT / "specs"):
        with registry.isolated():
            spec = load_spec(path)
        name = path.relative_to(ROOT).as_posix()
        recorded = {options.id: f"**{options.verdict}**" for options in spec.expect}
        told = {id: row["verdict"] for (file, id), row in document.items() if file == name}
        # where the document was made there may be no copy of the text; then its claims stand as not yet run
        assert told == recorded or (not told and spec.data.kind == "corpus")


ROW = {"verdict": "**holds**", "so in": "4 of 4 (40–100)", "must be": r"\< 3", "figure": "0.5 nats"}


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({}, []),
        ({"figure": "0.509 nats"}, []),
        ({"figure": "0.52 nats"}, ["figure"]),
        ({"figure": "0.5 steps"}, ["figure"]),
        ({"figure": ""}, ["figure"]),
        ({"verdict": "**in part**"}, ["verdict"]),
        ({"so in": "3 of 4 (19–99)"}, ["so in"]),
        ({"must be": "< 4"}, ["must be"]),
    ],
)
def test_differences_are_noticed(change, found):
    assert differences(ROW, ROW | {"must be": "< 3"} | change) == found
