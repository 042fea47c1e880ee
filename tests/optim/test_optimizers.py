"""Every optimizer against its textbook recursion, entry by entry; schedules; the flow."""

import math

import numpy as np
import pytest

from attndyn import registry
from attndyn.backend.numpy_backend import NumpyBackend
from attndyn.errors import SpecError
from attndyn.optim.schedules import elapsed, factor
from attndyn.simulation import Simulation
from attndyn.spec.base import Schedule

STEPS = 5


def optimize(kind, schedule=None, **fields):
    """Three replicas of two parameters with lr 0.1, 0.2, 0.3, given gradients that depend on the step."""
    cls = registry.get("optimizer", kind)
    options = [
        cls.Options(kind=kind, lr=lr, schedule=schedule or Schedule(), **fields) for lr in (0.1, 0.2, 0.3)
    ]
    optimizer = cls(options, (3, 2), STEPS, None, NumpyBackend())
    parameters = np.array([[1.0, -2.0]] * 3)
    for step in range(STEPS):
        optimizer.advance(parameters, gradient(step), step, None)
    return optimizer, parameters


def gradient(step):
    return np.array([[0.3, -0.7], [1.0, 0.2], [-0.4, 0.5]]) * (1 + step)


def by_hand(update, lr, replica, entry):
    theta, memory = [1.0, -2.0][entry], {}
    for step in range(STEPS):
        theta = update(theta, gradient(step)[replica, entry], lr, step + 1, memory)
    return theta


def gd(theta, g, lr, t, memory):
    return theta - lr * g


def sgd(theta, g, lr, t, memory, momentum=0.8, decay=0.1, nesterov=False):
    g = g + decay * theta
    memory["v"] = momentum * memory.get("v", 0.0) + g
    return theta - lr * (g + momentum * memory["v"] if nesterov else memory["v"])


def adam(theta, g, lr, t, memory, decay=0.0):
    theta -= lr * decay * theta
    memory["m"] = 0.8 * memory.get("m", 0.0) + 0.2 * g
    memory["v"] = 0.9 * memory.get("v", 0.0) + 0.1 * g * g
    return theta - lr * (memory["m"] / (1 - 0.8**t)) / (math.sqrt(memory["v"] / (1 - 0.9**t)) + 1e-3)


MOMENTS = {"beta1": 0.8, "beta2": 0.9, "eps": 1e-3}
CASES = [
    ("gd", {}, gd),
    ("sgd", {"momentum": 0.8, "weight_decay": 0.1}, sgd),
    (
        "sgd",
        {"momentum": 0.8, "weight_decay": 0.1, "nesterov": True},
        lambda *a: sgd(*a, nesterov=True),
    ),
    ("adam", MOMENTS, adam),
    ("adamw", MOMENTS | {"weight_decay": 0.2}, lambda *a: adam(*a, decay=0.2)),
]


@pytest.mark.parametrize(("kind", "fields", "update"), CASES)
def test_textbook_recursion(kind, fields, update):
    _, found = optimize(kind, **fields)
    for replica, lr in enumerate((0.1, 0.2, 0.3)):
        for entry in range(2):
            assert found[replica, entry] == pytest.approx(by_hand(update, lr, replica, entry), rel=1e-13)


@pytest.mark.parametrize(("kind", "fields", "update"), CASES)
def test_state_can_be_taken_up(kind, fields, update):
    optimizer, _ = optimize(kind, **fields)
    other, _ = optimize(kind, **fields)
    for array in other.state().values():
        array[...] = 0
    other.restore({name: array.copy() for name, array in optimizer.state().items()})
    one, two = np.ones((3, 2)), np.ones((3, 2))
    optimizer.advance(one, gradient(1), STEPS - 1, None)
    other.advance(two, gradient(1), STEPS - 1, None)
    assert np.array_equal(one, two)
    assert not np.array_equal(one, np.ones((3, 2)))


def test_time_is_the_sum_of_learning_rates():
    schedule = Schedule(kind="warmup", warmup=4)
    for kind in ("gd", "sgd"):
        optimizer, _ = optimize(kind, schedule)
        np.testing.assert_allclose(
            optimizer.time(np.arange(6))[1], 0.2 * np.cumsum([0, 0.25, 0.5, 0.75, 1, 1])
        )
    assert optimize("adam")[0].time(np.arange(6)) is None


def factors(schedule, steps):
    return [factor(schedule, step, steps) for step in range(steps)]


def test_schedules():
    assert factors(Schedule(), 3) == [1, 1, 1]
    assert factors(Schedule(kind="warmup", warmup=2), 4) == [0.5, 1, 1, 1]
    cosine = 0.6 + 0.4 * np.cos(np.pi * np.arange(5) / 4)
    found = factors(Schedule(kind="cosine", warmup=1, final=0.2), 6)
    np.testing.assert_allclose(found, [1, *cosine])
    assert factors(Schedule(kind="cosine"), 1) == [1]


@pytest.mark.parametrize("kind", ["constant", "warmup", "cosine"])
@pytest.mark.parametrize("warmup", [0, 3, 11])
def test_elapsed_is_the_sum_of_the_factors(kind, warmup):
    shape = {"constant": {}, "warmup": {"warmup": warmup}, "cosine": {"warmup": warmup, "final": 0.1}}
    schedule = Schedule(kind=kind, **shape[kind])
    expected = np.cumsum([0, *factors(schedule, 9)])
    np.testing.assert_allclose(elapsed(schedule, np.arange(10), 9), expected, rtol=1e-12)


FLOW = (
    "data.regime=population",
    "training={steps: 4, time: 20}",
    "optimizer={kind: flow, rtol: 1e-10, atol: 1e-12}",
)
QUIET = "probes={loss: {every: 1}}"


def final(spec):
    simulation = Simulation(spec, "numpy")
    assert simulation.run().state == "complete"
    return simulation.parameters.flat


def test_gradient_descent_converges_to_the_flow_at_first_order(small):
    flow = final(small(*FLOW, QUIET))
    errors = []
    for steps in (100, 200, 400):
        descent = (f"training={{steps: {steps}}}", f"optimizer={{kind: gd, lr: {20 / steps}}}")
        errors.append(np.abs(final(small("data.regime=population", *descent, QUIET)) - flow).max())
    assert errors[0] / errors[1] == pytest.approx(2, rel=0.1)
    assert errors[1] / errors[2] == pytest.approx(2, rel=0.05)


@pytest.mark.parametrize("method", ["DOP853", "RK45", "LSODA"])
def test_integrators_agree(small, method):
    other = [*FLOW[:2], f"optimizer={{kind: flow, rtol: 1e-10, atol: 1e-12, method: {method}}}", QUIET]
    np.testing.assert_allclose(final(small(*other)), final(small(*FLOW, QUIET)), atol=1e-6)


def test_flow_does_not_depend_on_the_output_intervals(small):
    coarse, fine = (
        final(small(FLOW[0], f"training={{steps: {n}, time: 20}}", FLOW[2], QUIET)) for n in (3, 50)
    )
    np.testing.assert_allclose(coarse, fine, atol=1e-8)


def test_flow_of_a_replica_is_its_own(small):
    among = final(small(*FLOW, QUIET))
    alone = final(small(*FLOW, QUIET, "replicas={seeds: 1, base_seed: 1}"))
    assert np.array_equal(among[1], alone[0])


def test_flow_needs_the_population(small):
    with pytest.raises(SpecError, match="population"):
        small(*FLOW[1:])
