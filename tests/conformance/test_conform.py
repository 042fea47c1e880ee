"""`attndyn conform` and the pytest fixture: what they find, print and return."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from attndyn import registry
from attndyn.cli import main
from attndyn.conformance.faults import Failure, Fault, Report, Result
from attndyn.conformance.plugins import SUITES, check_plugin, find
from attndyn.conformance.rehearsal import rehearse
from attndyn.errors import PluginError
from attndyn.spec import parse_spec

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


@pytest.fixture
def plugin(tmp_path):
    path = tmp_path / "descent.py"
    path.write_text(PLUGIN, "utf-8")
    with registry.isolated():
        yield path


@pytest.fixture
def conform(monkeypatch, capsys):
    """The command: its exit code and what it printed."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["attndyn", "conform", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code, *capsys.readouterr()

    return call


def test_a_file_that_conforms(plugin, conform):
    code, out, err = conform(plugin, "--limit", "3")
    assert (code, err) == (0, "")
    assert f"optimizer descent, from {plugin}" in out
    assert out.count("holds") == len(SUITES["optimizer"].checks)


def test_a_file_that_does_not(plugin, conform):
    plugin.write_text(PLUGIN.replace("-=", "+="), "utf-8")
    code, out, _ = conform(plugin, "optimizer:gd", "--set", "schedule.kind=constant")
    assert code == 1
    assert out.count("fails") == 1
    assert "wrong sign: advance moves along the gradient, not against it" in out
    assert "optimizer gd, from attndyn" in out  # the others are checked all the same


def test_without_arguments_there_must_be_specs(conform, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    code, _, err = conform()
    assert code == 2
    assert "there is no folder specs here" in err


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("adm",), "did you mean 'adam'?"),
        (("optimizer:adm",), "did you mean 'adam'?"),
        (("architecture:adam",), "unknown architecture 'adam'"),
        (("nowhere.py",), "nowhere.py: no such file"),
        (("",), "is no plugin"),
        (("adam", "--set", "beta1"), "path=value"),
        (("adam", "--set", "beta1=2"), "beta1: Input should be less than 1"),
        (("adam", "--set", "beta3=1"), "no option 'beta3'"),
        (("adam", "--limit", "0"), "--limit"),
        (("--suite", "cor"), "allowed: core, science, all"),
        (("specs", "--quick", "--ledger", "claims.md"), "needs the whole suite"),
        (("nowhere.yaml",), "nowhere.yaml: no such file"),
    ],
)
def test_a_users_mistake_is_a_message_and_exit_code_2(conform, arguments, named):
    code, _, err = conform(*arguments)
    assert code == 2
    assert named in err
    assert "Traceback" not in err


def test_names_are_found():
    assert find("adam") == [("optimizer", "adam")]
    assert find("probe:loss") == [("probe", "loss")]
    assert find("markov") == [("data", "markov")]


def test_every_kind_that_there_is_has_checks():
    assert set(SUITES) == set(registry.KINDS)
    with pytest.raises(PluginError, match="unknown"):
        check_plugin("optimizer", "nothing")


def test_the_document_lists_every_check():
    text = (Path(__file__).parents[2] / "docs" / "plugins.md").read_text("utf-8")
    listed = dict(re.findall(r"^\| (\w+) \| (.*; .*) \|$", text, re.MULTILINE))
    assert {kind: cell.split("; ") for kind, cell in listed.items()} == {
        kind: list(suite.checks) for kind, suite in SUITES.items()
    }


def test_a_report_in_words():
    failure = Failure(Fault.WRONG_SIGN, "gradient of W_0", "is minus the quotient", "layers=2", 3)
    report = Report("architecture", "mine", "mine.py", (Result("gradients", 4, (failure,)),))
    assert not report.passed
    assert str(report).splitlines() == [
        "architecture 'mine' (mine.py) does not conform:",
        "  gradients: wrong sign: gradient of W_0 is minus the quotient [layers=2, and 2 more]",
    ]


def test_the_fixture_for_plugin_authors(plugin):
    """The three lines of a plugin's test, in a session of their own: it passes, and then it fails."""
    test = Path(plugin).with_name("test_descent.py")
    test.write_text(
        'pytest_plugins = ["attndyn.conformance.testing"]\n\n'
        'def test_conforms(conform):\n    conform("descent.py", limit=3)\n',
        "utf-8",
    )

    def session():
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test]
        return subprocess.run(command, cwd=test.parent, capture_output=True, text=True, check=False)

    done = session()
    assert done.returncode == 0, done.stdout
    plugin.write_text(PLUGIN.replace("-=", "+="), "utf-8")
    done = session()
    assert done.returncode == 1
    assert "wrong sign: advance" in done.stdout
    assert "Traceback" not in done.stdout


def test_validate_finds_misspelt_names(monkeypatch, capsys, tmp_path):
    file = tmp_path / "a.yaml"
    file.write_text(CLAIM.replace("variable: loss", "variable: losss"), "utf-8")
    monkeypatch.setattr(sys, "argv", ["attndyn", "validate", str(file)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "expect[0].of.variable: no such variable; did you mean 'loss'?" in capsys.readouterr().err


def test_an_analyzer_that_needs_more_than_two_steps_is_not_blamed_before_the_run(tmp_path):
    plugin = tmp_path / "late.py"
    plugin.write_text(LATE, "utf-8")
    with registry.isolated():
        text = CLAIM.replace("probe: loss, variable: loss, at: last", "analyzer: late, variable: loss")
        spec = parse_spec(text, plugins=[plugin], check=rehearse, overrides=["analyzers=[late]"])
    assert spec.expect[0].id == "low"


CLAIM = """
name: claim
data: {kind: markov, stationary: {kind: geometric, d_vocab: 3, ratio: 0.4}, n_ctx: 8, batch: 5,
  transition: {kind: sticky, lam: 0.5}}
model: {architecture: pure_attention, d_model: 4}
optimizer: {kind: adam, lr: 1e-2}
training: {steps: 4}
expect:
  - {kind: value, id: low, claim: it is low, source: ours, relation: at_most, number: 1,
     of: {probe: loss, variable: loss, at: last}}
"""
LATE = """
from typing import Literal

from attndyn.registry import analyzer
from attndyn.analysis.analyzer import Analyzer
from attndyn.spec.base import AnalyzerOptions


class LateOptions(AnalyzerOptions):
    kind: Literal["late"] = "late"


@analyzer("late")
class Late(Analyzer):
    Options = LateOptions
    requires = ("loss",)
    title = "late"

    def analyze(self, trajectory):
        raise ValueError("too short")

    def draw(self, result, trajectory, figure): ...
"""
