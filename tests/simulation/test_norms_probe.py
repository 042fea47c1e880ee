"""The norms of all embeddings, as recorded."""

import numpy as np

from attndyn.simulation import Simulation
from attndyn.simulation.probe import State


def test_norms_of_the_rows_of_w_0(small):
    simulation = Simulation(small("probes={norms: {every: 1}}"), "numpy")
    state = State(0, simulation.parameters, simulation.gradients, np.zeros(3))
    probe = simulation.probes["norms"]
    (variable,) = probe.declare().variables.values()
    assert (variable.dims, variable.shape) == (("token",), (4,))
    norms = probe.measure(state)["embedding_norm"]
    expected = [[np.sqrt(sum(x**2 for x in row)) for row in each] for each in simulation.parameters["W_0"]]
    np.testing.assert_allclose(norms, expected, rtol=1e-14)
