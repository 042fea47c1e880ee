"""A claim of the focus-dilution cycle holds, and no longer does once what it rests on is taken away."""

import pytest

from attndyn import registry
from attndyn.conformance.suite import Suite

SPEC = """
name: short-cycle
plugins: [spoilt.py]
data:
  kind: markov
  stationary: {kind: geometric, d_vocab: 4, ratio: 0.25}
  transition: {kind: sticky, lam: 0.5}
  n_ctx: 64
  batch: 500
model: {architecture: pure_attention, d_model: 64}
optimizer: {kind: adam, lr: 1.0e-3}
training: {steps: 900}
replicas: {seeds: 2}
probes: {loss: {every: 5}, attention: {every: 5}, parameters: {every: 10}}
analyzers: [stages]
expect:
  - kind: stages
    id: cycle
    claim: condensation, focus on the most frequent token and its dilution; then its embedding has its own way
    source: the paper, section 4
    order: [condensation_end, focus_onset, focus_peak, dilution_onset, direction_0]
  - kind: value
    id: itself
    claim: in the end the rarest token attends to itself
    source: the paper, figure 2
    of: {probe: attention, variable: attention, labels: {query: "3", key: "3"}, at: last}
    relation: at_least
    number: 0.2
"""

PLUGINS = '''
from typing import Literal

import numpy as np

from attndyn import registry
from attndyn.data.markov import MarkovData
from attndyn.data.options import MarkovOptions
from attndyn.optim.adam import Adam, AdamMoments


class ShuffledOptions(MarkovOptions):
    """Those of markov."""

    kind: Literal["shuffled"] = "shuffled"


@registry.data("shuffled")
class Shuffled(MarkovData):
    """The same contexts, each with its positions and the token after them in random order."""

    Options = ShuffledOptions

    def _sample(self, step, n_contexts):
        tokens = super()._sample(step, n_contexts)
        return np.random.default_rng(step).permuted(tokens, axis=0)


class UphillOptions(AdamMoments):
    """Those of Adam."""

    kind: Literal["uphill"] = "uphill"


@registry.optimizer("uphill")
class Uphill(Adam):
    """Adam that is given gradients of the wrong sign."""

    Options = UphillOptions

    def advance(self, parameters, gradients, step, gradient):
        """One step the wrong way."""
        super().advance(parameters, -gradients, step, gradient)
'''


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory):
    """Verdicts of the spec with some changes, by the id of the expectation."""
    folder = tmp_path_factory.mktemp("flips")
    (folder / "cycle.yaml").write_text(SPEC, "utf-8")
    (folder / "spoilt.py").write_text(PLUGINS, "utf-8")
    suite = Suite(folder / "runs", "numpy")

    def judge(*overrides):
        with registry.isolated():
            found = suite.judge(folder / "cycle.yaml", overrides).findings
        return {finding.id: finding.verdict for finding in found}

    return judge


BOTH = {"cycle": "holds", "itself": "holds"}
NEITHER = {"cycle": "does not hold", "itself": "does not hold"}


def test_both_hold(verdicts):
    assert verdicts() == BOTH


def test_shuffled_in_time(verdicts):
    """Focus and dilution are there all the same; what is not is what hangs on which token follows which."""
    assert verdicts("data.kind=shuffled") == NEITHER


def test_the_wrong_token(verdicts):
    assert verdicts("expect.1.of.labels.key='0'") == BOTH | {"itself": "does not hold"}


def test_the_wrong_order(verdicts):
    order = "[condensation_end, focus_peak, focus_onset]"
    assert verdicts(f"expect.0.order={order}") == BOTH | {"cycle": "does not hold"}


def test_the_wrong_sign(verdicts):
    assert verdicts("optimizer.kind=uphill") == NEITHER
