"""Planted faults of optimizers, probes, analyzers and data sources are named too."""

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
import xarray as xr

from attndyn.analysis.analyzer import Analyzer
from attndyn.conformance import Fault, check_class
from attndyn.data.markov import MarkovData
from attndyn.errors import PluginError, Problem, SpecError
from attndyn.optim.adam import Adam
from attndyn.optim.flow import GradientFlow
from attndyn.optim.gd import GradientDescent
from attndyn.simulation.probe import Declaration, Fixed, Probe, Variable
from attndyn.spec.base import AnalyzerOptions


def faults(kind, cls):
    report = check_class(kind, cls, cls.__name__, limit=3)
    return {(f.fault, f.subject) for f in report.failures}, str(report)


# -- optimizers -------------------------------------------------------------------------------------------


class Uphill(GradientDescent):
    def advance(self, parameters, gradients, step, gradient):
        parameters += self.rate(step) * gradients


class Elsewhere(GradientDescent):
    def advance(self, parameters, gradients, step, gradient):
        parameters = parameters - self.rate(step) * gradients


class Together(GradientDescent):
    """Clips by a norm that is taken over all replicas."""

    def advance(self, parameters, gradients, step, gradient):
        norm = self._backend.xp.sqrt((gradients * gradients).sum())
        parameters -= self.rate(step) * gradients / norm


class Forgetful(Adam):
    def restore(self, state):
        pass


class Wide(Adam):
    def __init__(self, options, shape, steps, time, backend):
        super().__init__(options, shape, steps, time, backend)
        self._buffers["second"] = backend.xp.zeros(shape)

    def advance(self, parameters, gradients, step, gradient):
        super().advance(parameters, gradients, step, gradient)


class Scaling(GradientDescent):
    def advance(self, parameters, gradients, step, gradient):
        gradients *= self.rate(step)
        parameters -= gradients


class Unsettled(GradientFlow):
    """Where it is interrupted, it keeps the step sizes of the replicas that it was done with."""

    def advance(self, parameters, gradients, step, gradient):
        kept = self._size
        try:
            super().advance(parameters, gradients, step, gradient)
        except Exception:
            self._size = kept
            raise


class OnHost(GradientDescent):
    def advance(self, parameters, gradients, step, gradient):
        host = self._backend.to_host(gradients)
        parameters -= self.rate(step) * self._backend.asarray(host)


@pytest.mark.parametrize(
    ("cls", "fault", "subject"),
    [
        (Uphill, Fault.WRONG_SIGN, "advance"),
        (Elsewhere, Fault.NOT_IN_PLACE, "advance"),
        (Together, Fault.MIXED_REPLICAS, "result"),
        (Forgetful, Fault.NOT_RESTORED, "resumed run"),
        (Unsettled, Fault.NOT_RESTORED, "step_size"),
        (Wide, Fault.DTYPE, "state 'second'"),
        (Scaling, Fault.INPUT_MODIFIED, "gradients"),
        (OnHost, Fault.HOST_LEAK, "advance"),
    ],
)
def test_optimizers(cls, fault, subject):
    found, text = faults("optimizer", cls)
    assert found == {(fault, subject)}, text


# -- probes -----------------------------------------------------------------------------------------------


class Norm(Probe):
    """Norm of the embedding of every token; nothing is wrong with it."""

    dims, shape = ("token",), (4,)

    def declare(self):
        return Declaration({"norm": Variable(self.dims, self.shape, "norm of the embedding")})

    def measure(self, state):
        return {"norm": self.backend.xp.sqrt((state.parameters["W_0"] ** 2).sum(axis=2))}

    @property
    def backend(self):
        return self.simulation.backend


class View(Norm):
    def measure(self, state):
        return {"norm": state.parameters["W_0"][:, :, 0]}


class Misdeclared(Norm):
    dims, shape = ("token", "model"), (6, 4)

    def measure(self, state):
        return {"norm": state.parameters["W_0"] * 1}


class Misnamed(Norm):
    def measure(self, state):
        return {"length": super().measure(state)["norm"]}


class Coarse(Norm):
    """What is fixed is that of one token, and says it is of all."""

    def declare(self):
        fixed = {"rank": Fixed(("token",), np.array([1]), "rank of the token")}
        return replace(super().declare(), fixed=fixed)


class Silent(Norm):
    def measure(self, state):
        return {"norm": super().measure(state)["norm"] * np.array([1, 1, 1, np.nan])}


class Averaged(Norm):
    def measure(self, state):
        return {"norm": super().measure(state)["norm"] * 0 + state.loss.sum()}


class Host(Norm):
    def measure(self, state):
        return {"norm": self.backend.to_host(super().measure(state)["norm"])}


class Normalising(Norm):
    def measure(self, state):
        w_0 = state.parameters["W_0"]
        w_0 *= 2
        return super().measure(state)


@pytest.mark.parametrize(
    ("cls", "expected"),
    [
        (Norm, set()),
        (View, {(Fault.VIEW, "norm")}),
        (Misdeclared, {(Fault.SWAPPED_AXES, "norm")}),
        (Misnamed, {(Fault.DECLARATION, "norm"), (Fault.DECLARATION, "length")}),
        (Coarse, {(Fault.SHAPE, "rank")}),
        (Silent, {(Fault.NOT_FINITE, "norm")}),
        (Averaged, {(Fault.MIXED_REPLICAS, "norm")}),
        (Host, {(Fault.HOST_LEAK, "norm"), (Fault.HOST_LEAK, "measure")}),
    ],
)
def test_probes(cls, expected):
    found, text = faults("probe", cls)
    assert found == expected, text


class Choosy(Norm):
    """Refuses all that does not fit it, which here is everything but one."""

    fits = "corpus"

    def __init__(self, options, simulation):
        super().__init__(options, simulation)
        if simulation.spec.data.kind != self.fits:
            raise SpecError([Problem(simulation.spec.name, "probes.choosy", f"needs data of {self.fits}")])


class FaultyWhereItFits(Choosy):
    def measure(self, state):
        return {"norm": state.parameters["W_0"][:, :, 0]}


class NeverPleased(Choosy):
    fits = "nothing"


def test_a_probe_is_checked_where_it_fits():
    found, text = faults("probe", FaultyWhereItFits)
    assert found == {(Fault.VIEW, "norm")}, text
    with pytest.raises(PluginError, match=r"refuses every spec .* probes.choosy: needs data of nothing"):
        faults("probe", NeverPleased)


def test_a_probe_that_changes_the_state():
    found, text = faults("probe", Normalising)
    assert (Fault.INPUT_MODIFIED, "state's parameters") in found, text


# -- analyzers --------------------------------------------------------------------------------------------


class Last(Analyzer):
    """The last loss of each replica; nothing is wrong with it."""

    class Options(AnalyzerOptions):
        kind: Literal["last"] = "last"

    requires = ("loss",)
    title = "Last loss"
    numbers = ("last",)

    def analyze(self, trajectory):
        return self.label(trajectory["loss"]["loss"].isel(step=-1, drop=True))

    def label(self, last):
        last.attrs = {"long_name": "last loss", "units": "nats"}
        return xr.Dataset({"last": last})

    def draw(self, result, trajectory, figure):
        ax = figure.subplots()
        ax.plot(result["replica"], result["last"])
        ax.set_xlabel("replica")


class Unlabelled(Last):
    def label(self, last):
        return xr.Dataset({"last": last.drop_attrs()})


class Numbered(Last):
    numbers = ("final",)


class ByPlace(Last):
    def analyze(self, trajectory):
        loss = trajectory["loss"]["loss"]
        return self.label(
            xr.DataArray(loss.values[:, -1], dims="replica", coords={"replica": loss["replica"]})
        )


class Changing(Last):
    def analyze(self, trajectory):
        trajectory["loss"]["loss"].attrs["seen"] = "yes"
        return super().analyze(trajectory)


class Random(Last):
    def analyze(self, trajectory):
        noise = np.random.default_rng().normal()
        return self.label(trajectory["loss"]["loss"].isel(step=-1, drop=True) + noise)


class Blank(Last):
    def draw(self, result, trajectory, figure):
        figure.subplots().set_xlabel("replica")


class SecondRecord(Last):
    def analyze(self, trajectory):
        return self.label(trajectory["loss"]["loss"].isel(step=1, drop=True))


@pytest.mark.parametrize(
    ("cls", "expected"),
    [
        (Last, set()),
        (Unlabelled, {(Fault.UNLABELLED, "last")}),
        (Numbered, {(Fault.UNLABELLED, "final")}),
        (Changing, {(Fault.INPUT_MODIFIED, "trajectory's /loss")}),
        (Random, {(Fault.RANDOM, "last"), (Fault.SWAPPED_AXES, "last")}),
        (Blank, {(Fault.NOTHING_DRAWN, "draw")}),
        (SecondRecord, {(Fault.ERROR, "IndexError")}),
    ],
)
def test_analyzers(cls, expected):
    found, text = faults("analyzer", cls)
    assert found == expected, text


def test_an_analyzer_that_takes_axes_by_their_place():
    found, text = faults("analyzer", ByPlace)
    assert {fault for fault, _ in found} <= {Fault.SWAPPED_AXES, Fault.ERROR}, text
    assert "axes by name" in text


# -- data sources -----------------------------------------------------------------------------------------


class Running(MarkovData):
    """Contexts that go on from wherever it is."""

    step = 0

    def batch(self, step, representation):
        self.step += 1
        return super().batch(self.step, representation)


class OneForAll(MarkovData):
    def batch(self, step, representation):
        contexts = super().batch(step, representation)
        return replace(contexts, targets=np.repeat(contexts.targets[:1], len(self.pi), axis=0))


class Unnormalised(MarkovData):
    def batch(self, step, representation):
        contexts = super().batch(step, representation)
        return replace(contexts, sample_weights=contexts.sample_weights * 7)


class Transposed(MarkovData):
    def __init__(self, options, seeds, loss_positions):
        super().__init__(options, seeds, loss_positions)
        self.transition = self.transition.swapaxes(1, 2)


class Miscounted(MarkovData):
    def batch(self, step, representation):
        contexts = super().batch(step, representation)
        if representation == "counts":
            contexts = replace(contexts, log_weights=contexts.log_weights + 1.0)
        return contexts


CHAIN = {
    "stationary": {"kind": "geometric", "d_vocab": 4, "ratio": 0.5},
    "transition": {"kind": "random", "seed": 1, "concentration": 1.0},
    "targets": "sampled",
}


@pytest.mark.parametrize(
    ("cls", "fault", "subject"),
    [
        (Running, Fault.HIDDEN_STATE, "query"),
        (OneForAll, Fault.LOST_REPLICA, "targets"),
        (Unnormalised, Fault.NOT_NORMALISED, "sample_weights"),
        (Transposed, Fault.SWAPPED_AXES, "transition"),
        (Miscounted, Fault.NOT_EXACT, "counts"),
    ],
)
def test_data_sources(cls, fault, subject):
    report = check_class("data", cls, cls.__name__, options={**CHAIN, "regime": "sampled"})
    assert (fault, subject) in {(f.fault, f.subject) for f in report.failures}, str(report)


def test_a_data_source_without_a_fault():
    report = check_class("data", MarkovData, "markov", options=CHAIN)
    assert report.passed, str(report)
