"""Plugins from files and folders: what is loaded, under which name, and what is said of those that fail."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from attndyn import registry
from attndyn.errors import PluginError

PROBE = """
from attndyn import registry
from attndyn.simulation.probe import Probe

@registry.probe("{name}")
class Some(Probe):
    word = "{name}"
    def declare(self): ...
    def measure(self, state): ...
"""


@pytest.fixture(autouse=True)
def _isolated():
    before = set(sys.modules)
    with registry.isolated():
        yield
    assert [name for name in set(sys.modules) - before if name.startswith("attndyn_file_")] == []


@pytest.fixture
def write(tmp_path):
    def to(name, text=None, probe=None):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(PROBE.format(name=probe or path.stem) if text is None else text, "utf-8")
        return path

    return to


def test_a_file_is_loaded_once(write):
    path = write("ping.py")
    assert registry.load_file(path) == [("probe", "ping")]
    first = registry.get("probe", "ping")
    path.write_text("raise RuntimeError('again')")
    assert registry.load_file(str(path)) == [("probe", "ping")]
    assert registry.get("probe", "ping") is first
    assert registry.origin("probe", "ping") == str(path)


def test_the_same_file_by_another_path_is_the_same_file(write, tmp_path, monkeypatch):
    path = write("ping.py")
    (tmp_path / "link.py").symlink_to(path)
    registry.load_file(path)
    monkeypatch.chdir(tmp_path)
    for other in ("ping.py", "./ping.py", "link.py"):
        assert registry.load_file(other) == [("probe", "ping")]


def test_two_files_of_one_name_do_not_clash(write):
    one, two = write("one/same.py", probe="ping"), write("two/same.py", probe="pong")
    registry.load_file(one)
    registry.load_file(two)
    assert [registry.get("probe", name).word for name in ("ping", "pong")] == ["ping", "pong"]


def test_a_file_hides_no_module(write):
    registry.load_file(write("json.py"))
    assert "json" in registry.names("probe")
    assert Path(__import__("json").__file__).parent.name == "json"


def test_a_folder_is_a_package_of_its_files(write, tmp_path):
    write(
        "plugins/pong.py", PROBE.format(name="pong") + "\nfrom .shared.words import WORD\nSome.word = WORD\n"
    )
    write("plugins/ping.py")
    write("plugins/shared/words.py", "WORD = 'shared'\n")
    for name in ("test_ping.py", "conftest.py", "_private.py", "setup.txt"):
        write(f"plugins/{name}", "raise RuntimeError('not to be loaded')")
    folder = tmp_path / "plugins"
    assert registry.load_file(folder) == [("probe", "ping"), ("probe", "pong")]
    assert registry.get("probe", "pong").word == "shared"
    assert set(registry.digests([folder])) == {
        str(folder / name) for name in ("ping.py", "pong.py", "shared/words.py")
    }


def test_the_init_file_of_a_folder_comes_first(write, tmp_path):
    write("plugins/__init__.py", "ORDER = ['init']\n")
    write("plugins/ping.py", PROBE.format(name="ping") + "\nfrom . import ORDER\nSome.word = ORDER[0]\n")
    registry.load_file(tmp_path / "plugins")
    assert registry.get("probe", "ping").word == "init"


def test_a_file_and_the_folder_around_it(write, tmp_path):
    path = write("ping.py")
    registry.load_file(path)
    assert registry.load_file(tmp_path) == [("probe", "ping")]


def test_digests_are_of_what_ran(write):
    path = write("ping.py")
    text = path.read_bytes()
    registry.load_file(path)
    path.write_text("changed")
    assert registry.digests([path]) == {str(path): hashlib.sha256(text).hexdigest()}
    assert registry.digests([]) == {}


def test_nothing_is_written_beside_a_plugin_and_no_bytecode_is_read(write, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    write("plugins/ping.py")
    write("plugins/sub/helper.py", "")
    write("plugins/pong.py", "from .sub import helper\n" + PROBE.format(name="pong"))
    registry.load_file(tmp_path / "plugins")
    found = {path.name for path in tmp_path.rglob("*")}
    assert found == {"plugins", "ping.py", "pong.py", "sub", "helper.py"}


def test_nothing_is_loaded_that_was_not_named(write, tmp_path):
    write("ping.py", "raise SystemExit('loaded')")
    write("plugins/ping.py", "raise SystemExit('loaded')")
    environment = os.environ | {"ATTNDYN_PLUGINS": str(tmp_path), "PYTHONPATH": ""}
    done = subprocess.run(
        [sys.executable, "-c", "from attndyn.cli import main; main()", "plugins", "probe"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert [line.split()[1] for line in done.stdout.splitlines()[1:]] == registry.names("probe")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def f(:\n", "{path}:1: SyntaxError: invalid syntax"),
        ("\n\nfoo\n", "{path}:3: NameError: name 'foo' is not defined"),
        ("x = 1\nimport no_such_thing\n", "{path}:2: ModuleNotFoundError: No module named 'no_such_thing'"),
        ("from .other import f\n", "{path}:1: ImportError: attempted relative import"),
        ("import json\n\n\njson.loads('{')\n", "{path}:4: JSONDecodeError: Expecting"),
        ("import ast\nast.parse('(')\n", "{path}:2: SyntaxError: '(' was never closed"),
        ("raise ValueError('two\\nlines')\n", "{path}:1: ValueError: two lines"),
        ("import sys\nsys.exit(3)\n", "{path}:2: SystemExit: 3"),
        ("def f():\n    f()\nf()\n", "{path}:2: RecursionError"),
        ("x = 1\n", "{path}: registers no plugin; a class needs a decorator"),
        ("", "{path}: registers no plugin"),
        ("\0", "{path}:"),
        (PROBE.format(name="loss"), "{path}:5: probe 'loss' is taken: attndyn "),
        (PROBE.format(name="x y"), "{path}:5: 'x y' is no name"),
        (PROBE.format(name="x").replace("def measure", "def measures"), "{path}:5: Some lacks measure; see"),
        (
            PROBE.format(name="x") * 2 + PROBE.format(name="x").replace("Some", "More"),
            "{path}:23: probe 'x' is",
        ),
        (PROBE.format(name="x") + "1 / 0\n", "{path}:10: ZeroDivisionError: division by zero"),
    ],
)
def test_what_fails_is_one_line_with_its_place(write, text, message):
    path = write("broken.py", text)
    names = registry.names("probe")
    for _ in range(2):  # a failure leaves nothing behind that a second try could stumble on
        with pytest.raises(PluginError) as caught:
            registry.load_file(path)
        assert str(caught.value).startswith(message.format(path=path))
        assert "\n" not in str(caught.value)
        assert registry.names("probe") == names
    path.write_text(PROBE.format(name="mended"))
    assert registry.load_file(path) == [("probe", "mended")]


def test_two_files_that_announce_one_name_are_both_named(write):
    one, two = write("one.py", probe="ping"), write("two.py", probe="ping")
    registry.load_file(one)
    with pytest.raises(PluginError) as caught:
        registry.load_file(two)
    assert str(caught.value) == f"{two}:5: probe 'ping' is registered twice: by {one}:Some and {two}:Some"
    assert registry.get("probe", "ping").__module__ in sys.modules


def test_a_folder_with_a_broken_file_is_not_loaded_at_all(write, tmp_path):
    write("plugins/ping.py")
    broken = write("plugins/pong.py", "1 / 0")
    with pytest.raises(PluginError, match=f"^{broken}:1: ZeroDivisionError"):
        registry.load_file(tmp_path / "plugins")
    assert "ping" not in registry.names("probe")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("none.py", "/none.py: no such file or folder"),
        ("notes.txt", "/notes.txt: not a plugin's file, which ends in .py"),
        ("empty", "/empty: registers no plugin"),
        ("odd", "odd: my-plugin.py has no name that Python can import"),
        ("a\0b.py", "cannot be read"),
        ("x" * 5000, "cannot be read"),
    ],
)
def test_paths_that_lead_to_no_plugin(write, tmp_path, name, message):
    write("notes.txt", "")
    write("odd/my-plugin.py", "")
    (tmp_path / "empty").mkdir()
    with pytest.raises(PluginError, match=message) as caught:
        registry.load_file(f"{tmp_path}/{name}")
    assert "\n" not in str(caught.value)


def test_ctrl_c_is_not_a_broken_plugin(write):
    path = write("slow.py", PROBE.format(name="slow") + "raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        registry.load_file(path)
    assert "slow" not in registry.names("probe")
