"""Without a usable GPU: one line that says why, exit code 2, and nothing written."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from attndyn.backend import get_backend
from attndyn.backend.cupy_backend import CupyBackend, unusable
from attndyn.errors import BackendError

ROOT = Path(__file__).parents[2]


def attndyn(*arguments, **environment):
    """The finished command, with every GPU hidden from it."""
    return subprocess.run(
        [sys.executable, "-c", "from attndyn.cli import main; main()", *map(str, arguments)],
        env=os.environ | {"CUDA_VISIBLE_DEVICES": ""} | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_command_says_so_in_one_line(tmp_path):
    spec = ROOT / "specs/paper/figure2.yaml"
    done = attndyn("run", spec, "--out", tmp_path / "out", "--backend", "cupy")
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert done.stderr.startswith("backend 'cupy' cannot be used: ")
    assert "allowed here: numpy" in done.stderr
    assert not (tmp_path / "out").exists()


def test_auto_is_numpy_then(tmp_path, small):
    spec = tmp_path / "small.yaml"
    spec.write_text(small().to_yaml(), "utf-8")
    done = attndyn("run", spec, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert (Path(done.stdout.splitlines()[-1]) / "trajectory.nc").is_file()


def test_cupy_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert "not installed" in unusable()
    assert get_backend("auto").name == "numpy"
    with pytest.raises(BackendError, match=r"attndyn\[cuda12\]"):
        CupyBackend()


def test_a_device_that_refuses_work(monkeypatch):
    """Listed, and of no use: the reason is passed on, on one line and not at any length."""

    class Broken:
        class cuda:
            class runtime:
                @staticmethod
                def getDeviceCount():
                    return 1

        def __getattr__(self, name):
            raise RuntimeError("driver is\n  too old " + "x" * 500)

    monkeypatch.setitem(sys.modules, "cupy", Broken())
    assert unusable().startswith("no usable CUDA device (driver is too old x")
    assert len(unusable()) < 200


def test_unknown_backend():
    with pytest.raises(BackendError, match="unknown backend 'torch'; allowed: auto, numpy, cupy"):
        get_backend("torch")
