"""The reduced flow, the plateau and the onsets: against differences, the engine, and what is exact."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from attndyn.simulation import Simulation
from attndyn.spec import parse_spec
from attndyn.theory import closed_forms
from attndyn.theory.formulas import evaluate
from attndyn.theory.measure import Measurement, Record
from attndyn.theory.onsets import MOST_SHARE, SCORE_LEVEL, Start, onsets
from attndyn.theory.plateau import first_plateau, leading_mode, origin_coupling, transverse_rate
from attndyn.theory.rank_one import RankOne
from attndyn.theory.setting import OutOfReach, Setting

SPEC = """
name: reduced
data:
  kind: markov
  stationary: {{kind: explicit, pi: [0.5, 0.3, 0.15, 0.05]}}
  transition: {transition}
  regime: population
model: {{architecture: {architecture}, d_model: {m}, value_projection: {value},
        init: {{kind: normal, std: {std}}}}}
optimizer: {{kind: flow, rtol: 1e-8, atol: {atol}}}
training: {{steps: {steps}, time: {time}}}
probes: {{parameters: {{every: 1}}}}
"""
PLAIN = {
    "transition": "{kind: sticky, lam: 0.5}",
    "architecture": "pure_attention",
    "value": "false",
    "m": 7,
    "std": 1e-4,
    "atol": 1e-10,
    "steps": 400,
    "time": 100.0,
}
RANDOM = "{kind: random, seed: 3, concentration: 2.0}"
MODELS = [
    (architecture, value) for architecture in ("pure_attention", "residual") for value in ("false", "true")
]


class Recorder:
    """Keeps every record of the weights of one replica, as matrices."""

    def __init__(self):
        self.records = []

    def start(self, simulation): ...

    def record(self, probe, step, values):
        self.records.append({name: array.reshape(array.shape[-2:]) for name, array in values.items()})

    def advance(self, simulation): ...

    def finish(self, simulation, outcome): ...

    def __getitem__(self, name):
        return np.stack([record[name] for record in self.records])


def integrate(**changes):
    spec = parse_spec(SPEC.format(**PLAIN | changes))
    recorder = Recorder()
    simulation = Simulation(spec, "numpy")
    assert simulation.run([recorder]).state == "complete"
    return Setting.of(spec), np.linspace(0, spec.training.time, spec.training.steps + 1), recorder


def setting_of(**changes):
    return Setting.of(parse_spec(SPEC.format(**PLAIN | changes)))


@pytest.mark.parametrize("transition", [PLAIN["transition"], RANDOM])
@pytest.mark.parametrize(("architecture", "value"), MODELS)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_reduced_loss_and_gradient_are_the_engines(architecture, value, transition, sign):
    spec = parse_spec(
        SPEC.format(
            **PLAIN
            | {
                "architecture": architecture,
                "value": value,
                "transition": transition,
            }
        )
    )
    simulation = Simulation(spec, "numpy")
    rng = np.random.default_rng(1)
    u, v, w, grows, decays = (rng.normal(size=n) for n in (4, 4, 7, 7, 7))
    w /= np.linalg.norm(w)
    alpha, beta = float(np.linalg.norm(grows)), float(np.linalg.norm(decays))
    flow, c = RankOne(Setting.of(spec), sign, alpha * beta), 0.7 if value == "true" else 1.0
    a, b = grows + decays, sign * (grows - decays)
    weights = {"W_0": np.outer(u, w), "W_1": np.outer(w, v), "W_Q": np.outer(w, a)}
    weights |= {"W_K": np.outer(w, b), "W_V": c * np.outer(w, w)}
    for name, array in simulation.parameters.items():
        array[...] = weights[name]
    state = flow.pack(u, v, c, alpha)
    assert flow.loss(state) == pytest.approx(float(simulation.evaluate(0)[0]), rel=1e-13)
    gradient = {name: array.reshape(array.shape[-2:]) for name, array in simulation.gradients.items()}
    du, dv, dc, dq = flow.gradient(state)
    np.testing.assert_allclose(gradient["W_0"], np.outer(du, w), atol=1e-13)
    np.testing.assert_allclose(gradient["W_1"], np.outer(w, dv), atol=1e-13)
    np.testing.assert_allclose(gradient["W_Q"], dq * np.outer(w, b), atol=1e-13)
    np.testing.assert_allclose(gradient["W_K"], dq * np.outer(w, a), atol=1e-13)
    # of what W_Q and W_K have along w one half grows at the rate at which the other decays
    rate = flow.velocity(state)[-1] / alpha
    slopes = gradient["W_Q"] + sign * gradient["W_K"], gradient["W_Q"] - sign * gradient["W_K"]
    np.testing.assert_allclose(slopes[0], -2 * rate * np.outer(w, grows), atol=1e-13)
    np.testing.assert_allclose(slopes[1], 2 * rate * np.outer(w, decays), atol=1e-13)
    if value == "true":
        np.testing.assert_allclose(gradient["W_V"], dc * np.outer(w, w), atol=1e-13)


@pytest.mark.parametrize("transition", [PLAIN["transition"], RANDOM])
@pytest.mark.parametrize(("architecture", "value"), MODELS)
def test_the_plateau_is_a_critical_point(architecture, value, transition):
    setting = setting_of(architecture=architecture, value=value, transition=transition)
    plateau = first_plateau(setting)
    flow = RankOne(setting)
    assert np.abs(flow.velocity(flow.pack(plateau.u, plateau.v, plateau.c))).max() < 1e-13
    assert plateau.u @ plateau.u == pytest.approx(plateau.v @ plateau.v, rel=1e-12)
    assert closed_forms.entropy_rate(setting.pi, setting.transition) < plateau.loss
    assert plateau.loss <= closed_forms.entropy(setting.pi) + 1e-14
    if architecture == "residual":
        assert abs(plateau.kappa) < 1e-14, "no query gains by reading otherwise"
    else:
        expected = setting.score_scale * np.sum(plateau.u / setting.pi) ** 2 / 16
        assert plateau.kappa == pytest.approx(
            expected * closed_forms.coupling(setting.pi, setting.transition), rel=1e-12
        )


@pytest.mark.parametrize("value", ["false", "true"])
def test_the_plateau_of_a_residual_model_is_where_the_flow_from_the_origin_ends(value):
    """The point is one of a family: of constants added to v, and with W_V of those added to u."""
    setting = setting_of(architecture="residual", value=value)
    flow, plateau, (_, left, right) = RankOne(setting), first_plateau(setting), leading_mode(setting)
    start = flow.pack(1e-7 * left, 1e-7 * right, 0.0 if value == "true" else 1.0)
    ended = solve_ivp(lambda _, x: flow.velocity(x), (0, 3000), start, method="LSODA", rtol=1e-9, atol=1e-13)
    u, v, c, _ = flow.unpack(ended.y[:, -1])
    np.testing.assert_allclose(plateau.u, u, atol=1e-5)
    np.testing.assert_allclose(plateau.v, v, atol=1e-5)
    assert plateau.c == pytest.approx(c, abs=1e-5)
    assert abs(plateau.v.sum()) < 1e-13, "W_1 1 is conserved"


def test_growth_from_the_origin_of_a_residual_model_is_what_the_engine_does():
    setting, time, record = integrate(
        architecture="residual", transition=RANDOM, std=1e-6, atol=1e-12, time=20.0
    )
    rate, left, right = leading_mode(setting)
    growing = np.linalg.norm(left @ record["W_0"] + record["W_1"] @ right, axis=1)
    early = growing < 1e-3
    assert np.polyfit(time[early], np.log(growing[early]), 1)[0] == pytest.approx(rate, rel=1e-5)
    assert rate > evaluate("condensation_rate", replace(setting, residual=False))
    assert rate == pytest.approx(np.linalg.norm(origin_coupling(setting), 2), rel=1e-13)


@pytest.mark.parametrize(("architecture", "value"), MODELS)
def test_what_grows_on_the_plateau_is_all_that_grows_there(architecture, value):
    """Positive eigenvalues of the whole linearisation, by central differences of the engine's gradient."""
    spec = parse_spec(SPEC.format(**PLAIN | {"architecture": architecture, "value": value, "m": 3}))
    simulation, plateau, w = Simulation(spec, "numpy"), first_plateau(Setting.of(spec)), np.eye(3)[0]
    weights = {
        "W_0": np.outer(plateau.u, w),
        "W_1": np.outer(w, plateau.v),
        "W_V": plateau.c * np.outer(w, w),
    }
    for name, array in simulation.parameters.items():
        array[...] = weights.get(name, 0.0)

    def velocity(flat):
        simulation.parameters.flat[...] = flat
        simulation.evaluate(0)
        return -simulation.gradients.flat[0].copy()

    at, h = simulation.parameters.flat[0].copy(), 1e-5
    jacobian = [(velocity(at + e) - velocity(at - e)) / (2 * h) for e in h * np.eye(len(at))]
    rates = np.linalg.eigvalsh((np.array(jacobian) + np.array(jacobian).T) / 2)
    if architecture == "residual":
        assert rates[-1] == pytest.approx(transverse_rate(Setting.of(spec)), rel=1e-6)
    else:
        # W_Q and W_K along w, to each of the three directions of the head
        np.testing.assert_allclose(rates[-3:], plateau.kappa, rtol=1e-5)
        assert rates[-4] < 1e-8


@pytest.mark.parametrize("transition", [PLAIN["transition"], RANDOM])
def test_onsets_of_a_run(transition):
    setting = setting_of(transition=transition)
    predicted = onsets(setting)
    _, time, record = integrate(transition=transition, time=1.05 * predicted["dilution"], steps=800)
    u, along = first_plateau(setting).u, first_plateau(setting).u @ record["W_0"]

    def reached(values, level):
        """By straight lines between the logarithms, which exponential growth follows."""
        return np.interp(np.log(level), np.log(np.maximum.accumulate(values)), time)

    condensed = reached(np.linalg.norm(along, axis=1) / (u @ u), 0.5)
    # to a percent, or to the interval of the records where that is coarser
    assert condensed == pytest.approx(predicted["condensation"], rel=0.01, abs=time[1])
    read, keys = record["W_0"] @ record["W_Q"], record["W_0"] @ record["W_K"]
    scores = setting.score_scale * np.linalg.norm(read @ keys.swapaxes(1, 2), axis=(1, 2))
    assert reached(scores, SCORE_LEVEL) == pytest.approx(predicted["focus"], rel=0.01)
    w = np.linalg.svd(record["W_0"])[2][:, 0]
    side = np.einsum("tm,tm->t", along, w)
    second = np.einsum("tm,tm->t", record["W_0"][:, 1], w) * np.sign(side)
    fell = np.argmax((second < u[1] / 2) & (time > 2 * predicted["condensation"]))
    assert time[fell] == pytest.approx(predicted["dilution"], rel=0.01)


def onset_errors(share):
    """|predicted / measured − 1| of each onset where W_0 begins at a share of its norm on the plateau."""
    setting = setting_of(std=share * first_plateau(setting_of()).norm / np.sqrt(4 * 7))
    predicted = onsets(setting, Start.drawn(setting))
    _, time, record = integrate(std=setting.std, time=1.1 * predicted["dilution"], steps=400)
    weights = {name: record[name] for name in ("W_0", "W_1", "W_Q", "W_K")}
    seen = Measurement(setting, Record(time, weights, np.empty(0), np.empty(0)))
    return {stage: abs(at / getattr(seen, f"onset_{stage}") - 1) for stage, at in predicted.items()}


def test_onsets_are_good_from_weights_as_large_as_is_allowed():
    errors = onset_errors(MOST_SHARE)
    assert errors["condensation"] < 0.001
    assert errors["focus"] < 0.05
    assert errors["dilution"] < 0.05


def test_onsets_are_no_good_from_weights_far_larger():
    assert np.nanmax(list(onset_errors(5 * MOST_SHARE).values())) > 0.2


def test_a_typical_start_is_the_middle_of_those_drawn():
    setting = replace(Setting.sticky([0.6, 0.3, 0.1], 0.5, 8, 1e-3), seed=0)
    typical = Start.expected(setting)
    drawn = [Start.drawn(replace(setting, seed=seed)) for seed in range(400)]
    assert np.median([start.alpha for start in drawn]) == pytest.approx(typical.alpha, rel=0.05)
    _, left, right = leading_mode(setting)
    size = [(left @ start.u + right @ start.v) / 2 for start in drawn]
    assert np.median(size) == pytest.approx(left @ typical.u, rel=0.05)


def test_the_start_drawn_is_that_of_the_run():
    spec = parse_spec(SPEC.format(**PLAIN))
    weights = {n: a.reshape(a.shape[-2:]) for n, a in Simulation(spec, "numpy").parameters.items()}
    setting = Setting.of(spec)
    own, drawn = Start.of(setting, weights), Start.drawn(setting)
    np.testing.assert_allclose(own.u, drawn.u, rtol=1e-12)
    assert own.alpha == pytest.approx(drawn.alpha, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "changes", "reason"),
    [
        ("condensation_rate", {"value": "true"}, "second order"),
        ("onset_focus", {"value": "true"}, "second order"),
        ("embedding_scale", {"architecture": "residual"}, "not proportional"),
        ("focus_rate", {"architecture": "residual"}, "exactly"),
        ("onset_dilution", {"architecture": "residual"}, "exactly"),
        ("second_direction_rate", {}, "exactly"),
        ("onset_focus", {"transition": "{kind: sticky, lam: 0}"}, "does not set in"),
        ("onset_focus", {"std": 0}, "ε > 0"),
    ],
)
def test_where_there_is_no_such_number_the_reason_is_given(name, changes, reason):
    with pytest.raises(OutOfReach, match=reason):
        evaluate(name, setting_of(**changes))
