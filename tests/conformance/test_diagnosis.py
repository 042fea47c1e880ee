"""Numbers that agree, and the faults that numbers look like."""

import numpy as np
import pytest

from attndyn.conformance.diagnosis import gradient_fault, near, replica_fault, same
from attndyn.conformance.faults import Fault

RNG = np.random.default_rng(0)
DIMS = ("head", "model", "d_head")
EXPECTED = RNG.normal(size=(2, 5, 5))


def fault(found, expected=EXPECTED, floor=0.0):
    return gradient_fault("W", DIMS, found, expected, floor)


def test_agreement():
    assert near(EXPECTED * (1 + 1e-8), EXPECTED, 1e-7)
    assert not near(EXPECTED * (1 + 1e-6), EXPECTED, 1e-7)
    assert not near(EXPECTED[0], EXPECTED, 1.0)
    assert not near(np.full(3, np.nan), np.ones(3), 1.0)
    assert same(np.array([1.0, -np.inf, np.nan]), np.array([1.0, -np.inf, np.nan]))
    assert not same(np.array([1.0, -np.inf]), np.array([1.1, -np.inf]))
    assert not same(np.array([np.inf, 1.0]), np.array([-np.inf, 1.0]))
    assert not same(np.array([np.nan, 1.0]), np.array([2.0, 1.0]))


@pytest.mark.parametrize(
    ("spoil", "expected", "words"),
    [
        (lambda g: -g, Fault.WRONG_SIGN, "minus"),
        (lambda g: g.swapaxes(1, 2), Fault.SWAPPED_AXES, "the axes model and d_head"),
        (lambda g: g * 0, Fault.MISSING_TERM, "is zero"),
        (lambda g: g * 5**0.5, Fault.WRONG_FACTOR, "2.236068 times"),
        (lambda g: g + np.eye(5), Fault.MISSING_TERM, "a term is missing"),
        (lambda g: g * [1, 1, np.nan, 1, 1], Fault.NOT_FINITE, "NaN"),
        (lambda g: g * (1 + 2e-7), Fault.WRONG_FACTOR, "1.0000002 times"),
    ],
)
def test_gradients(spoil, expected, words):
    found = fault(spoil(EXPECTED))
    assert found is not None
    assert found.fault == expected
    assert words in found.detail


def test_gradients_that_are_right():
    assert fault(EXPECTED * (1 + 1e-8)) is None
    assert fault(EXPECTED + 1e-4, floor=1e-3) is None
    # a parameter that the loss does not depend on: rounding only
    assert fault(0 * EXPECTED, 1e-11 * EXPECTED, floor=1e-10) is None
    assert fault(1e-3 + 0 * EXPECTED, 1e-11 * EXPECTED, floor=1e-10) is not None


def test_replicas():
    alone = RNG.normal(size=(3, 4))
    assert replica_fault("x", alone.copy(), alone) is None
    for spoiled, expected in (
        (alone[[0, 1, 1]], Fault.LOST_REPLICA),
        (alone[:1], Fault.LOST_REPLICA),
        (alone.sum(), Fault.LOST_REPLICA),
        (alone * [[1], [0], [1]], Fault.LOST_REPLICA),
        (alone - alone.mean(axis=0), Fault.MIXED_REPLICAS),
        (np.tile(alone.mean(axis=0), (3, 1)), Fault.MIXED_REPLICAS),
        (alone[:, :3], Fault.SHAPE),
    ):
        found = replica_fault("x", spoiled, alone)
        assert found is not None
        assert found.fault == expected
