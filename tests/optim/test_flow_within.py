"""What happens inside an output interval of the flow: it is interrupted, followed, or stalls."""

import os
import signal

import numpy as np
import pytest

import attndyn
from attndyn import registry
from attndyn.backend.numpy_backend import NumpyBackend
from attndyn.cli.main import _report_state
from attndyn.cli.progress import Progress
from attndyn.optim import flow
from attndyn.optim.flow import GradientFlow
from attndyn.simulation import Simulation
from attndyn.trajectory.writer import read_checkpoint

METHODS = ["DOP853", "RK45", "LSODA"]
FLOW = ("data.regime=population", "training={steps: 6, time: 30}", "probes={loss: {every: 1}}")


class Asked:
    """Counts the gradients that are asked for, and does something at one of them."""

    def __init__(self, monkeypatch, at=0, then=lambda: None):
        self.count, original = 0, Simulation._replica_gradient

        def counted(simulation, replica, parameters):
            self.count += 1
            if self.count == at:
                then()
            return original(simulation, replica, parameters)

        monkeypatch.setattr(Simulation, "_replica_gradient", counted)


def whole_file(run):
    """All that a run recorded and would go on from, as arrays by name."""
    groups = {
        f"{name}/{variable}": np.array(array)
        for name, group in run.trajectory.children.items()
        for variable, array in group.variables.items()
    }
    run.close()
    return groups | read_checkpoint(run.directory)


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert np.array_equal(found[name], array, equal_nan=array.dtype.kind == "f"), name


@pytest.mark.parametrize("method", METHODS)
def test_a_signal_ends_the_run_at_the_next_gradient(small, tmp_path, monkeypatch, method):
    """In any interval and replica; what is recorded is kept, and the run goes on to the same bits."""
    spec = small(*FLOW, f"optimizer={{kind: flow, method: {method}, rtol: 1e-6}}")
    with monkeypatch.context() as patched:
        total = Asked(patched)
        expected = whole_file(attndyn.run(spec, tmp_path, backend="numpy"))
    steps = set()
    for part in (0.1, 0.5, 0.95):
        with monkeypatch.context() as patched:
            at = int(part * total.count)
            asked = Asked(patched, at, lambda: os.kill(os.getpid(), signal.SIGINT))
            run = attndyn.run(spec, tmp_path, backend="numpy")
            assert asked.count == at
        status = run.status
        assert status["state"] == "interrupted"
        assert run.trajectory["loss"]["step"].values.tolist() == list(range(status["step"] + 1))
        run.close()
        steps.add(status["step"])
        again = attndyn.run(spec, backend="numpy", resume=run.directory)
        assert again.status["state"] == "complete"
        assert_same(whole_file(again), expected)
    assert len(steps) == 3


def test_what_diverged_before_the_broken_step_is_seen_again(small, tmp_path, monkeypatch):
    spec = small(*FLOW, "optimizer={kind: flow}", "replicas={seeds: 1, vary: {model.init.std: [0.3, 1e160]}}")
    expected = whole_file(attndyn.run(spec, tmp_path, backend="numpy"))
    with monkeypatch.context() as patched:
        Asked(patched, 5, lambda: os.kill(os.getpid(), signal.SIGTERM))
        run = attndyn.run(spec, tmp_path, backend="numpy")
    assert run.status == {"state": "interrupted", "step": 0, "steps": 6, "diverged": []}
    again = attndyn.run(spec, backend="numpy", resume=run.directory)
    assert [lost["replica"] for lost in again.status["diverged"]] == [1]
    assert_same(whole_file(again), expected)


class Following:
    """Keeps the progress that it is shown while updates are under way."""

    def __init__(self):
        self.seen = []

    def start(self, simulation): ...

    def record(self, probe, step, values): ...

    def advance(self, simulation):
        assert simulation.progress == simulation.step

    def during(self, simulation):
        self.seen.append(simulation.progress)

    def finish(self, simulation, outcome): ...


def test_progress_rises_inside_an_interval(small):
    following = Following()
    spec = small("data.regime=population", "training={steps: 1, time: 30}", FLOW[2], "optimizer={kind: flow}")
    Simulation(spec, "numpy").run([following])
    assert following.seen[0] == 0
    assert np.all(np.diff(following.seen) >= 0)
    assert len(set(following.seen)) > 20
    assert 0.9 < following.seen[-1] < 1


def test_the_bar_moves_inside_an_interval(small, monkeypatch):
    monkeypatch.setattr("attndyn.cli.progress.REFRESH_SECONDS", 0.0)
    spec = small("data.regime=population", "training={steps: 1, time: 30}", FLOW[2], "optimizer={kind: flow}")
    with Progress() as progress:
        progress._shown, shown = True, set()
        monkeypatch.setattr(progress._bar, "update", lambda task, completed, **_: shown.add(completed))
        Simulation(spec, "numpy").run([progress])
    assert {0, 1} < shown
    assert len(shown) > 20


def test_following_changes_nothing(small):
    spec, ends = small(*FLOW, "optimizer={kind: flow}"), []
    for sinks in ((), (Following(),)):
        simulation = Simulation(spec, "numpy")
        simulation.run(sinks)
        ends.append(simulation.parameters.flat)
    assert np.array_equal(*ends)


def kinked(_, theta):
    """The gradient of |θ₀| + 0.1 θ₁: θ₀ is soon 0, where the slope jumps, and must stay there."""
    return np.array([np.sign(theta[0]), 0.1])


def integrate(starts, gradient, time=10.0, intervals=1, method="DOP853"):
    """The parameters at the end, and the optimizer."""
    cls = registry.get("optimizer", "flow")
    options = [cls.Options(kind="flow", method=method)] * len(starts)
    optimizer = cls(options, (len(starts), 2), intervals, time, NumpyBackend())
    parameters = np.array(starts)
    for step in range(intervals):
        gradients = np.array([gradient(r, theta) for r, theta in enumerate(parameters)])
        optimizer.advance(parameters, gradients, step, gradient)
    return parameters, optimizer


@pytest.fixture
def impatient(monkeypatch):
    """Stalls are seen after fewer steps."""
    monkeypatch.setattr(flow, "STALL_STEPS", 300)


@pytest.mark.parametrize("method", ["DOP853", "RK45"])
def test_a_stall_is_told(impatient, method):
    """It ends the replica, says where it was, and leaves the one beside it what it is alone."""
    starts = [[0.123, 0.0], [20.0, 0.0]]
    parameters, optimizer = integrate(starts, kinked, method=method)
    assert np.isnan(parameters[0]).all()
    assert np.array_equal(parameters[1:], integrate(starts[1:], kinked, method=method)[0])
    assert optimizer.reasons().keys() == {0}
    said = optimizer.reasons()[0]
    assert said.startswith("the integrator stalled at time 0.123 of 10, where 300 steps took it less than")
    advice = "optimizer.method: RK45 with a coarser rtol and atol (1e-4, 1e-7), gelu in place of relu, or gd "
    assert advice in said


def test_short_steps_alone_are_no_stall(impatient):
    """A stiff problem takes thousands of steps of one length, a small part of the interval each."""
    asked = []

    def stiff(replica, theta):
        asked.append(replica)
        return np.array([1e7 * (theta[0] - 1), theta[1]])

    _, optimizer = integrate([[1.0 + 1e-6, 1.0]], stiff, time=1e-3)
    assert len(asked) > 12 * 2 * flow.STALL_STEPS  # 12 a step
    assert optimizer.reasons() == {}


def test_a_stalled_run_ends_as_diverged_and_says_why(small, tmp_path, monkeypatch, impatient, capsys):
    """Its other replicas run on; what was recorded before is kept."""

    def gradient(simulation, replica, parameters):
        return np.sign(parameters - 1.0) if replica == 1 else 0.01 * parameters

    monkeypatch.setattr(Simulation, "_replica_gradient", gradient)
    spec = small(*FLOW, "optimizer={kind: flow}")
    run = attndyn.run(spec, tmp_path, backend="numpy")
    assert (run.status["state"], run.status["step"]) == ("diverged", 6)
    (lost,) = run.status["diverged"]
    assert lost["replica"] == 1
    assert "the integrator stalled at time" in lost["reason"]
    assert np.isfinite(run.trajectory["loss"]["loss"].values[[0, 2]]).all()
    assert np.isfinite(run.trajectory["loss"]["loss"].values[1, : lost["step"]]).all()
    run.close()
    _report_state(run.status, run)
    assert capsys.readouterr().err == (
        f"replica 1 (seed 1) diverged at step {lost['step']}: {lost['reason']}; what was computed is kept\n"
    )


def test_the_reason_is_part_of_what_a_run_goes_on_from():
    stalled = np.array([np.nan, 2.5])
    optimizer = GradientFlow([GradientFlow.Options()] * 2, (2, 2), 4, 10.0, NumpyBackend())
    optimizer.restore({"step_size": np.zeros(2), "stalled_at": stalled})
    assert list(optimizer.reasons()) == [1]
    assert np.array_equal(optimizer.state()["stalled_at"], stalled, equal_nan=True)
