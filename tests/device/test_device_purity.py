"""Whole runs on the strict stand-in: no array leaves the device unasked, and the numbers are NumPy's."""

import numpy as np
import pytest
import xarray as xr

from attndyn.backend.base import Backend
from attndyn.conformance.strict import StrictBackend
from attndyn.simulation import Simulation
from attndyn.trajectory import TrajectoryWriter, open_trajectory
from attndyn_plugins.architectures.pure_attention import PureAttention
from device.short_runs import CASES, RUNS, Records, assert_same_run, run


@pytest.mark.parametrize(("case", "dtype"), RUNS)
def test_run_equals_reference_bit_for_bit(small, case, dtype):
    spec = small(*CASES[case], f"training.dtype={dtype}")
    assert_same_run(spec, StrictBackend(dtype), Backend(np, dtype))


def test_cases_reach_everything(small):
    """The cases cover every optimizer and representation, and one run that loses a replica."""
    simulations = [Simulation(small(*overrides), Backend(np)) for overrides in CASES.values()]
    assert {s.spec.optimizer.kind for s in simulations} == {"gd", "sgd", "adam", "adamw", "flow"}
    assert {s.representation for s in simulations} == {"population", "counts", "positions"}
    _, records = run(small(*CASES["one diverges"]), Backend(np))
    assert records.outcome.state == "diverged"
    assert sorted(records.outcome.diverged_at >= 0) == [False] * 3 + [True] * 3


@pytest.mark.parametrize("case", ["adam", "positions", "flow"])
def test_trajectory_file_equals_reference(small, tmp_path, case):
    spec, trees = small(*CASES[case]), []
    for backend in (StrictBackend(), Backend(np)):
        directory = tmp_path / backend.name
        directory.mkdir()
        Simulation(spec, backend).run([TrajectoryWriter(directory)])
        trees.append(open_trajectory(directory / "trajectory.nc"))
    assert trees[0].attrs["backend"] == "strict"
    for probe in spec.probes:
        xr.testing.assert_identical(*(tree[probe].to_dataset().load() for tree in trees))


@pytest.mark.parametrize("case", ["sgd", "adam", "adamw", "flow", "one diverges"])
def test_resumed_run_equals_uninterrupted(small, case):
    spec = small(*CASES[case])
    uninterrupted, _ = run(spec, StrictBackend())
    first = Simulation(spec, StrictBackend())
    first.run(interrupted=lambda: first.step == 3)
    checkpoint = first.checkpoint()
    assert all(type(array) is np.ndarray for array in checkpoint.values())
    second = Simulation(spec, StrictBackend())
    second.restore(checkpoint)
    assert second.step == 3
    second.run()
    for key, array in uninterrupted.checkpoint().items():
        np.testing.assert_array_equal(second.checkpoint()[key], array, key)


# -- transfers --------------------------------------------------------------------------------------------


def transfers(simulation):
    """Arrays moved to and from the device by a whole run without sinks."""
    xp = simulation.backend.xp
    before = xp.uploads, xp.downloads
    simulation.run()
    return xp.uploads - before[0], xp.downloads - before[1]


@pytest.mark.parametrize("steps", [5, 23])
def test_population_run_moves_only_what_the_divergence_check_reads(small, steps):
    spec = small(*CASES["population"], f"training.steps={steps}", "probes={}")
    simulation = Simulation(spec, StrictBackend())
    simulation.backend.check_every = 4
    fields = 3  # log-weights, targets, sample weights: once
    checks = len({*range(0, steps, 4), steps})
    assert transfers(simulation) == (fields, checks)


@pytest.mark.parametrize(("case", "fields"), [("counts, W_V", 4), ("positions", 5)])
def test_sampled_run_uploads_its_contexts_and_nothing_else(small, case, fields):
    spec = small(*CASES[case], "probes={}")
    evaluations = spec.training.steps + 1
    # CuPy's interval between checks is longer than this run: the first step and the last
    assert transfers(Simulation(spec, StrictBackend())) == (fields * evaluations, 2)


class Watch(Records):
    """Notes how many arrays had left the device before every step."""

    def start(self, simulation):
        self.downloads = []

    def record(self, probe, step, values):
        pass

    def advance(self, simulation):
        self.downloads.append(simulation.backend.xp.downloads)


def test_probes_leave_the_device_only_when_they_are_flushed(small, tmp_path):
    simulation, watch = Simulation(small(), StrictBackend()), Watch()
    simulation.run([TrajectoryWriter(tmp_path, flush_seconds=1e9), watch])
    at_start, *later = watch.downloads
    assert set(later) == {at_start + 1}  # the divergence check of step 0
    assert simulation.backend.xp.downloads > later[-1] + 1


# -- the proof can fail -----------------------------------------------------------------------------------


class Leaky(PureAttention):
    """Pure attention with one careless line behind it."""

    leak = None

    def loss_and_gradients(self, parameters, contexts):
        loss, gradients = super().loss_and_gradients(parameters, contexts)
        return type(self).leak(self.backend.xp, loss), gradients


LEAKS = {
    "NumPy's function": lambda xp, loss: np.abs(loss),
    "a constant on the host": lambda xp, loss: loss + np.zeros(loss.shape),
    "a look at a value": lambda xp, loss: loss if float(loss[0]) < 1e9 else loss * 0,
    "an index on the host": lambda xp, loss: loss[np.arange(len(loss))],
    "a loop over replicas": lambda xp, loss: xp.stack([value * 1 for value in loss]),
    "a result on the host": lambda xp, loss: np.asarray(loss),
}


@pytest.mark.parametrize("leak", LEAKS.values(), ids=LEAKS)
def test_planted_leak_is_caught(small, monkeypatch, leak):
    monkeypatch.setattr(Leaky, "leak", staticmethod(leak))
    spec = small()
    for backend in (StrictBackend(), Backend(np)):
        simulation = Simulation(spec, backend)
        simulation.architecture = Leaky(spec.model, len(simulation.data.tokens), spec.data.n_ctx, backend)
        if backend.name == "strict":
            with pytest.raises(TypeError):
                simulation.run()
        else:
            assert simulation.run().state == "complete"  # NumPy alone would never tell
