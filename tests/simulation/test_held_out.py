"""The held-out loss: against a model written out by hand, and against the loss on the very same contexts."""

import numpy as np
import pytest

from attndyn.conformance.trial import records
from attndyn.errors import SpecError
from attndyn.simulation import Simulation
from attndyn.simulation.probe import State
from attndyn.spec import load_spec, parse_spec

WORDS = [f"w{i * i % 11}" for i in range(41)]
SPEC = """name: held
data:
  kind: corpus
  source: {{kind: text, text: "{text}"}}
  tokenizer: {{kind: word, size: 20}}
  windows: sequential
  n_ctx: 5
  batch: 8
  held_out: 0.5
model: {{architecture: {architecture}, d_model: 4, attention: causal, init: {{std: 0.7}}}}
optimizer: {{kind: gd, lr: 0.5}}
training: {{steps: 3, loss_positions: {positions}}}
replicas: {{seeds: 2}}
probes: {{loss: {{every: 1}}, held_out: {{every: 1}}}}
"""


def spec(words, *overrides, architecture="pure_attention", positions="all"):
    text = SPEC.format(text=" ".join(words), architecture=architecture, positions=positions)
    return parse_spec(text, "held.yaml", overrides)


def measured(simulation):
    state = State(0, simulation.parameters, simulation.gradients, np.zeros(2))
    return simulation.probes["held_out"].measure(state)["held_out_loss"]


@pytest.mark.parametrize("positions", ["last", "all"])
def test_against_a_model_by_hand(positions):
    simulation = Simulation(spec([*WORDS, *WORDS[::-1]], positions=positions), "numpy")
    place = {label: i for i, label in enumerate(simulation.data.tokens)}
    tokens = np.array([place[word] for word in WORDS[::-1]])
    for replica, found in enumerate(measured(simulation)):
        w_0, w_1, w_q, w_k = (
            simulation.parameters[name][replica].reshape(shape)
            for name, shape in (("W_0", (-1, 4)), ("W_1", (4, -1)), ("W_Q", (4, 4)), ("W_K", (4, 4)))
        )
        surprise = []
        for start in range(0, 40, 5):
            for i in range(4 if positions == "last" else 0, 5):
                x = w_0[tokens[start : start + i + 1]]
                a = np.exp(x[-1] @ w_q @ w_k.T @ x.T / 2)
                logits = a / a.sum() @ x @ w_1
                surprise.append(np.log(np.exp(logits).sum()) - logits[tokens[start + i + 1]])
        assert found == pytest.approx(np.mean(surprise), rel=1e-12)


@pytest.mark.parametrize("architecture", ["pure_attention", "residual", "transformer"])
@pytest.mark.parametrize("positions", ["last", "all"])
def test_on_the_contexts_of_a_step_it_is_the_loss(architecture, positions):
    """A text that comes twice, its second half held out: every window of both is seen at every step."""
    found = records(spec(WORDS * 2, architecture=architecture, positions=positions))
    np.testing.assert_allclose(found["held_out/held_out_loss"], found["loss/loss"], rtol=1e-12)
    assert (np.abs(np.diff(found["loss/loss"], axis=1)) > 1e-4).all()


def test_what_was_never_seen_stays_a_surprise():
    """What follows a token in the held-out half never follows it in the other."""
    found = records(spec(["a", "b", "c"] * 20 + ["c", "b", "a"] * 20, "training.steps=100"))
    assert (found["loss/loss"][:, -1] < 0.2).all()
    assert (found["held_out/held_out_loss"][:, -1] > 2.0).all()


def test_parts_change_nothing(monkeypatch):
    whole = measured(Simulation(spec(WORDS * 2), "numpy"))
    three_contexts = 3 * 2 * 5 * len(set(WORDS))
    monkeypatch.setattr("attndyn.simulation.probes.held_out.PART_ENTRIES", three_contexts)
    simulation = Simulation(spec(WORDS * 2), "numpy")
    np.testing.assert_allclose(measured(simulation), whole, rtol=1e-13)
    assert [part.n_contexts for part in simulation.probes["held_out"]._parts] == [3, 3, 2]


def test_no_more_contexts_than_asked_for():
    simulation = Simulation(spec(WORDS * 2, "probes.held_out.contexts=3"), "numpy")
    (part,) = simulation.probes["held_out"]._parts
    assert part.n_contexts == 3
    np.testing.assert_allclose(part.sample_weights, 1 / (3 * 5))
    assert not np.allclose(measured(simulation), measured(Simulation(spec(WORDS * 2), "numpy")))


# -- what cannot be ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.0, 0.05])
def test_nothing_held_out_is_one_line_at_the_probe(tmp_path, share):
    file = tmp_path / "held.yaml"
    text = SPEC.format(text=" ".join(WORDS * 2), architecture="pure_attention", positions="all")
    file.write_text(text.replace("held_out: 0.5", f"held_out: {share}"))
    with pytest.raises(SpecError) as caught:
        _ = Simulation(load_spec(file), "numpy").probes
    wanted = f"{file}:14:38: probes.held_out: no context of the text is held out: data.held_out is {share:g}"
    assert str(caught.value) == wanted


def test_a_chain_holds_nothing_out(small):
    made = small("probes={held_out: {every: 1}}")
    with pytest.raises(SpecError, match=r"probes.held_out: needs data of which a part is held out; 'markov'"):
        _ = Simulation(made, "numpy").probes
