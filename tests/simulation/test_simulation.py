"""The run loop: replicas, records, divergence, stopping and going on."""

import numpy as np
import pytest

from attndyn.errors import BackendError, SpecError
from attndyn.registry import names
from attndyn.simulation import Simulation
from attndyn.simulation.probe import cadence
from attndyn.spec.base import ProbeOptions


class Recorder:
    """Keeps all records as they come."""

    def __init__(self):
        self.records, self.calls, self.outcome = {}, [], None

    def start(self, simulation):
        self.calls.append(("start", simulation.step))

    def record(self, probe, step, values):
        self.calls.append((probe, step))
        self.records[probe, step] = {name: np.array(array) for name, array in values.items()}

    def advance(self, simulation):
        self.calls.append(("advance", simulation.step))

    def finish(self, simulation, outcome):
        self.outcome = outcome


def run(spec, interrupted=lambda: False, restore=None):
    simulation, recorder = Simulation(spec, "numpy"), Recorder()
    if restore is not None:
        simulation.restore(restore)
    simulation.run([recorder], interrupted)
    return simulation, recorder


def equal(one, other):
    return one.keys() == other.keys() and all(
        np.array_equal(one[key][name], other[key][name], equal_nan=True) for key in one for name in one[key]
    )


def test_records_come_in_order_and_the_final_state_always(small):
    _, recorder = run(small())
    assert [c for c in recorder.calls if c[0] not in ("start", "advance")] == [
        *[("loss", 0), ("attention", 0), ("parameters", 0)],
        *[("loss", 1), ("gradients", 1), ("loss", 2), ("attention", 2), ("loss", 3)],
        *[("loss", 4), ("attention", 4), ("parameters", 4), ("loss", 5), ("gradients", 5)],
        *[("loss", 6), ("attention", 6), ("parameters", 6), ("gradients", 6)],
    ]
    assert recorder.outcome.state == "complete"
    assert recorder.outcome.step == 6


def test_a_record_is_the_state_before_its_update(small):
    """θ(step + 1) = θ(step) − lr g(step), from the records alone; and the loss is the recorded state's."""
    spec = small(
        "optimizer={kind: gd, lr: 0.5}",
        "probes={loss: {every: 1}, parameters: {every: 1}, gradients: {every: 1}}",
    )
    simulation, recorder = run(spec)
    for name in simulation.parameters:
        for step in range(6):
            before, after = (recorder.records["parameters", s][name] for s in (step, step + 1))
            moved = before - 0.5 * recorder.records["gradients", step][name]
            np.testing.assert_array_equal(after, moved)
    again = Simulation(spec, "numpy")
    for name, view in again.parameters.items():
        view[...] = recorder.records["parameters", 4][name]
    np.testing.assert_array_equal(again.evaluate(4), recorder.records["loss", 4]["loss"])


def test_same_spec_same_records(small):
    assert equal(run(small())[1].records, run(small())[1].records)


VARIANTS = [
    (),
    ("training.loss_positions=all",),
    ("representation=positions",),
    ("data.regime=population", "optimizer={kind: gd, lr: 0.3}"),
    ("data.size=20",),
    ("training.dtype=float32",),
]


@pytest.mark.parametrize("changes", VARIANTS)
def test_a_replica_alone_equals_the_same_among_eight(small, changes):
    _, among = run(small("replicas={seeds: 8}", "training.steps=40", *changes))
    _, alone = run(small("replicas={seeds: 1, base_seed: 5}", "training.steps=40", *changes))
    tolerance = 1e-5 if "training.dtype=float32" in changes else 1e-12
    for key, values in alone.records.items():
        for name, array in values.items():
            np.testing.assert_allclose(among.records[key][name][5], array[0], rtol=tolerance, atol=tolerance)


def test_varied_scalars_are_those_of_runs_of_their_own(small):
    vary = (
        "replicas={seeds: 2, combine: zip, vary: "
        "{optimizer.lr: [0.01, 0.05], model.init.std: [0.1, 0.2], data.transition.lam: [0.2, 0.8]}}"
    )
    _, together = run(small(vary))
    own = (
        "optimizer.lr=0.05",
        "model.init.std=0.2",
        "data.transition.lam=0.8",
        "replicas={seeds: 1, base_seed: 1}",
    )
    _, alone = run(small(*own))
    found, expected = (r.records["parameters", 6]["W_0"] for r in (together, alone))
    np.testing.assert_allclose(found[3], expected[0], rtol=1e-12)
    assert not np.allclose(found[1], expected[0], rtol=1e-3)


@pytest.mark.parametrize("changes", [*VARIANTS, ("optimizer={kind: sgd, lr: 0.1, momentum: 0.9}",)])
def test_going_on_equals_not_having_stopped(small, changes):
    spec = small(*changes)
    _, whole = run(spec)
    looks = iter([False, False, False, True])
    stopped, first = run(spec, lambda: next(looks))
    assert (first.outcome.state, first.outcome.step) == ("interrupted", 3)
    _, second = run(spec, restore=stopped.checkpoint())
    assert equal(first.records | second.records, whole.records)
    assert ("loss", 3) not in first.records  # nothing is recorded twice


def test_going_on_with_the_flow(small):
    spec = small("data.regime=population", "training={steps: 6, time: 30}", "optimizer={kind: flow}")
    looks = iter([False, False, True])
    stopped, first = run(spec, lambda: next(looks))
    _, second = run(spec, restore=stopped.checkpoint())
    assert equal(first.records | second.records, run(spec)[1].records)


@pytest.mark.parametrize("architecture", names("architecture"))
def test_an_integrator_sees_the_gradient_in_the_order_of_the_parameters(small, architecture):
    """Whatever the order in which an architecture returns it."""
    simulation = Simulation(small("data.regime=population", f"model.architecture={architecture}"), "numpy")
    simulation.evaluate(0)
    for replica, parameters in enumerate(simulation.parameters.flat):
        found = simulation._replica_gradient(replica, parameters)
        np.testing.assert_allclose(found, simulation.gradients.flat[replica], rtol=1e-12, atol=1e-15)


def test_a_replica_that_an_integrator_cannot_start_from(small):
    """The loss is NaN at step 0: the run ends, and the other replica is what it is alone."""
    flow = ("data.regime=population", "training={steps: 6, time: 6}", "optimizer={kind: flow}")
    vary = "replicas={seeds: 1, vary: {model.init.std: [0.1, 1e160]}}"
    _, recorder = run(small(*flow, vary))
    assert recorder.outcome.state == "diverged"
    assert recorder.outcome.diverged_at.tolist() == [-1, 0]
    _, alone = run(small(*flow, "replicas={seeds: 1}", "model.init.std=0.1"))
    found, expected = (r.records["parameters", 6]["W_0"][0] for r in (recorder, alone))
    assert np.array_equal(found, expected)


def test_one_replica_diverges_and_the_others_run_on(small):
    """Without gradient clipping a rate of 1e6 leaves the finite numbers at once."""
    vary = "replicas={seeds: 1, vary: {optimizer.lr: [0.01, 1e6, 0.02]}}"
    spec = small("optimizer={kind: gd, lr: 0.1}", vary, "training.max_loss=50")
    _, recorder = run(spec)
    assert recorder.outcome.state == "diverged"
    assert recorder.outcome.step == 6
    at = recorder.outcome.diverged_at
    assert at[0] == at[2] == -1
    assert 1 <= at[1] <= 6
    last = recorder.records["parameters", 6]["W_0"]
    assert np.isfinite(last[[0, 2]]).all()
    assert np.isnan(last[1]).all()
    assert not recorder.records["loss", at[1]]["loss"][1] <= 50  # what was seen is recorded
    _, without = run(small("optimizer={kind: gd, lr: 0.01}", "replicas={seeds: 1}"))
    np.testing.assert_allclose(last[0], without.records["parameters", 6]["W_0"][0], rtol=1e-12)


def test_a_run_whose_replicas_all_diverge_stops(small):
    _, recorder = run(small("optimizer={kind: gd, lr: 1e6}", "training={steps: 10000, max_loss: 50}"))
    assert recorder.outcome.state == "diverged"
    assert recorder.outcome.step < 100
    assert ("parameters", recorder.outcome.step) in recorder.records  # the final state


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"every": 4}, [0, 4, 8, 10]),
        ({"every": 5}, [0, 5, 10]),
        ({"steps": [7, 3, 3]}, [3, 7, 10]),
        ({"count": 4}, [0, 1, 4, 10]),
        ({"count": 100}, list(range(11))),
    ],
)
def test_cadence(options, expected):
    due = cadence(ProbeOptions(**options), 10)
    assert [step for step in range(11) if due(step)] == expected


@pytest.mark.parametrize(
    ("changes", "chosen"),
    [
        ((), "counts"),
        (("data.regime=population",), "population"),
        (("representation=positions",), "positions"),
        # many tokens, short contexts: a table of all pairs costs more than the positions
        (("data.stationary={kind: zipf, d_vocab: 500, exponent: 1.0}", "data.n_ctx=4"), "positions"),
        (
            (
                "data.stationary={kind: zipf, d_vocab: 100, exponent: 1.0}",
                *("data.n_ctx=8", "data.batch=50", "training.loss_positions=all", "model.d_model=32"),
            ),
            "positions",
        ),
        (("training.loss_positions=all",), "counts"),
        (
            ("data.stationary={kind: zipf, d_vocab: 20, exponent: 1.0}", "data.n_ctx=200", "data.batch=500"),
            "counts",
        ),
    ],
)
def test_the_cheapest_exact_representation_is_chosen(small, changes, chosen):
    assert Simulation(small(*changes), "numpy").representation == chosen


@pytest.mark.parametrize(("regime", "forced"), [("sampled", "population"), ("population", "counts")])
def test_an_inexact_representation_is_refused(small, regime, forced):
    with pytest.raises(SpecError, match=forced):
        Simulation(small(f"data.regime={regime}", f"representation={forced}"), "numpy")


def test_positions_that_would_not_fit_are_refused(small):
    sizes = ("data.n_ctx=30000", "data.batch=30000", "training.loss_positions=all")
    sizes += ("replicas.seeds=1",)
    with pytest.raises(SpecError, match="positions need"):
        Simulation(small(*sizes, "representation=positions"), "numpy")


def test_unknown_backend(small):
    with pytest.raises(BackendError, match="allowed: auto, numpy, cupy"):
        Simulation(small(), "torch")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("parameters", None, "no 'parameters'"),
        ("optimizer.first", None, "no 'optimizer.first'"),
        ("parameters", np.zeros((3, 1)), "needed is float64"),  # would be stretched
        ("parameters", np.zeros((3, 90), np.float32), "needed is float64"),
        ("diverged_at", np.zeros(4, np.int64), "'diverged_at' is int64"),
        ("step", np.array(7), "allowed: 0 to 6"),
        ("step", np.array(-1), "allowed: 0 to 6"),
        ("step", np.array("x"), "'step' is"),
    ],
)
def test_a_checkpoint_of_something_else_is_refused_and_changes_nothing(small, name, value, said):
    simulation = Simulation(small(), "numpy")
    before = simulation.checkpoint()
    altered = {k: v for k, v in before.items() if k != name} | ({} if value is None else {name: value})
    with pytest.raises(ValueError, match=said):
        simulation.restore(altered)
    after = simulation.checkpoint()
    assert all(np.array_equal(before[key], after[key]) for key in before)
