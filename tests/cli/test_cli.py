"""The command line: exit codes, one-line errors, what is printed where."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from attndyn import registry, runs
from attndyn.cli import main
from attndyn.spec import load_spec
from attndyn.trajectory import open_trajectory

SPEC = """
name: tiny
data:
  kind: markov
  stationary: {kind: geometric, d_vocab: 3, ratio: 0.4}
  transition: {kind: sticky, lam: 0.5}
  n_ctx: 8
  batch: 5
model: {architecture: pure_attention, d_model: 4}
optimizer: {kind: adam, lr: 1e-2}
training: {steps: 4}
probes: {loss: {every: 1}, parameters: {every: 1}, attention: {every: 1}}
analyzers: [norms]
"""


@pytest.fixture
def tiny(tmp_path):
    path = tmp_path / "tiny.yaml"
    path.write_text(SPEC)
    return path


def attndyn(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-c", "from attndyn.cli import main; main()", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        **options,
    )


@pytest.fixture
def in_process(monkeypatch, capsys):
    """The command line without a process of its own: its exit code, and what it printed."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["attndyn", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return subprocess.CompletedProcess(arguments, ended.value.code, out, err)

    return call


def status(directory):
    return json.loads((Path(directory) / "status.json").read_text())


def test_run_prints_the_directory_last_and_runs_the_analyzers(tiny, tmp_path):
    done = attndyn("run", tiny, "--out", tmp_path / "out", "--set", "training.steps=3")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""  # no progress bar where there is no terminal
    log, directory = done.stdout.splitlines()
    assert log == ("tiny: 3 steps, 1 replica of 56 parameters, backend numpy, float64, representation counts")
    assert status(directory)["step"] == 3
    assert os.path.exists(f"{directory}/analysis.nc")


def test_run_without_analyzers(tiny, tmp_path):
    done = attndyn("run", tiny, "--out", tmp_path, "--no-analyze")
    directory = done.stdout.splitlines()[-1]
    assert not os.path.exists(f"{directory}/analysis.nc")
    again = attndyn("analyze", directory)
    assert again.returncode == 0, again.stderr
    assert os.path.exists(again.stdout.strip())


def test_an_analyzer_that_fails_is_exit_code_4_and_all_else_is_kept(tiny, tmp_path, in_process, monkeypatch):
    def broken(self, trajectory):
        return trajectory["no such group"]

    monkeypatch.setattr(registry.get("analyzer", "norms"), "analyze", broken)
    said = "the analyzer 'norms' failed: KeyError: "
    done = in_process("run", tiny, "--out", tmp_path, "--set", "analyzers=[norms, entropy]")
    assert done.returncode == 4
    assert done.stderr.startswith(said)
    assert done.stderr.count("\n") == 1
    directory = done.stdout.splitlines()[-1]
    assert set(runs.open_run(directory).analysis) == {"entropy"}
    done = in_process("analyze", directory)
    assert (done.returncode, done.stdout) == (4, f"{directory}/analysis.nc\n")
    done = in_process("report", directory)
    assert (done.returncode, done.stdout) == (4, f"{directory}/report.html\n")
    assert done.stderr.startswith(said)
    diverging = ("--set", "training.max_loss=1e-3", "--set", "training.steps=1000")
    done = in_process("run", tiny, "--out", tmp_path, *diverging)
    assert done.returncode == 3
    assert done.stderr.startswith(said)


def test_what_an_analyzer_needs_is_looked_for_before_a_run(tiny, tmp_path, in_process):
    for command in (("run", "--out", tmp_path), ("validate",)):
        done = in_process(
            *(
                command[0],
                tiny,
                *command[1:],
                "--set",
                "probes={loss: {every: 1}, token_classes: {every: 1}}",
            ),
            *("--set", "analyzers=[{kind: proxy, run: none}]"),
        )
        assert done.returncode == 2
        found = f"analyzers[0].run: {tmp_path / 'none'}: not a run's directory (it has no spec.yaml)"
        assert found in done.stderr
        assert done.stderr.count("\n") == 1
    assert not list(tmp_path.glob("tiny/*"))


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("run", "missing.yaml"), "missing.yaml"),
        (("run",), "SPEC"),
        (("run", "TINY", "--set", "model.d_model=0"), "--set model.d_model=0"),
        (("run", "TINY", "--set", "model.d_modle=8"), "d_model"),
        (("run", "TINY", "--set", "nonsense"), "nonsense"),
        (("run", "TINY", "--backend", "torch"), "allowed: auto, numpy, cupy"),
        (("run", "--resume", "nowhere"), "nowhere"),
        (("run", "--resume", "nowhere", "--set", "a=b"), "--set"),
        (("validate", "TINY", "missing.yaml"), "missing.yaml"),
        (("analyze", "nowhere"), "nowhere"),
        (("report", "nowhere"), "nowhere"),
        (("launch",), "launch"),
    ],
)
def test_a_users_mistake_is_a_message_and_exit_code_2(tiny, in_process, arguments, named):
    done = in_process(*(tiny if a == "TINY" else a for a in arguments))
    assert done.returncode == 2
    assert named in done.stderr
    assert "Traceback" not in done.stderr


def test_validate_lists_every_problem(tiny, in_process):
    tiny.write_text(SPEC.replace("ratio: 0.4", "ratio: 4").replace("lam: 0.5", "lamb: 0.5"))
    done = in_process("validate", tiny)
    assert done.returncode == 2
    problems = [line for line in done.stderr.splitlines() if line.startswith(f"{tiny}:")]
    assert len(problems) >= 2


def test_diverged(tiny, tmp_path):
    done = attndyn(
        *("run", tiny, "--out", tmp_path, "--set", "optimizer={kind: gd, lr: 1e9}"),
        *("--set", "training={steps: 500, max_loss: 20}", "--set", "model.init={std: 1.0}"),
        *("--set", "replicas={vary: {optimizer.lr: [1e9]}}"),
    )
    assert done.returncode == 3, done.stderr
    assert "replica 0 (seed 0, optimizer.lr 1000000000.0) diverged" in done.stderr
    found = status(done.stdout.splitlines()[-1])
    assert found["state"] == "diverged"
    assert found["diverged"][0]["seed"] == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_and_resumed(tiny, tmp_path, number):
    started = subprocess.Popen(
        [
            *(sys.executable, "-c", "from attndyn.cli import main; main()", "run", str(tiny)),
            *("--out", str(tmp_path / "out"), "--set", "training.steps=1000000000"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    # the status file appears when the run's first step is about to be made
    for _ in range(3000):
        if started.poll() is not None or list((tmp_path / "out").glob("*/*/status.json")):
            break
        time.sleep(0.02)
    started.send_signal(number)
    out, err = started.communicate(timeout=60)
    assert started.returncode == 130, err
    directory = Path(out.splitlines()[-1])
    assert f"--resume {directory}" in err
    stopped = status(directory)
    assert stopped["state"] == "interrupted"
    trajectory = open_trajectory(directory / "trajectory.nc")
    assert trajectory["loss"].sizes["step"] == stopped["step"]
    trajectory.close()


def test_resume(tiny, tmp_path):
    """A run that is cut short in Python goes on from the command line, to the same end."""
    run = runs.run(load_spec(tiny), tmp_path / "out", sinks=[StopAt(2)])
    assert run.status["state"] == "interrupted"
    resumed = attndyn("run", "--resume", run.directory)
    assert resumed.returncode == 0, resumed.stderr
    assert resumed.stdout.splitlines()[-1] == str(run.directory)
    whole = runs.run(load_spec(tiny), tmp_path / "out")
    assert (run.trajectory["parameters"]["W_0"] == whole.trajectory["parameters"]["W_0"]).all()
    run.close()
    whole.close()


class StopAt:
    """A sink that asks for an end as Ctrl-C does, at a step."""

    def __init__(self, step):
        self.step = step

    def start(self, simulation): ...

    def record(self, probe, step, values): ...

    def advance(self, simulation):
        if simulation.step == self.step:
            os.kill(os.getpid(), signal.SIGINT)

    def finish(self, simulation, outcome): ...


def test_schema_plugins_version_and_help(in_process):
    assert json.loads(in_process("schema").stdout)["$schema"].startswith("https://json-schema.org")
    listed = in_process("plugins").stdout
    assert "pure_attention" in listed
    assert "attndyn_plugins.analyzers.stages" in listed
    assert in_process("--version").stdout.startswith("attndyn ")
    for command in ("run", "validate", "schema", "plugins", "analyze", "report"):
        shown = in_process(command, "--help")
        assert shown.returncode == 0
        assert "Example" in shown.stdout
