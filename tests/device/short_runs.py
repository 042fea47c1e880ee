"""Short runs that between them reach every part of the engine that touches arrays."""

import numpy as np

from attndyn.simulation import Simulation

POPULATION = ("data.regime=population",)
MANY_TOKENS = (
    "data.stationary={kind: zipf, d_vocab: 40, exponent: 1.0}",
    "data.transition={kind: random, seed: 1, concentration: 1.0}",
    "probes.attention.most=8",
)
TRANSFORMER = "architecture: transformer, d_model: 6, layers: 2, heads: 3, init: {std: 0.3}"
TEXT = " ".join(f"w{i * i % 13}" for i in range(120))
SCHEDULE = "optimizer.schedule={kind: cosine, warmup: 3, final: 0.1}"

#: overrides of the spec `small` (tests/conftest.py) by name
CASES = {
    "gd": ("optimizer={kind: gd, lr: 0.1}",),
    "sgd": ("optimizer={kind: sgd, lr: 0.1, momentum: 0.9, weight_decay: 0.01}",),
    "nesterov": ("optimizer={kind: sgd, lr: 0.1, momentum: 0.9, nesterov: true}",),
    "adam": (SCHEDULE,),
    "adamw": ("optimizer={kind: adamw, lr: 0.01, weight_decay: 0.1}",),
    "flow": (*POPULATION, "optimizer={kind: flow, rtol: 1.0e-5, atol: 1.0e-6}", "training.time=1.0"),
    "population": POPULATION,
    "population, W_V": (*POPULATION, "model.value_projection=true"),
    "counts, all positions": ("training.loss_positions=all",),
    "counts, exact targets": ("data.targets=exact",),
    "counts, W_V": ("model.value_projection=true",),
    "positions": ("representation=positions",),
    "positions, all, W_V": (
        "representation=positions",
        "training.loss_positions=all",
        "model.value_projection=true",
    ),
    "positions, exact targets": ("representation=positions", "data.targets=exact"),
    "fixed set": ("data.size=23",),
    "many tokens": MANY_TOKENS,
    "many tokens, population": (*MANY_TOKENS, *POPULATION),
    "many tokens, counts": (*MANY_TOKENS, "representation=counts"),
    "many tokens, positions": (*MANY_TOKENS, "representation=positions"),
    "residual": ("model={architecture: residual, d_model: 5, positions: sinusoidal, init: {std: 0.3}}",),
    "transformer": (f"model={{{TRANSFORMER}, mlp: {{width: 7}}, layer_norm: pre}}",),
    "transformer, causal, all positions": (
        f"model={{{TRANSFORMER}, attention: causal, mlp: {{width: 7, activation: relu}}, layer_norm: post}}",
        "training.loss_positions=all",
    ),
    "transformer, masked": (f"model={{{TRANSFORMER}, positions: learned, mask_token: 0}}",),
    "invariants": ("probes.invariants={every: 1}",),
    "text": (
        f"data={{kind: corpus, source: {{kind: text, text: {TEXT}}}, n_ctx: 5, batch: 3}}",
        "data.tokenizer={kind: word, size: 9}",
        "data.held_out=0.3",
        f"model={{{TRANSFORMER}, attention: causal}}",
        "training.loss_positions=all",
        "probes={loss: {every: 1}, held_out: {every: 1}, token_classes: {every: 1}, predictions: {every: 1}}",
    ),
    "varied": ("replicas.vary={optimizer.lr: [0.01, 0.1]}",),
    "one diverges": ("optimizer={kind: gd, lr: 0.1}", "replicas.vary={optimizer.lr: [0.1, 1.0e+9]}"),
}

#: what to run in which arithmetic: flow has float64 only
RUNS = [
    (case, dtype)
    for case in CASES
    for dtype in ("float64", "float32")
    if (case, dtype) != ("flow", "float32")
]


class Records:
    """A sink that keeps all records as host arrays: `{(probe, variable, step): array}`."""

    def __init__(self):
        self.values = {}

    def start(self, simulation):
        self._to_host = simulation.backend.to_host

    def record(self, probe, step, values):
        for name, array in values.items():
            self.values[probe, name, step] = self._to_host(array).copy()

    def advance(self, simulation):
        pass

    def finish(self, simulation, outcome):
        self.outcome = outcome


def run(spec, backend):
    """The finished simulation of a spec, and what was recorded."""
    simulation, records = Simulation(spec, backend), Records()
    simulation.run([records])
    return simulation, records


def assert_same_run(spec, backend, reference, tolerance=0.0):
    """The same records, outcome and final state on two backends, to a tolerance or bit for bit."""
    for each in (backend, reference):
        each.check_every = 2  # divergence is seen at the same steps
    (simulation, found), (expected_simulation, expected) = run(spec, backend), run(spec, reference)
    assert found.outcome.state == expected.outcome.state
    assert np.array_equal(found.outcome.diverged_at, expected.outcome.diverged_at)
    assert {probe for probe, _, _ in found.values} == set(spec.probes)
    assert found.values.keys() == expected.values.keys()
    for key, array in expected.values.items():
        assert found.values[key].dtype == array.dtype == spec.training.dtype, key
        np.testing.assert_allclose(found.values[key], array, tolerance, tolerance, err_msg=str(key))
    state, expected_state = simulation.checkpoint(), expected_simulation.checkpoint()
    assert state.keys() == expected_state.keys()
    for key, array in expected_state.items():
        np.testing.assert_allclose(state[key], array, tolerance, tolerance, err_msg=key)
