"""A suite that was killed or interrupted, and started again, ends with the same ledger."""

import json
import os
import re
import signal
import subprocess
import sys

import pytest

from attndyn.cli import main
from attndyn.conformance import rehearsal, suite
from conformance.suite_specs import MORTAL, tiny

MORE = "plugins: [../mortal.py]\n"
# everything is written at once, so that a process that is killed leaves more than its first step
COMMAND = """
from attndyn.trajectory import TrajectoryWriter
TrajectoryWriter.__init__.__defaults__ = (False, 0.0)
from attndyn.cli import main
main()
"""


ARGUMENTS = ("conform", "specs", "--out", "out", "--ledger", "claims.md")


@pytest.fixture
def conform(folder, monkeypatch, capsys):
    """The command in the folder: its exit code and what it printed; apart if its process will die."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["attndyn", *ARGUMENTS])

    def call(apart=False):
        if apart:
            return (
                subprocess.run(
                    [sys.executable, "-c", COMMAND, *ARGUMENTS], check=False, timeout=100
                ).returncode,
                "",
                "",
            )
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code, *capsys.readouterr()

    return call


def ledger(folder):
    return re.sub(r"\d{4}-\d\d-\d\d", "DATE", (folder / "claims.md").read_text("utf-8"))


@pytest.fixture
def folder(tmp_path):
    """Three specs; a signal's number in the file `die` ends the process in the run of the second."""
    specs = tmp_path / "specs"
    specs.mkdir()
    (specs / "a.yaml").write_text(tiny(name="a"), "utf-8")
    mortal = tiny(name="b", number=0.98, verdict="does not hold", more=MORE).replace(
        "kind: adam", "kind: mortal"
    )
    (specs / "b.yaml").write_text(mortal.replace("batch: 5", "batch: 6"), "utf-8")
    part = tiny(name="c", verdict="in part")
    (specs / "c.yaml").write_text(part.replace("batch: 5", "batch: 7"), "utf-8")
    (specs / "ledger.yaml").write_text("chapters: [{title: One, specs: ['*.yaml']}]\n", "utf-8")
    (tmp_path / "mortal.py").write_text(MORTAL, "utf-8")
    return tmp_path


def states(folder):
    return {
        file.parent.parent.name: (json.loads(file.read_text())["state"], file.parent)
        for file in folder.glob("out/*/*/status.json")
    }


def start_again(folder, conform, before, step):
    """Judge all of it: what was made before the stop is used; and once more in a folder without any run."""
    code, out, err = conform()
    assert (code, err) == (0, ""), out
    assert f"b: 20 steps from step {step}, " in out
    found = ledger(folder)
    after = states(folder)
    assert {name: state for name, (state, _) in after.items()} == dict.fromkeys("abc", "complete")
    assert after["a"] == before["a"]
    assert after["b"][1] == before["b"][1]
    (folder / "out").rename(folder / "put-aside")
    assert conform()[0] == 0
    assert ledger(folder) == found
    assert found.count("| **") == 3


def stop(folder, conform, number, apart):
    (folder / "die").write_text(str(int(number)))
    result = conform(apart)
    assert not (folder / "die").exists()
    assert not (folder / "claims.md").exists()
    return result, states(folder)


def test_killed(folder, conform):
    (code, _, _), before = stop(folder, conform, signal.SIGKILL, apart=True)
    assert code == -signal.SIGKILL
    assert {name: state for name, (state, _) in before.items()} == {"a": "complete", "b": "running"}
    start_again(folder, conform, before, 10)


def test_interrupted(folder, conform):
    (code, _, err), before = stop(folder, conform, signal.SIGINT, apart=False)
    assert code == 130
    assert {name: state for name, (state, _) in before.items()} == {"a": "complete", "b": "interrupted"}
    first, second = err.splitlines()
    assert first.startswith("interrupted; what was computed is kept in out/b/")
    assert second == "claims.md: not written, since not all claims have a verdict"
    kept = json.loads((folder / "out/conformance/conformance.json").read_text())
    assert [spec["name"] for spec in kept["specs"]] == ["a"]
    start_again(folder, conform, before, 11)


def test_interrupted_in_a_rehearsal(folder, conform, monkeypatch):
    """Its run takes the signal for itself; what it then lacks is no mistake of the spec."""
    monkeypatch.setattr(rehearsal, "STEPS", 15)
    (code, _, err), before = stop(folder, conform, signal.SIGINT, apart=False)
    assert code == 130
    assert err.splitlines()[0] == "interrupted"
    assert list(before) == ["a"]


def test_interrupted_while_judging(folder, conform, monkeypatch):
    real, calls = suite.finding, []

    def interrupting(*given):
        calls.append(given)
        if len(calls) == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return real(*given)

    monkeypatch.setattr(suite, "finding", interrupting)
    # a process that was begun in the background ignores it
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        code, _, err = conform()
    finally:
        signal.signal(signal.SIGINT, before)
    assert code == 130
    assert err.splitlines()[0] == "interrupted"
    assert states(folder)["b"][0] == "complete"
