"""Initial parameters: their scale, and parameters that begin otherwise."""

import numpy as np
import pytest

from attndyn.errors import SpecError
from attndyn.simulation import Simulation

MODEL = "model={architecture: pure_attention, d_model: 30, value_projection: true, init: %s}"


def initial(small, init, *changes):
    return Simulation(small(MODEL % init, *changes), "numpy").parameters


def test_the_default_scale_is_one_over_m_squared(small):
    assert np.std(initial(small, "{}")["W_Q"]) == pytest.approx(30**-2, rel=0.05)
    assert np.std(initial(small, "{width_power: -1}")["W_Q"]) == pytest.approx(1 / 30, rel=0.05)


def test_parameters_of_their_own(small):
    parameters = "W_Q: {kind: zero}, W_V: {kind: identity, scale: 2}, W_K: {kind: normal, std: 3}"
    own = f"{{std: 0.1, parameters: {{{parameters}}}}}"
    found, plain = initial(small, own), initial(small, "{std: 0.1}")
    assert not found["W_Q"].any()
    assert np.array_equal(found["W_V"][1, 0, 0], 2 * np.eye(30))
    np.testing.assert_allclose(found["W_K"], 30 * plain["W_K"])
    for name in ("W_0", "W_1"):  # the others are as they would be
        assert np.array_equal(found[name], plain[name])


def test_identity_of_a_rectangle(small):
    w_0 = initial(small, "{parameters: {W_0: {kind: identity}}}")["W_0"]
    assert np.array_equal(w_0[0], np.eye(4, 30))


def test_the_scale_can_vary(small):
    init = "{parameters: {W_V: {kind: identity}}}"
    vary = "replicas={vary: {model.init.parameters.W_V.scale: [1.0, 5.0]}}"
    assert initial(small, init, vary)["W_V"][:, 0, 0, 3, 3].tolist() == [1, 5]


@pytest.mark.parametrize(
    ("init", "message"),
    [
        (
            "{parameters: {W_O: {kind: zero}}}",
            r"^--set model=.*: model.init.parameters.W_O: no such parameter",
        ),
        ("{parameters: {W_Q: {kind: ones}}}", "model.init.parameters.W_Q"),
        ("{parameters: {W_Q: {kind: zero, std: 1}}}", "std"),
    ],
)
def test_wrong_inits(small, init, message):
    with pytest.raises(SpecError, match=message):
        initial(small, init)


def test_layer_norm_begins_as_the_identity(small):
    model = "model={architecture: transformer, d_model: 6, layers: 2, layer_norm: pre, init: {std: 0.5}}"
    found = Simulation(small(model), "numpy").parameters
    assert (found["gain"] == 1).all()
    assert not found["shift_end"].any()
