"""The engine against the theory: rates, plateau and conservation laws under gradient flow."""

import numpy as np
import pytest

from attndyn.simulation import Simulation
from attndyn.spec import parse_spec
from attndyn.theory.closed_forms import condensation_rate, embedding_scale, focus_rate

FLOW = """
name: flow
data:
  kind: markov
  stationary: {stationary}
  transition: {{kind: sticky, lam: {lam}}}
  regime: population
model: {{architecture: pure_attention, d_model: {m}, init: {{kind: normal, std: {std}}}}}
optimizer: {{kind: flow, rtol: 1e-10, atol: {atol}}}
training: {{steps: {steps}, time: {time}}}
probes: {{parameters: {{every: 1}}}}
"""

# (stationary, λ, m, time at which attention is still small)
SETTINGS = [
    ("{kind: geometric, d_vocab: 4, ratio: 0.25}", 0.5, 32, 700),
    ("{kind: explicit, pi: [0.5, 0.3, 0.2]}", 0.7, 16, 700),
    ("{kind: zipf, d_vocab: 6, exponent: 1.0}", 0.3, 9, 1200),
]


class Recorder:
    """Keeps every record of the parameters of one replica."""

    def __init__(self):
        self.records = []

    def start(self, simulation): ...

    def record(self, probe, step, values):
        self.records.append({name: array[0].copy() for name, array in values.items()})

    def advance(self, simulation): ...

    def finish(self, simulation, outcome): ...

    def stacked(self, name):
        return np.stack([r[name] for r in self.records]).squeeze()


def integrate(**changes):
    simulation = Simulation(parse_spec(FLOW.format(**changes)), "numpy")
    recorder = Recorder()
    assert simulation.run([recorder]).state == "complete"
    return simulation, recorder


@pytest.mark.parametrize(("stationary", "lam", "m", "time"), SETTINGS)
def test_rates_and_plateau(stationary, lam, m, time):
    # so small a start that the linear regimes are long
    simulation, recorder = integrate(
        stationary=stationary, lam=lam, m=m, std=1e-8, atol=1e-14, steps=350, time=time
    )
    pi, t = simulation.data.pi[0], simulation.optimizer.time(np.arange(simulation.steps + 1))[0]
    w_0, w_1 = recorder.stacked("W_0"), recorder.stacked("W_1")
    size = np.linalg.norm(w_0, axis=(1, 2))
    plateau = embedding_scale(pi) * np.linalg.norm(pi)

    # σ: the growing combination of the two directions, while it is small
    out, back = pi / np.linalg.norm(pi), (pi - 1 / len(pi)) / np.linalg.norm(pi - 1 / len(pi))
    growing = np.linalg.norm(np.einsum("d,tdm->tm", out, w_0) + w_1 @ back, axis=1)
    early = size < 1e-3 * plateau
    assert early.sum() > 5
    sigma = np.polyfit(t[early], np.log(growing[early]), 1)[0]
    assert sigma == pytest.approx(condensation_rate(pi), rel=1e-3)

    # κ: the growing combination of W_Q and W_K along w, on the plateau
    w = np.linalg.svd(w_0[-1])[2][0]
    attention = np.linalg.norm(w @ recorder.stacked("W_Q") + w @ recorder.stacked("W_K"), axis=1)
    there = (abs(size / plateau - 1) < 1e-4) & (attention < 1e-2)
    assert there.sum() > 50
    kappa = np.polyfit(t[there], np.log(attention[there]), 1)[0]
    assert kappa == pytest.approx(focus_rate(pi, lam, m), rel=1e-3)
    rows = np.linalg.norm(w_0[there][-1], axis=1)
    np.testing.assert_allclose(rows, embedding_scale(pi) * pi, rtol=1e-3)


def conserved(recorder):
    """The matrices of docs/theory.md: constant under gradient flow, for every data law."""
    w_0, w_q, w_k, w_1 = (recorder.stacked(name) for name in ("W_0", "W_Q", "W_K", "W_1"))

    def inner(a):
        return a.swapaxes(1, 2) @ a

    def outer(a):
        return a @ a.swapaxes(1, 2)

    yield "embedding", inner(w_0) - outer(w_1) - outer(w_q) - outer(w_k)
    yield "heads", inner(w_q) - inner(w_k)
    yield "output", w_1.sum(axis=2)


def drifts(recorder):
    return {name: np.abs(matrix - matrix[0]).max() for name, matrix in conserved(recorder)}


WHOLE_CYCLE = {
    "stationary": "{kind: geometric, d_vocab: 4, ratio: 0.25}",
    "lam": 0.5,
    "m": 32,
    "std": 32.0**-2,
    "atol": 1e-12,
    "steps": 120,
    "time": 1200,
}


def test_conservation_laws_over_the_whole_cycle():
    _, recorder = integrate(**WHOLE_CYCLE)
    norms = np.linalg.norm(recorder.stacked("W_0"), axis=2)
    assert norms[:, 1].max() > 1.2  # token 1 has retracted and regrown: the cycle took place
    assert all(drift < 1e-8 for drift in drifts(recorder).values()), drifts(recorder)


def test_a_small_error_in_one_gradient_breaks_the_laws(monkeypatch):
    from attndyn_plugins.architectures.pure_attention import PureAttention

    true = PureAttention.loss_and_gradients

    def planted(self, parameters, contexts):
        loss, gradients = true(self, parameters, contexts)
        return loss, gradients | {"W_K": gradients["W_K"] * (1 + 1e-4)}

    monkeypatch.setattr(PureAttention, "loss_and_gradients", planted)
    _, recorder = integrate(**WHOLE_CYCLE)
    assert drifts(recorder)["heads"] > 1e-6
