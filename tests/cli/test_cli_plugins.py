"""The command line's side of plugins: listing them, loading them, writing new ones."""

import json
import re
import sys

import pytest

from attndyn import registry
from attndyn.cli import main

SPEC = """
name: tiny
data:
  kind: markov
  stationary: {kind: geometric, d_vocab: 3, ratio: 0.4}
  transition: {kind: sticky, lam: 0.5}
  n_ctx: 8
  batch: 5
model: {architecture: mine, d_model: 4}
optimizer: {kind: adam, lr: 1e-2}
training: {steps: 2}
"""
#: the first line of the docstrings of what `new-plugin` writes
ABOUT = {
    "measure": "Loss above the entropy rate of the chain. CHANGE: what yours measures.",
    "mine": "One layer of one-head attention over tokens. CHANGE: what yours is.",
}


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.yaml").write_text(SPEC)
    with registry.isolated():
        yield


@pytest.fixture
def call(monkeypatch, capsys):
    """What a command printed, as if in a process of its own; it must end with the exit code given."""

    def attndyn(*arguments, code=0):
        monkeypatch.setattr(sys, "argv", ["attndyn", *map(str, arguments)])
        with registry.isolated(), pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        assert ended.value.code == code, err
        assert "Traceback" not in err
        return out if code == 0 else err

    return attndyn


@pytest.fixture
def mine(call, tmp_path):
    """A new architecture and a new analyzer, in a folder."""
    printed = call("new-plugin", "architecture", "mine", "--out", "plugins")
    call("new-plugin", "analyzer", "measure", "--out", "plugins")
    assert printed.splitlines() == ["plugins/mine.py", "plugins/test_mine.py"]
    return tmp_path / "plugins"


def test_from_nothing_to_a_run_with_both(call, mine, tmp_path):
    assert "architecture: found 'mine'" in call("validate", "tiny.yaml", code=2).replace("model.", "")
    assert call("validate", "tiny.yaml", "--plugins", "plugins/mine.py") == "tiny.yaml: valid\n"
    *log, directory = call("run", "tiny.yaml", "--plugins", "plugins/mine.py").splitlines()
    (sha256,) = registry.digests([mine / "mine.py"]).values()
    assert log[1:] == [f"plugin {mine}/mine.py, sha256 {sha256}"]
    assert "unknown analyzer 'measure'" in call("analyze", directory, "measure", code=2)
    assert call("analyze", directory, "measure", "--plugins", mine / "measure.py").endswith("analysis.nc\n")
    assert call("report", directory, "--plugins", mine / "measure.py").endswith("report.html\n")


def test_the_listing(call, mine):
    plain = call("plugins")
    assert [line.split()[:2] for line in plain.splitlines()] == [
        ["kind", "name"],
        *([kind, name] for kind in registry.KINDS for name in registry.names(kind)),
    ]
    assert "One layer of one-head attention, and nothing besides what it brings" in plain
    added = set(call("plugins", "--plugins", "plugins").splitlines())
    rows = [re.split(r" {2,}", line.strip()) for line in added if str(mine) in line]
    assert sorted(rows) == [
        ["analyzer", "measure", f"{mine}/measure.py", ABOUT["measure"]],
        ["architecture", "mine", f"{mine}/mine.py", ABOUT["mine"]],
    ]


def test_options_of_one_and_of_all(call, mine):
    shown = call("plugins", "architecture", "transformer")
    assert "pure_attention" not in shown
    row = next(line for line in shown.splitlines() if line.split()[0] == "layers")
    assert " ".join(row.split()) == "layers int, ≥ 1, ≤ 1024 1 number of layers L"
    assert "no options" in call("plugins", "analyzer", "measure", "--plugins", "plugins")
    everything = call("plugins", "--options")
    assert everything.count("value_projection") == shown.count("value_projection") * 3


def test_a_plugin_that_does_not_load_does_not_hide_the_others(call, monkeypatch):
    get = registry.get

    def broken(kind, name):
        if name == "norms":
            raise registry.classes.PluginError("norms.py:3: NameError: no\x1b[31m")
        return get(kind, name)

    monkeypatch.setattr(registry, "get", broken)
    for arguments in ((), ("--options",)):
        shown = call("plugins", "analyzer", *arguments)
        assert "does not load: norms.py:3: NameError: no\\x1b[31m" in shown
        assert "stages" in shown


def test_the_schema_with_a_plugin(call, mine):
    schema = json.loads(call("schema", "--plugins", "plugins"))
    assert "architecture_mine" in schema["$defs"]
    assert "architecture_mine" not in json.loads(call("schema"))["$defs"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("plugins", "analyser"), "unknown kind 'analyser'; did you mean 'analyzer'?"),
        (("plugins", "analyzer", "norm"), "unknown analyzer 'norm'; did you mean 'norms'?"),
        (("plugins", "--plugins", "none.py"), "none.py: no such file or folder"),
        (("schema", "--plugins", "tiny.yaml"), "tiny.yaml: not a plugin's file, which ends in .py"),
        (("run", "tiny.yaml", "--plugins", "none.py"), "--plugins none.py: "),
        (("validate", "tiny.yaml", "--plugins", "none.py"), "--plugins none.py: "),
        (("analyze", "nowhere", "--plugins", "none.py"), "none.py: no such file or folder"),
        (("new-plugin", "analyzer", "norms"), "'norms': is an analyzer already"),
        (("new-plugin", "analyzer"), "NAME"),
    ],
)
def test_mistakes(call, arguments, message):
    assert message in call(*arguments, code=2)
