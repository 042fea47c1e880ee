"""`attndyn conform` on specs: exit codes, what is said, what is written, and combinations of options."""

import json
import sys
from xml.etree import ElementTree

import pytest

from attndyn import registry
from attndyn.cli import main
from attndyn.conformance import suite
from attndyn.conformance.faults import Failure, Fault
from attndyn.conformance.spec_core import CHECKS
from conformance.suite_specs import tiny


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder `specs` in the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "specs").mkdir()
    return tmp_path


@pytest.fixture
def write(folder):
    def write(name, *given, **named):
        file = folder / "specs" / f"{name}.yaml"
        file.write_text(tiny(name, *given, **named), "utf-8")
        return file

    return write


@pytest.fixture
def conform(monkeypatch, capsys):
    """The command: its exit code, what it printed, and the lines of its errors."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["attndyn", "conform", *map(str, arguments)])
        with registry.isolated(), pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return ended.value.code, out, err.splitlines()

    return call


def results(folder):
    return json.loads((folder / "outputs/conformance/conformance.json").read_text("utf-8"))


def junit(folder):
    return ElementTree.parse(folder / "outputs/conformance/junit.xml").getroot()


@pytest.mark.parametrize(
    ("number", "recorded", "code"),
    [
        (1.05, "holds", 0),
        (0.98, "in part", 0),
        (0.9, "does not hold", 0),
        (0.98, "holds", 1),
        (1.05, "does not hold", 1),
        (30.0, "holds", 0),
    ],
)
def test_exit_codes(write, conform, number, recorded, code):
    write("tiny", number=number, verdict=recorded)
    found, out, err = conform()
    assert (found, err) == (code, [])
    last = out.splitlines()[-1]
    assert last.startswith("1 specs with 1 claims: 1 ")
    assert last.endswith("outputs/conformance")
    assert (
        f"specs/tiny.yaml: small-loss: {'holds' if number > 1 else 'in part'}; on record is" in out
    ) == code


def test_a_claim_that_cannot_fail_is_no_verdict(write, folder, conform):
    file = write("tiny", number=0.0)
    file.write_text(file.read_text().replace("at_most", "at_least"))
    code, out, err = conform()
    assert (code, err) == (2, [])
    assert "small-loss: no verdict: cannot" in out
    assert [each.get("errors") for each in junit(folder)] == ["1"]


def test_wrong_specs_do_not_keep_the_others_from_being_judged(write, folder, conform):
    write("a")
    write("b", more="quick: maybe\n")
    (folder / "specs" / "c.yaml").write_text("- no\n- spec\n")
    (folder / "specs" / "d.yaml").write_bytes(b"\xff\xfe")
    (folder / "specs" / "e.yaml").mkdir()  # no file
    write("f", claim="another", more="probes_: 1\n")
    write("g", number=0.98)
    code, out, err = conform("--ledger", "claims.md")
    assert code == 2
    assert [line.split(": ")[0].partition(":")[0] for line in err] == [
        *(f"specs/{name}.yaml" for name in "bcdf"),
        "claims.md",
    ]
    assert err[0].startswith("specs/b.yaml:14:8: quick: found")
    assert "2 specs with 2 claims: 1 hold, 1 hold in part; 4 specs could not be judged" in out
    found = results(folder)
    assert [each["name"] for each in found["specs"]] == ["a", "g"]
    assert [each["spec"] for each in found["refused"]] == [f"specs/{name}.yaml" for name in "bcdf"]
    assert found["refused"][0]["problems"] == [err[0]]
    counts = [(each.get("name"), each.get("failures"), each.get("errors")) for each in junit(folder)]
    assert counts == [("a", "0", "0"), ("g", "1", "0"), *((name, "0", "1") for name in "bcdf")]
    assert not (folder / "claims.md").exists()


def test_what_raises_in_one_spec_does_not_lose_the_others(write, folder, conform, monkeypatch):
    """Whatever a plugin raises: one line, and the others' findings are written."""
    for name in "abc":
        write(name)
    real = suite.rehearse

    def raising(spec):
        if spec.name == "b":
            raise ZeroDivisionError("by\nzero")
        return real(spec)

    monkeypatch.setattr(suite, "rehearse", raising)
    code, _, err = conform()
    assert code == 2
    assert len(err) == 1
    assert err[0].startswith("specs/b.yaml: ZeroDivisionError is raised: by zero (")
    assert [each["name"] for each in results(folder)["specs"]] == ["a", "c"]


def test_quick(write, folder, conform):
    write("fast", more="quick: true\n")
    write("long")
    code, out, err = conform("--quick")
    assert (code, err) == (0, [])
    assert "1 specs with 1 claims: 1 hold; 1 without claims or not quick: " in out
    assert [each["name"] for each in results(folder)["specs"]] == ["fast"]
    assert "`attndyn conform specs --quick`" in (folder / "outputs/conformance/claims.md").read_text("utf-8")
    code, out, err = conform("specs/long.yaml", "--quick")
    assert (code, out, err) == (0, "nothing to judge: 1 specs without claims or not quick\n", [])


def test_a_spec_without_claims(folder, conform):
    text = tiny("bare")
    (folder / "bare.yaml").write_text(text[: text.index("expect:")])
    code, out, err = conform("bare.yaml")
    said = ["bare.yaml: claims nothing: it has no expect"]
    said += ["nothing to judge: 1 specs without claims or not quick"]
    assert (code, out.splitlines(), err) == (0, said, [])
    found = results(folder)
    assert (found["specs"], found["core"], found["refused"]) == ([], [], [])
    assert found["left_out"] == [{"spec": "bare.yaml", "reason": "claims nothing: it has no expect"}]
    (case,) = junit(folder).iter("testcase")
    assert (case.get("classname"), case.get("name"), case[0].tag) == ("bare", "claims", "skipped")
    assert not (folder / "outputs/conformance/claims.md").exists()


@pytest.mark.parametrize("chosen", ["core", "all"])
def test_suites(write, folder, conform, chosen):
    write("tiny")
    code, out, err = conform("--suite", chosen)
    assert (code, err) == (0, [])
    assert "spec tiny, from pure_attention, shortened" in out
    assert ("3 of 3" in out) == (chosen == "all")
    assert "1 of 1 specs pass all checks of core" in out
    assert (folder / "outputs/tiny").exists() == (chosen == "all")
    assert (folder / "outputs/conformance/claims.md").exists() == (chosen == "all")
    (core,) = results(folder)["core"]
    assert (core["name"], core["passed"]) == ("tiny", True)
    assert {each["verdict"] for each in core["checks"]} == {"holds"}
    suites = {each.get("name"): each for each in junit(folder)}
    assert set(suites) == {"tiny.core"} | ({"tiny"} if chosen == "all" else set())
    names = [case.get("name") for case in suites["tiny.core"]]
    assert names == [each["check"] for each in core["checks"]] == list(CHECKS)


def test_a_check_of_core_that_fails_is_on_record(write, folder, conform, monkeypatch):
    """A failure in JUnit, a verdict in JSON; what comes after one that raises is not reached."""

    def lopsided(trial):
        yield Failure(Fault.WRONG_SIGN, "gradient of W_0", "is minus the quotient,\x07 a bell")
        yield Failure(Fault.WRONG_FACTOR, "gradient of W_1", "is twice the quotient")

    def raising(trial):
        raise ZeroDivisionError("by zero")

    for name, check in (("gradients", lopsided), ("same spec, same bits", raising)):
        monkeypatch.setitem(CHECKS, name, check)
    write("tiny")
    code, out, err = conform("--suite", "core")
    assert (code, err) == (1, [])
    assert out.splitlines()[-1] == "0 of 1 specs pass all checks of core: outputs/conformance"
    (core,) = results(folder)["core"]
    assert not core["passed"]
    found = {each["check"]: each for each in core["checks"]}
    assert found["runs to its end"] == {"check": "runs to its end", "verdict": "holds", "faults": []}
    assert found["gradients"]["verdict"] == "fails"
    assert [each["fault"] for each in found["gradients"]["faults"]] == ["wrong sign", "wrong factor"]
    assert found["gradients"]["faults"][0]["subject"] == "gradient of W_0"
    assert found["replicas are independent"]["verdict"] == "not reached"
    (suite,) = junit(folder)
    counts = [suite.get(name) for name in ("tests", "failures", "errors", "skipped")]
    assert counts == [str(len(CHECKS)), "2", "0", str(len(CHECKS) - 3)]
    cases = {case.get("name"): case for case in suite}
    failure = cases["gradients"].find("failure")
    assert failure.get("message").startswith(r"wrong sign: gradient of W_0 is minus the quotient,\x07 a bell")
    assert len(failure.text.splitlines()) == 2
    assert cases["resumed as uninterrupted"].find("skipped") is not None


def test_changes_and_places(write, folder, conform):
    """--set counts for every spec; the ledger names the command that makes it."""
    write("tiny", verdict="does not hold")
    code, _, err = conform(
        "--set", "training.steps=2", "--set", "name=twice 2", "--out", "a/b", "--ledger", "c/d/claims.md"
    )
    assert code == 2  # a name has no blanks
    code, _, err = conform("--set", "training.steps=2", "--out", "a/b", "--ledger", "c/d/claims.md")
    assert (code, err) == (0, [])
    assert (folder / "a/b/conformance/junit.xml").is_file()
    ledger = (folder / "c/d/claims.md").read_text("utf-8")
    assert "`attndyn conform specs --set training.steps=2 --ledger c/d/claims.md`" in ledger
    assert "[tiny](../../specs/tiny.yaml)" in ledger


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--suite", "best"], "--suite: found 'best'; allowed: core, science, all"),
        (["--ledger", "x.md", "--quick"], "--ledger lists all claims; "),
        (["--ledger", "x.md", "--suite", "core"], "--ledger lists all claims; "),
        (["--ledger", "specs"], "specs: is a folder"),
        (["--ledger", "file/x.md"], "file: cannot be written (File exists)"),
        (["--out", "file"], "file/conformance: cannot be written (Not a directory)"),
        (["nowhere.yaml"], "nowhere.yaml: no such file"),
        (["empty"], "empty: there is no spec (*.yaml) in this folder"),
        (["nowhere"], ""),  # a plugin that there is not
        ([""], ""),
    ],
)
def test_usage(write, folder, conform, arguments, said):
    """What is wrong is said in one line before anything is run."""
    write("tiny")
    (folder / "file").write_text("")
    (folder / "empty").mkdir()
    code, _, err = conform(*arguments)
    assert code == 2
    assert len(err) == 1
    assert err[0].startswith(said)
    assert not list(folder.glob("outputs/tiny/*"))


def test_without_a_folder_of_specs(tmp_path, monkeypatch, conform):
    monkeypatch.chdir(tmp_path)
    code, _, err = conform()
    assert (code, err) == (2, ["give a SPEC, DIR or PLUGIN: there is no folder specs here"])


def test_a_ledger_plan_that_is_wrong_is_found_before_any_run(write, folder, conform):
    write("tiny")
    (folder / "specs" / "ledger.yaml").write_text("chapters:\n  - {title: One, spec: [a]}\n")
    code, out, err = conform()
    assert (code, out) == (2, "")
    assert err[0].startswith("specs/ledger.yaml:2:")
    assert not (folder / "outputs").exists()


PLUGIN = '''
from typing import Literal

from attndyn import registry
from attndyn.optim.optimizer import Stepped
from attndyn.spec.base import SteppedOptions


class Options(SteppedOptions):
    """Options of `descent`."""

    kind: Literal["descent"] = "descent"


@registry.optimizer("descent")
class Descent(Stepped):
    """Gradient descent."""

    Options = Options

    def advance(self, parameters, gradients, step, gradient):
        """One step."""
        parameters -= self.rate(step) * gradients
'''


def test_a_folder_with_plugins_and_specs_is_both(write, folder, conform):
    (folder / "specs" / "descent.py").write_text(PLUGIN, "utf-8")
    file = write("tiny", number=1.2, more="plugins: [descent.py]\n")
    file.write_text(file.read_text().replace("kind: adam", "kind: descent"))
    code, out, err = conform("specs", "--limit", "2")
    assert (code, err) == (0, []), out
    assert "optimizer descent, from" in out
    assert "1 specs with 1 claims: 1 hold" in out


def test_a_spec_does_not_see_the_plugins_of_another(write, folder, conform):
    """Two specs whose plugins have one name; and one that forgets to name its plugin."""
    for name in "ab":
        (folder / f"plugins-{name}").mkdir()
        (folder / f"plugins-{name}" / "descent.py").write_text(PLUGIN, "utf-8")
        file = write(name, number=1.2, more=f"plugins: [../plugins-{name}]\n")
        file.write_text(file.read_text().replace("kind: adam", "kind: descent"))
    file = write("c")
    file.write_text(file.read_text().replace("kind: adam", "kind: descent"))
    code, _, err = conform()
    assert code == 2
    assert len(err) == 1
    assert err[0].startswith("specs/c.yaml:10:19: optimizer.kind: found 'descent'")
    assert [each["name"] for each in results(folder)["specs"]] == ["a", "b"]
