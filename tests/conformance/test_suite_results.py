"""The ledger of claims, `ledger.yaml`, conformance.json and JUnit XML."""

import json
import math
import re
from dataclasses import fields, replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from attndyn.conformance.faults import Failure, Fault, Report, Result
from attndyn.conformance.ledger import COLUMNS, ledger
from attndyn.conformance.plan import Plan, read_plan, spec_files
from attndyn.conformance.record import Checked, as_json, as_junit
from attndyn.conformance.suite import Judged
from attndyn.conformance.verdicts import Finding, no_verdict
from attndyn.errors import SpecError
from attndyn.spec import parse_spec
from conformance.suite_specs import tiny

DOCUMENT = (Path(__file__).parents[2] / "docs" / "expectations.md").read_text("utf-8")
GOOD = Finding(
    id="good",
    kind="value",
    claim="it is so",
    source="test",
    recorded="holds",
    verdict="holds",
    criterion="≥ 0.5",
    figure=0.75,
    band=(0.7, 0.8),
    interval=(0.7, 0.8),
    k=4,
    n=4,
    trials=5,
    share_interval=(0.4, 1.0),
)


def judged(*findings, path="specs/paper/tiny.yaml", name="tiny"):
    return Judged(Path(path), parse_spec(tiny(name)), findings, (Path("out/tiny/1"),), True)


def written(*each, plan=None, place="docs"):
    return ledger(each, plan or Plan(), Path("specs"), Path(place), "attndyn conform specs", "today")


def cells(line):
    """The cells of a row as GitHub's Markdown splits it: at bars that no backslash escapes."""
    return [cell.strip() for cell in re.findall(r"((?:\\.|[^\\|])*)\|", line)[1:]]


def rows(text):
    found = [cells(line) for line in text.splitlines() if line.startswith("| ")]
    return [row for row in found if row[0] not in ("claim", "---")]


def plan(text, tmp_path):
    (tmp_path / "ledger.yaml").write_text(text, "utf-8")
    return read_plan(tmp_path)


def test_a_row():
    text = written(judged(GOOD))
    (row,) = rows(text)
    assert dict(zip(COLUMNS, row, strict=True)) == {
        "claim": "it is so",
        "source": "test",
        "verdict": "**holds**",
        "figure": "0.75",
        "10–90 %": "0.7–0.8",
        "so in": "4 of 4 (40–100; 1 say nothing)",
        "must be": "≥ 0.5",
        "id": "`good`",
    }
    assert "1 claims: 1 hold.\n" in text
    assert "### [tiny](../specs/paper/tiny.yaml)" in text


def test_chapters_in_their_order_and_what_has_none_at_the_end(tmp_path):
    chapters = """
chapters:
  - {title: "Controls", specs: ["controls/*.yaml"]}
  - {title: "Paper", text: "Said there.", specs: ["paper/*"]}
  - {title: "Empty", specs: ["nothing/*"]}
waiting:
  - {id: later, claim: "a | b", source: "theory", waits_for: "text"}
"""
    specs = [
        judged(GOOD, path=f"specs/{p}.yaml", name=p.replace("/", "-")) for p in ("paper/a", "b", "controls/c")
    ]
    specs.append(judged(path="specs/paper/bare.yaml", name="bare"))
    text = written(*specs, plan=plan(chapters, tmp_path))
    headings = re.findall(r"^#+ .*", text, re.MULTILINE)
    assert headings == [
        "# Claims",
        "## Controls",
        "### [controls-c](../specs/controls/c.yaml)",
        "## Paper",
        "### [paper-a](../specs/paper/a.yaml)",
        "## Others",
        "### [b](../specs/b.yaml)",
        "## Not yet run",
    ]
    assert "## Paper\n\nSaid there.\n\n###" in text
    assert rows(text)[-1] == ["a \\| b", "theory", "not yet run", "text", "`later`"]
    assert "4 claims: 3 hold, 1 not yet run." in text


HOSTILE = [
    ("a | b", r"a \| b"),
    ("a < b <script>", r"a \< b \<script>"),
    ("two\nlines\r\n\tof text", "two lines of text"),
    ("one ` backtick | bar", r"one \` backtick \| bar"),
    ("code `a|b<c` here", r"code `a\|b<c` here"),
    ("a [link](/etc/passwd)", r"a \[link](/etc/passwd)"),
    ("the end\\", r"the end\\"),
    (r"\| already", r"\\\| already"),
    ("π_0 ≥ 0.5 & so", "π_0 ≥ 0.5 & so"),
]


@pytest.mark.parametrize(("claim", "cell"), HOSTILE)
def test_cells_stay_cells(claim, cell):
    text = written(judged(replace(GOOD, claim=claim, note=claim)))
    (row,) = rows(text)
    assert len(row) == len(COLUMNS)
    assert row[0] == cell
    assert f"- `good`: {cell}\n" in text


def test_links_with_blanks_lead_to_the_file(tmp_path):
    file = tmp_path / "my specs" / "a (1).yaml"
    text = ledger([judged(GOOD, path=file)], Plan(), file.parent, tmp_path / "docs", "c", "v")
    assert "[tiny](../my%20specs/a%20%281%29.yaml)" in text


def test_remarks():
    given = [
        replace(GOOD, id="a", verdict="in part", detail="seen", note="tried"),
        replace(GOOD, id="b", verdict=None, problem="cannot fail", n=0, figure=None, band=None),
        replace(GOOD, id="c", verdict="not applicable", n=0, figure=None, band=None),
        replace(GOOD, id="d"),
    ]
    text = written(judged(*given))
    remarks = [line for line in text.splitlines() if line.startswith("- ")]
    assert remarks == [
        "- `a`: seen; tried; on record is: holds",
        "- `b`: no verdict: cannot fail",
        "- `c`: on record is: holds",
    ]
    assert [row[2] for row in rows(text)] == [
        "**in part**",
        "**no verdict**",
        "**not applicable**",
        "**holds**",
    ]
    assert rows(text)[1][3:6] == ["", "", ""]


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("chapters: 3", "1:11: chapters: found the number 3"),
        ("chapters:\n  - {title: x, specs: []}", "2:23: chapters[0].specs"),
        ("chapters:\n  - {titel: x, specs: [a]}", "2:6: chapters[0].titel: unknown key"),
        ("waiting:\n  - {id: a b, claim: c, source: s, waits_for: w}", "2:10: waiting[0].id"),
        ("- a", "1:1: found a list"),
        ("chapters: [", "1:12: "),
        ("a: b", "1:1: a: unknown key"),
        ("", "1:1: the document is empty"),
    ],
)
def test_mistakes_in_the_plan_have_a_place(tmp_path, text, where):
    with pytest.raises(SpecError) as caught:
        plan(text, tmp_path)
    lines = str(caught.value).splitlines()
    assert any(line.startswith(f"{tmp_path}/ledger.yaml:{where}") for line in lines), lines


def test_a_claim_that_waits_twice(tmp_path):
    twice = "{id: a, claim: c, source: s, waits_for: w}"
    with pytest.raises(SpecError, match=r"ledger.yaml:3:10: waiting\[1\].id: the id 'a' is given twice"):
        plan(f"waiting:\n  - {twice}\n  - {twice}\n", tmp_path)


def test_no_plan(tmp_path):
    assert read_plan(tmp_path) == plan("{}", tmp_path) == Plan()


def test_which_files_are_specs(tmp_path):
    for name in ("b.yaml", "sub/a.yml", ".hidden/c.yaml", ".d.yaml", "ledger.yaml", "e.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "loop").symlink_to(tmp_path, target_is_directory=True)
    assert [file.relative_to(tmp_path).as_posix() for file in spec_files(tmp_path)] == ["b.yaml", "sub/a.yml"]


def test_json_is_strict_and_as_documented():
    """No NaN or Infinity, which JSON does not have; every field stands in the document."""
    odd = replace(GOOD, figure=math.inf, band=(-math.inf, math.inf), interval=None, claim='"quoted" ≥ \u2028')
    problems = {Path("specs/x.yaml"): "x.yaml:1:1: one\nx.yaml:2:1: two"}
    fails = Result("gradients", 1, (Failure(Fault.WRONG_SIGN, "W_0", "is minus", "6 steps"),))
    spec = parse_spec(tiny())
    checked = Checked(Path("specs/c.yaml"), spec, Report("spec", "c", "o", (fails,)))
    left = {Path("specs/l.yaml"): "claims nothing"}
    text = as_json([judged(GOOD, odd)], problems, "2026-01-01T00:00:00+00:00", [checked], left)

    def refuse(constant):
        raise AssertionError(constant)

    found = json.loads(text, parse_constant=refuse)
    (spec,) = found["specs"]
    good, strange = spec["findings"]
    assert set(good) == {field.name for field in fields(Finding)} | {"as_recorded"}
    assert (good["figure"], good["band"], good["as_recorded"]) == (0.75, [0.7, 0.8], True)
    assert (strange["figure"], strange["band"], strange["interval"]) == ("inf", ["-inf", "inf"], None)
    assert strange["claim"] == odd.claim
    assert found["refused"] == [{"spec": "specs/x.yaml", "problems": ["x.yaml:1:1: one", "x.yaml:2:1: two"]}]
    section = DOCUMENT[DOCUMENT.index("## Judging claims") :]
    documented = set(re.findall(r"`([a-z_0-9]+)`", section))
    (core,) = found["core"]
    (check,) = core["checks"]
    names = {*found, *spec, *good, *found["refused"][0], *core, *check, *check["faults"][0]}
    names |= {*found["left_out"][0]}
    assert names - documented == set()


def test_junit_counts_failures_and_errors():
    differs = replace(GOOD, id="differs", verdict="in part")
    broken = replace(GOOD, id="broken", verdict=None, problem='cannot < fail & "so"')
    text = as_junit([judged(GOOD, differs, broken), judged(GOOD)], {Path("a/wrong.yaml"): "one\ntwo"})
    root = ElementTree.fromstring(text)
    counts = [tuple(int(s.get(k)) for k in ("tests", "failures", "errors")) for s in root]
    assert counts == [(3, 1, 1), (1, 0, 0), (1, 0, 1)]
    for suite in root:
        assert len(suite.findall("testcase")) == int(suite.get("tests"))
        assert len(suite.findall("testcase/failure")) == int(suite.get("failures"))
        assert len(suite.findall("testcase/error")) == int(suite.get("errors"))
    assert root.find(".//failure").get("message") == "in part; on record is: holds"
    assert root.find(".//error").get("message") == broken.problem
    assert root[2].find("testcase/error").get("message") == "one two"


def test_what_a_plugin_says_cannot_break_a_file_or_obey_a_terminal():
    """A message of an error may hold anything."""
    options = parse_spec(tiny()).expect[0]
    broken = no_verdict(options, "bell \x07, escape \x1b[2J,\nnothing \x00, surrogate \ud800")
    assert broken.problem == r"bell \x07, escape \x1b[2J, nothing \x00, surrogate \ud800"
    ElementTree.fromstring(as_junit([judged(broken)], {}))
    json.loads(as_json([judged(broken)], {}, "now"))
    written(judged(broken)).encode()
