"""Skeletons of plugins: they pass their own tests, which can fail, and the linter."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from attndyn import registry, scaffold
from attndyn.errors import PluginError

LINT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))["tool"]["ruff"][
    "lint"
]


@pytest.fixture(autouse=True)
def _isolated():
    with registry.isolated():
        yield


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A folder with both skeletons, made from nothing."""
    folder = tmp_path_factory.mktemp("skeletons") / "my" / "plugins"
    for kind, name in (("architecture", "my_model"), ("analyzer", "my_measure")):
        plugin, test = scaffold.write(kind, name, folder)
        assert [plugin.name, test.name] == [f"{name}.py", f"test_{name}.py"]
    return folder


def call(*arguments, cwd):
    # coverage, xdist and the like are for this run, not for that of a user
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV"))
    }
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=cwd,
        env=environment | {"MPLBACKEND": "agg"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_they_pass_their_own_tests(written):
    done = call("pytest", "-q", "-W", "error", "-p", "no:cacheprovider", ".", cwd=written)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 passed" in done.stdout


def test_they_pass_the_linter(written):
    select, ignore = (
        ",".join(LINT["select"]),
        ",".join([*LINT["ignore"], "E501"]),
    )  # lines may be ours or theirs
    rules = ("--select", select, "--ignore", ignore, "--per-file-ignores", "test_*:D1")
    done = call("ruff", "check", "--isolated", *rules, ".", cwd=written)
    assert done.returncode == 0, done.stdout
    assert call("ruff", "check", "--isolated", ".", cwd=written).returncode == 0
    formatted = call("ruff", "format", "--isolated", "--check", ".", cwd=written)
    assert formatted.returncode == 0, formatted.stdout


def test_they_are_loaded_together_and_described(written):
    assert registry.load_file(written) == [("analyzer", "my_measure"), ("architecture", "my_model")]
    assert registry.get("architecture", "my_model").__qualname__ == "MyModelArchitecture"
    assert all("CHANGE" in (written / f"{name}.py").read_text() for name in ("my_model", "my_measure"))


FAULTS = [
    ("architecture", "d_w_0 + d_w_0_q + d_w_0_k", "d_w_0 + d_w_0_q"),
    ("architecture", '"W_K": d_w_k[:', '"W_K": -d_w_k[:'),
    ("architecture", "@ keys, w_0, w_q", "@ queries, w_0, w_q"),
    ("architecture", "a.transpose(0, 3, 2, 1)", "a.transpose(0, 3, 1, 2)"),
    ("analyzer", "- rate", "+ rate"),
    ("analyzer", '"step", "replica"', '"replica", "step"'),
]


def test_their_tests_can_fail(tmp_path):
    for number, (kind, right, wrong) in enumerate(FAULTS):
        plugin, _ = scaffold.write(kind, f"faulty_{number}", tmp_path)
        text = plugin.read_text()
        assert text.count(right) == 1
        plugin.write_text(text.replace(right, wrong))
    done = call("pytest", "-q", "-p", "no:cacheprovider", ".", cwd=tmp_path)
    failed = set(re.findall(r"^FAILED test_faulty_(\d)", done.stdout, re.MULTILINE))
    assert failed == {str(number) for number in range(len(FAULTS))}, done.stdout


@pytest.mark.parametrize("there", ["mine.py", "test_mine.py"])
def test_nothing_is_overwritten(tmp_path, there):
    (tmp_path / there).write_text("precious")
    with pytest.raises(PluginError, match=f"{there}: exists already, and nothing is overwritten"):
        scaffold.write("analyzer", "mine", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [there]
    assert (tmp_path / there).read_text() == "precious"


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        ("probe", "mine", "no skeleton of the kind 'probe'; allowed: architecture, analyzer"),
        ("architectur", "mine", "did you mean 'architecture'"),
        ("analyzer", "norms", "'norms': is an analyzer already, from attndyn "),
        ("analyzer", "json", "'json': is a Python module already"),
        ("analyzer", "numpy", "'numpy': is a Python module already"),
        ("analyzer", "test_mine", "'test_mine': is a test's name"),
        ("analyzer", "conftest", "'conftest': is a test's name"),
        ("analyzer", "lambda", "'lambda': a name is a lower-case letter"),
        *(
            ("analyzer", name, "a name is a lower-case letter")
            for name in ("", "Mine", "my-plugin", "9", "_x", "../x", "a/b", "a\n", "é", "x" * 41, '"; x')
        ),
    ],
)
def test_names_that_cannot_be_used(tmp_path, kind, name, message):
    with pytest.raises(PluginError, match=message) as caught:
        scaffold.write(kind, name, tmp_path)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(PluginError, match="cannot be written"):
        scaffold.write("analyzer", "mine", tmp_path / "file" / "inside")
