"""The probe of conserved quantities in runs: flow, Adam, and a run that was interrupted."""

import numpy as np
import pytest

from attndyn import registry
from attndyn.errors import SpecError
from attndyn.simulation import Simulation
from attndyn.theory.conservation import laws

PROBE = "probes={invariants: {every: 1}}"
POPULATION = ("data.regime=population", PROBE, "replicas.seeds=2")


class Records:
    """A sink that keeps the drift of all laws, `(step, R, law)`."""

    def __init__(self):
        self.drift, self.relative = [], []

    def start(self, simulation): ...

    def record(self, probe, step, values):
        self.drift.append(values["drift"].copy())
        self.relative.append(values["relative_drift"].copy())

    def advance(self, simulation): ...

    def finish(self, simulation, outcome): ...


def recorded(simulation, interrupted=lambda: False):
    records = Records()
    simulation.run([records], interrupted)
    return np.array(records.drift), np.array(records.relative)


def test_flow_keeps_what_adam_does_not(small):
    flow = small(
        *POPULATION, "optimizer={kind: flow, rtol: 1e-11, atol: 1e-14}", "training={time: 9, steps: 3}"
    )
    adam = small(*POPULATION, "optimizer={kind: adam, lr: 0.01}", "training.steps=60")
    kept, relative = recorded(Simulation(flow, "numpy"))
    assert kept.shape == (4, 2, 3)
    assert not kept[0].any()
    assert kept.max() <= 1e-9
    simulation = Simulation(adam, "numpy")
    lost, relative = recorded(simulation)
    assert (lost[-1] > 0.01).all(), "no law, not even of the logits, survives a gradient rescaled by entry"
    start = Simulation(adam, "numpy")
    for i, law in enumerate(laws(simulation.architecture)):
        before, after = law.evaluate(start.parameters), law.evaluate(simulation.parameters)
        axes = tuple(range(1, before.ndim))
        np.testing.assert_allclose(lost[-1, :, i], np.abs(after - before).max(axis=axes))
        np.testing.assert_allclose(relative[-1, :, i], lost[-1, :, i] / np.abs(before).max(axis=axes))


def test_resumed_drift_is_that_of_a_run_that_never_stopped(small):
    spec = small(*POPULATION, "optimizer={kind: gd, lr: 0.5}")
    whole, _ = recorded(Simulation(spec, "numpy"))
    first, second = (Simulation(spec, "numpy") for _ in range(2))
    begun, _ = recorded(first, lambda: first.step == 3)
    second.restore(first.checkpoint())
    rest, _ = recorded(second)
    np.testing.assert_array_equal(np.concatenate([begun, rest]), whole)


def test_nothing_to_divide_by_is_nan(small):
    spec = small(*POPULATION, "model.init={parameters: {W_Q: {kind: zero}, W_K: {kind: zero}}}")
    simulation = Simulation(spec, "numpy")
    _, relative = recorded(simulation)
    at = [law.name for law in laws(simulation.architecture)].index("queries_keys")
    assert np.isnan(relative[:, :, at]).all()
    assert np.isfinite(relative[:, :, :at]).all()


def test_an_architecture_without_laws_is_refused_in_a_line(small):
    simulation = Simulation(small(PROBE), "numpy")
    simulation.architecture.stream = None
    probe = registry.get("probe", "invariants")
    with pytest.raises(
        SpecError,
        match=r"^--set probes=.*: probes.invariants: 'pure_attention' declares no conservation law$",
    ):
        probe(probe.Options(every=1), simulation)
