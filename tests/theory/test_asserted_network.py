"""Tools of the asserted steps: the analytic gradient, derivatives on circles, the flow in four numbers."""

import numpy as np
import pytest

from attndyn.theory.analytic import jacobian
from attndyn.theory.asserted.circle import derivative, mixed, second
from attndyn.theory.asserted.exact import Exact
from attndyn.theory.asserted.symmetric import Symmetric, flow
from attndyn.theory.problem import Problem

STATE = np.array([1.1, 0.3, 2.0, 0.4])


@pytest.fixture
def network():
    pi = np.random.default_rng(3).dirichlet(np.ones(4))
    return Exact(pi, 0.5 * np.eye(4) + 0.5 * pi, 3)


def test_gradient_and_loss_are_the_engine_s(network):
    problem = Problem.one_layer(network.pi, network.transition, network.width)
    flat = network.initial(0.7, 0)
    same = problem.pack(network.unpack(flat))
    assert network.loss(flat) == pytest.approx(problem.loss(same), rel=1e-13)
    ours = problem.pack(network.unpack(network.gradient(flat)))
    np.testing.assert_allclose(ours, problem.gradient(same), atol=1e-14)


def test_gradient_is_analytic(network):
    """Its complex-step Jacobian is symmetric and agrees with central differences."""
    flat = network.initial(0.7, 1)
    hessian = jacobian(network.gradient, flat)
    np.testing.assert_allclose(hessian, hessian.T, atol=1e-14)
    step = 1e-5 * np.eye(network.size)[7]
    slope = (network.gradient(flat + step) - network.gradient(flat - step)) / 2e-5
    np.testing.assert_allclose(hessian[:, 7], slope, atol=1e-9)


def test_derivatives_on_a_circle():
    def function(x):
        return np.array([np.exp(2 * x[0]) * x[1] ** 2, np.sin(x[0] * x[1])])

    at, u, v = np.array([0.3, 0.8]), np.array([1.0, -2.0]), np.array([0.5, 3.0])
    e = np.exp(0.6)
    hessian = np.array([[4 * e * 0.64, 4 * e * 0.8], [4 * e * 0.8, 2 * e]])
    assert second(function, at, u)[0] == pytest.approx(u @ hessian @ u, rel=1e-11)
    assert mixed(function, at, u, v)[0] == pytest.approx(u @ hessian @ v, rel=1e-11)
    assert np.all(mixed(function, at, u, 0 * v) == 0)
    assert derivative(lambda z: np.array([np.cos(z)]), 4, 0.5)[0] == pytest.approx(1, rel=1e-11)


@pytest.mark.parametrize(("p", "d", "lam"), [(0.6, 4, 0.5), (0.8, 3, 0.2), (0.3, 6, 0.9)])
def test_flow_in_four_numbers_is_the_flow(p, d, lam):
    width = 5
    setting = Symmetric(p, d, lam, width**-0.5)
    network = Exact.sticky(setting.pi, lam, width)
    velocity = network.unpack(-network.gradient(network.pack(setting.weights(STATE, width))))
    q = np.sqrt(STATE[3] / setting.scale)
    expected = setting.velocity(STATE)
    a, b = velocity["W_0"][:, 0], velocity["W_1"][0]
    z = 2 * setting.scale * q * velocity["W_Q"][0, 0]
    np.testing.assert_allclose([a[0], a[1], b[0] - b[1], z], expected, atol=1e-14)
    # and nothing leaves the manifold
    for name, others in (
        ("W_0", np.s_[:, 1:]),
        ("W_1", np.s_[1:]),
        ("W_Q", np.s_[1:]),
        ("W_K", np.s_[:, 1:]),
    ):
        assert np.abs(velocity[name][others]).max() == 0
    np.testing.assert_allclose(a[1:], a[1], atol=1e-15)
    assert b.sum() == pytest.approx(0, abs=1e-14)


def test_plateau_is_critical_and_the_law_is_kept():
    setting = Symmetric(0.6, 4, 0.5, 0.25)
    np.testing.assert_allclose(setting.velocity(setting.plateau()), 0, atol=1e-15)
    start = setting.plateau() + 1e-3 * np.eye(4)[3]
    states = flow(setting, start, 300.0).states
    law = setting.conserved(states)
    assert states[3, -1] > 0.1
    assert np.abs(law - law[0]).max() < 1e-8


def test_many_settings_at_once_are_each_alone():
    both = Symmetric(np.array([0.6, 0.7]), np.array([4, 3]), np.array([0.5, 0.3]), 0.25)
    state = np.stack([STATE, 0.9 * STATE], axis=1)
    alone = Symmetric(0.7, 3, 0.3, 0.25)
    np.testing.assert_array_equal(both.velocity(state)[:, 1], alone.velocity(0.9 * STATE))
    ends = flow(both, state, 50.0).states[:, -1]
    np.testing.assert_allclose(ends[:, 1], flow(alone, 0.9 * STATE, 50.0).states[:, -1], rtol=1e-7)
