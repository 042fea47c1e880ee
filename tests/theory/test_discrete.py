"""Gradient descent against flow at matched time: first order in lr, conserved quantities included."""

import pytest

from attndyn.errors import AttndynError
from attndyn.theory.discrete import against_flow
from attndyn.theory.exponents import fit_exponent

POPULATION = ("data.regime=population", "optimizer={kind: gd, lr: 0.1}", "replicas.seeds=1")
RATES = (0.1, 0.05, 0.025, 0.0125)


@pytest.mark.parametrize(
    "model",
    [
        "architecture: pure_attention",
        "architecture: residual, value_projection: true, output_projection: true",
        "architecture: transformer, mlp: {width: 5}",
    ],
)
def test_first_order_in_the_learning_rate(small, model):
    spec = small(*POPULATION, f"model={{{model}, d_model: 5, init: {{std: 0.3}}}}")
    found = against_flow(spec, RATES, time=20.0)
    assert max(found.flow_drift.values()) <= 1e-9
    for errors in (found.distance, *(drift for name, drift in found.drift.items() if name != "logits")):
        order = fit_exponent(found.rates, errors)
        assert order.low < order.value < order.high
        assert order.value == pytest.approx(1, abs=0.05)
    # a law linear in the parameters is kept by every step along the gradient
    assert max(found.drift["logits"]) < 1e-13


def test_a_time_that_is_no_number_of_steps_is_refused(small):
    with pytest.raises(AttndynError, match="no whole number of steps"):
        against_flow(small(*POPULATION), (0.3,), time=1.0)
    with pytest.raises(AttndynError, match="3 replicas"):
        against_flow(small(*POPULATION, "replicas.seeds=3"), (0.1,), time=1.0)
