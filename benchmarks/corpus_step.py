"""A training step on text with a vocabulary of 2000, here and in PyTorch, side by side in one process.

    pip install -e '.[dev]'
    OMP_NUM_THREADS=2 python benchmarks/corpus_step.py

One causal layer of one head, d_model 128, 64 contexts of 64 tokens, the loss at all positions: most of the
work is logits and cross-entropy over 2000 tokens at 4096 places. The text is made here, of words as frequent
as Zipf's law has them. How sides are compared and timed is told in `dense_step`.
"""

from __future__ import annotations

import numpy as np
from dense_step import main
from step_rates import fix_batch

from attndyn.simulation import Simulation
from attndyn.spec import parse_spec

D_VOCAB = 2000
SPEC = """
name: corpus-step
data:
  kind: corpus
  source: {{kind: text, text: {text}}}
  tokenizer: {{kind: word, size: {d_vocab}}}
  n_ctx: 64
  batch: 64
model: {{architecture: transformer, d_model: 128, attention: causal, init: {{std: 0.05}}}}
optimizer: {{kind: adam, lr: 1e-3}}
training: {{steps: 1000000, dtype: {dtype}, loss_positions: all}}
probes: {{}}
"""


def text(n: int = 60_000) -> str:
    """Words w0, w1, … with probabilities as 1, 1/2, 1/3, …; each at least twice."""
    weights = 1 / np.arange(1, D_VOCAB + 1)
    drawn = np.random.default_rng(0).choice(D_VOCAB, n, p=weights / weights.sum())
    return " ".join(f"w{word}" for word in [*drawn, *range(D_VOCAB), *range(D_VOCAB)])


def corpus(dtype: str) -> Simulation:
    """The run, with one replica, one batch and no probes."""
    simulation = Simulation(parse_spec(SPEC.format(text=text(), d_vocab=D_VOCAB, dtype=dtype)), "numpy")
    fix_batch(simulation)
    return simulation


if __name__ == "__main__":
    main(__doc__, corpus)
