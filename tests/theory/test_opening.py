"""New directions in real trajectories, and along the path from the symmetric group to the geometric one."""

import numpy as np
import pytest

from attndyn.data.stationary import Geometric
from attndyn.simulation import Simulation
from attndyn.spec import parse_spec
from attndyn.theory.bifurcation import SymmetricGroup, transverse_rate
from attndyn.theory.exponents import fit_exponent
from attndyn.theory.formulas import evaluate
from attndyn.theory.interpolation import linear_slope, outlook, path
from attndyn.theory.manifold import Manifold
from attndyn.theory.measure import Measurement, Record
from attndyn.theory.opening import opening
from attndyn.theory.setting import OutOfReach, Setting

SPEC = """
name: opening
data:
  kind: markov
  stationary: {kind: symmetric, d_vocab: 3, p: 0.75}
  transition: {kind: sticky, lam: 0.5}
  regime: population
model: {architecture: pure_attention, d_model: 4, init: {kind: normal, std: 1e-4}}
optimizer: {kind: gd, lr: 0.5}
training: {steps: 2400}
replicas: {vary: {data.stationary.delta: [0, 0.01, 0.02]}}
probes: {parameters: {every: 20}}
"""


class Recorder:
    """Keeps W_0 and W_1 of all replicas."""

    def __init__(self):
        self.w_0, self.w_1 = [], []

    def start(self, simulation): ...

    def record(self, probe, step, values):
        self.w_0.append(values["W_0"].copy())
        self.w_1.append(values["W_1"].copy())

    def advance(self, simulation): ...

    def finish(self, simulation, outcome): ...


def test_trajectories_pass_by_the_point_and_open_at_the_predicted_rate():
    simulation, recorder = Simulation(parse_spec(SPEC), "numpy"), Recorder()
    assert simulation.run([recorder]).state == "complete"
    w_0, w_1 = np.stack(recorder.w_0, axis=1), np.stack(recorder.w_1, axis=1)
    time = np.arange(w_0.shape[1]) * 20 * 0.5
    group = SymmetricGroup(0.75, 0.5, 3, 4)
    for replica, delta in enumerate((0, 0.01, 0.02)):
        manifold = Manifold(group.setting(delta))
        theta = manifold.descend()
        seen = opening(manifold, theta, time, w_0[replica], w_1[replica])
        rate = np.linalg.norm(manifold.transverse(theta), 2)
        # steps of 0.5 end elsewhere on the curve of critical points than the flow does
        assert seen.distance < 5e-3
        assert seen.rate == pytest.approx(rate, rel=0.02, abs=1e-5)
        if delta:
            assert rate > delta * group.degenerate_point().slope


def test_formula_and_measurement_are_rows_of_the_theory():
    setting = SymmetricGroup(0.75, 0.5, 3, 4).setting(0.01)
    rate = evaluate("opening_rate", setting)
    assert rate == pytest.approx(transverse_rate(setting.pi, 0.5, 4), rel=1e-12)
    # a record that grows at a rate of its own, beside the critical point
    manifold, time = Manifold(setting), np.arange(8.0)
    theta = manifold.descend()
    left, _, right = np.linalg.svd(manifold.transverse(theta))
    w, new = np.eye(4)[:2]
    weights = manifold.lift(theta, w, new)
    grown = 1e-4 * np.exp(0.3 * time)[:, None, None]
    record = Record(
        time,
        {
            "W_0": weights["W_0"] + grown * np.outer(left[:, 0], new),
            "W_1": weights["W_1"] + grown * np.outer(new, right[0]),
        },
        time,
        time,
    )
    assert Measurement(setting, record).value("opening_rate") == pytest.approx(0.3, rel=1e-6)


def test_a_group_of_equals_has_no_opening_rate():
    with pytest.raises(OutOfReach, match="no new direction"):
        evaluate("opening_rate", SymmetricGroup(0.75, 0.5, 3, 4).setting())


def test_many_tokens_are_out_of_reach():
    with pytest.raises(OutOfReach, match="at most"):
        evaluate("opening_rate", Setting.sticky(np.full(40, 1 / 40), 0.5, 4))


def test_far_from_the_point_there_is_no_rate():
    manifold = Manifold(SymmetricGroup(0.75, 0.5, 3, 4).setting(0.01))
    away = np.ones((6, 3, 4)), np.ones((6, 4, 3))
    seen = opening(manifold, manifold.descend(), np.arange(6.0), *away)
    assert np.isnan([seen.rate, seen.first]).all()
    assert seen.records == 0


def test_the_path_has_the_two_ends():
    geometric = Geometric(kind="geometric", d_vocab=5, ratio=0.25).vector()
    np.testing.assert_allclose(path(5, 0.25, 1.0), geometric)
    start = path(5, 0.25, 0.0)
    assert start[0] == pytest.approx(geometric[0])
    assert np.ptp(start[1:]) < 1e-15
    assert path(5, 0.25, 0.3).sum() == pytest.approx(1)


@pytest.mark.parametrize("d", [4, 5])
def test_along_the_path_the_transverse_rate_begins_linearly(d):
    taus, slope = np.logspace(-5, -2, 7), linear_slope(d, 0.25, 0.5, 32)
    theta = Manifold(Setting.sticky(path(d, 0.25, 0.0), 0.5, 32)).descend(group=slice(1, None))
    rates = []
    for tau in taus:
        manifold = Manifold(Setting.sticky(path(d, 0.25, tau), 0.5, 32))
        theta = manifold.polish(theta)
        rates.append(np.linalg.norm(manifold.transverse(theta), 2))
    assert rates[0] == pytest.approx(slope * taus[0], rel=1e-4)
    exponent = fit_exponent(taus, np.array(rates))
    assert 0.98 < exponent.low < exponent.high < 1.02


def test_outlook_at_both_ends():
    symmetric, geometric = (outlook(path(4, 0.25, tau), 0.5, 32) for tau in (0.0, 1.0))
    assert symmetric.order == ()
    assert geometric.order == (1, 2, 3)
    # at the geometric end the new direction outruns the settling: there is no plateau to leave
    assert symmetric.transverse[0] < 1e-10 < symmetric.settling
    assert geometric.transverse[0] > geometric.settling > 0
