"""The suite `core` itself: what it is given, and that it notices what is wrong."""

from copy import copy
from dataclasses import replace

import numpy as np
import pytest

from attndyn import registry, runs
from attndyn.conformance import Fault, check_spec
from attndyn.conformance.trial import shortened
from attndyn.data.markov import MarkovData
from attndyn.optim.adam import Adam
from attndyn.optim.flow import GradientFlow
from attndyn.simulation.probes.loss import LossProbe
from attndyn.simulation.probes.token_classes import TokenClassesProbe
from attndyn.trajectory import schema

PURE = registry.get("architecture", "pure_attention")
NORMS = registry.get("analyzer", "norms")
FLOW = ("data.regime=population", "optimizer={kind: flow}", "training={steps: 40, time: 8.0}")
GD = ("data.regime=population", "optimizer={kind: gd, lr: 0.1}")


def wrapped(name, cls, change):
    """A planter: the method's results go through `change(result, owner, *arguments)`."""

    def plant(monkeypatch):
        method = getattr(cls, name)

        def changed(self, *arguments, **keywords):
            return change(method(self, *arguments, **keywords), self, *arguments)

        monkeypatch.setattr(cls, name, changed)

    return plant


def gradient(name, change):
    def spoil(result, *_):
        loss, found = result
        return loss, {**found, name: change(found[name])}

    return wrapped("loss_and_gradients", PURE, spoil)


def noisy(batch, *_):
    return replace(batch, sample_weights=batch.sample_weights * (1 + 1e-9 * np.random.default_rng().normal()))


def more_of_one_token(batch, source, step, representation):
    if representation != "counts":
        return batch
    return replace(batch, log_weights=batch.log_weights + np.array([1.0, 0, 0, 0])[:, None])


def rolled(_, source, *arguments):
    source.pi = np.roll(source.pi, 1, axis=1)


def without_units(declaration, *_):
    return replace(declaration, variables={n: replace(v, units="") for n, v in declaration.variables.items()})


def without_excuse(declaration, *_):
    known = declaration.variables.items()
    return replace(declaration, variables={n: replace(v, nan_where="") for n, v in known})


def infinite(found, *_):
    return {**found, "norm_band": found["norm_band"] + np.inf}


def shifted(_, optimizer, parameters, *__):
    parameters += 1e-6


def forgetful(monkeypatch):
    monkeypatch.setattr(Adam, "restore", lambda self, state: None)


def without_time(monkeypatch):
    monkeypatch.setattr(schema, "_time_dims", lambda simulation: ())
    monkeypatch.setattr(schema, "times", lambda simulation, steps: None)


def other_version(monkeypatch):
    monkeypatch.setattr(schema, "__version__", "0")


def behind(monkeypatch):
    write = runs.StatusSink._write

    def late(self, state, simulation, *rest):
        earlier = copy(simulation)
        earlier.step = max(simulation.step - 1, 0)
        write(self, state, earlier, *rest)

    monkeypatch.setattr(runs.StatusSink, "_write", late)


def other_spec(monkeypatch):
    load = runs.load_spec
    monkeypatch.setattr(runs, "load_spec", lambda path: load(path).model_copy(update={"name": "other"}))


def nothing(monkeypatch): ...


SOFTMAX, SCORES = "softmax and cross-entropy", "only W_Q W_Kᵀ matters"
REPLICAS, LAYOUT, RESUMED = "replicas are independent", "trajectory as documented", "resumed as uninterrupted"

#: a band without tokens, whose mean is NaN
EMPTY = ("probes={loss: {every: 1}, token_classes: {every: 1, high: 0.9, medium: 0.99}}",)

#: what is planted, into which spec: the check that fails, the fault, and what has it
FAULTS = {
    "sign": (gradient("W_K", np.negative), (), "gradients", Fault.WRONG_SIGN, "gradient of W_K"),
    "factor": (gradient("W_0", lambda g: 1.001 * g), (), "gradients", Fault.WRONG_FACTOR, "gradient of W_0"),
    "scores": (gradient("W_K", lambda g: 1.001 * g), (), SCORES, Fault.NOT_CONSERVED, "W_QᵀG_Q"),
    "rows": (gradient("W_1", lambda g: g + 1e-9), (), SOFTMAX, Fault.NOT_CONSERVED, "gradient of W_1"),
    "laws": (
        gradient("W_0", lambda g: (1 + 1e-6) * g),
        *((), "conservation laws", Fault.NOT_CONSERVED, "law states"),
    ),
    "offset": (
        wrapped("loss_and_gradients", PURE, lambda r, *_: (r[0] + 1e-9, r[1])),
        *((), SOFTMAX, Fault.NOT_CONSERVED, "loss"),
    ),
    "mean": (
        gradient("W_0", lambda g: g.mean(axis=0, keepdims=True) + 0 * g),
        *((), REPLICAS, Fault.MIXED_REPLICAS, "parameters/W_0"),
    ),
    "noise": (wrapped("batch", MarkovData, noisy), (), "same spec, same bits", Fault.RANDOM, "loss/loss"),
    "counts": (
        wrapped("batch", MarkovData, more_of_one_token),
        *((), "exact representations agree", Fault.NOT_EXACT, "loss"),
    ),
    "attention": (
        wrapped("attention", PURE, lambda a, *_: 1.001 * a),
        *((), "probabilities sum to 1", Fault.NOT_NORMALISED, "attention"),
    ),
    "stationary": (
        wrapped("__init__", MarkovData, rolled),
        *((), "probabilities sum to 1", Fault.NOT_NORMALISED, "pi"),
    ),
    "drift": (
        wrapped("advance", GradientFlow, shifted),
        *(FLOW, SCORES, Fault.NOT_CONSERVED, "W_QᵀW_Q - W_KᵀW_K"),
    ),
    "units": (wrapped("declare", LossProbe, without_units), (), LAYOUT, Fault.UNLABELLED, "loss/loss"),
    "nan": (
        wrapped("declare", TokenClassesProbe, without_excuse),
        *(EMPTY, LAYOUT, Fault.NOT_FINITE, "token_classes/norm_band"),
    ),
    "infinity": (
        wrapped("measure", TokenClassesProbe, infinite),
        *(EMPTY, LAYOUT, Fault.NOT_FINITE, "token_classes/norm_band"),
    ),
    "time": (without_time, GD, LAYOUT, Fault.OFF_FORMAT, "loss/time"),
    "version": (other_version, (), LAYOUT, Fault.OFF_FORMAT, "root attribute attndyn_version"),
    "status": (behind, (), "spec.yaml and status.json", Fault.OFF_FORMAT, "status.json"),
    "spec": (other_spec, (), "spec.yaml and status.json", Fault.OFF_FORMAT, "spec.yaml"),
    "forgetful": (forgetful, (), RESUMED, Fault.NOT_RESTORED, "parameters/W_0"),
    "analysis": (
        wrapped("analyze", NORMS, lambda result, *_: result.drop_attrs()),
        *(("analyzers=[norms]",), "analyses", Fault.UNLABELLED, "norms: depth"),
    ),
    "divergence": (nothing, ("optimizer.lr=1e9",), "runs to its end", Fault.NOT_FINITE, "run"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_planted_fault_is_named(name, small, monkeypatch):
    plant, overrides, check, fault, subject = FAULTS[name]
    spec = small(*overrides)
    plant(monkeypatch)
    report = check_spec(spec)
    assert (check, fault, subject) in {
        (r.check, f.fault, f.subject) for r in report.results for f in r.failures
    }
    assert all(len(str(failure).splitlines()) == 1 for failure in report.failures)


@pytest.mark.parametrize(
    "overrides", [(), FLOW, GD, EMPTY, ("replicas.vary={optimizer.lr: [0.1, 0.2, 0.3]}",)]
)
def test_without_a_fault_nothing_fails(overrides, small):
    report = check_spec(small(*overrides))
    assert report.passed, str(report)


def test_an_architecture_that_raises_is_one_line(small, monkeypatch):
    def broken(self, parameters, contexts):
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(PURE, "loss_and_gradients", broken)
    (failure,) = check_spec(small()).failures
    assert "error: ZeroDivisionError is raised: planted" in str(failure)


def test_what_is_cut_down(small):
    spec = small(*FLOW, "data.n_ctx=64", "data.batch=1000", "replicas.vary={model.init.std: [0.1, 0.2, 0.3]}")
    spec = spec.model_copy(update={"expect": [{"of": "results"}]})
    short = shortened(spec)
    assert (short.training.steps, short.training.time) == (6, pytest.approx(1.2))
    assert (short.data.batch, short.data.n_ctx) == (7, 6)
    assert len(short.replicas_expanded()) == 4
    assert short.expect == []
    assert (short.model, short.optimizer) == (spec.model, spec.optimizer)
    assert all(options.every == 1 for options in short.probes.values())
    assert {"loss", "attention", "parameters", "gradients"} <= set(short.probes)
