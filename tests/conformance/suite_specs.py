"""Tiny specs with claims, and a plugin that ends the process in the middle of a run, once."""

TINY = """
name: {name}
data:
  kind: markov
  stationary: {{kind: geometric, d_vocab: 3, ratio: 0.4}}
  transition: {{kind: sticky, lam: 0.5}}
  n_ctx: 8
  batch: 5
model: {{architecture: pure_attention, d_model: 4}}
optimizer: {{kind: adam, lr: 1e-2}}
training: {{steps: 20}}
replicas: {{seeds: 3}}
probes: {{loss: {{every: 1}}, attention: {{every: 5}}, parameters: {{every: 5}}}}
{more}expect:
  - kind: value
    id: {id}
    claim: {claim}
    source: test
    of: {{probe: loss, variable: loss, at: last}}
    relation: at_most
    number: {number}
    verdict: {verdict}
"""


def tiny(name="tiny", id="small-loss", claim="the loss is small", number=1.05, verdict="holds", more=""):
    """A spec of a run of milliseconds; its loss ends near 1.01, 0.96 and 0.95 nats in its three seeds."""
    return TINY.format(name=name, id=id, claim=claim, number=number, verdict=verdict, more=more)


MORTAL = '''
import os
import signal
from pathlib import Path
from typing import Literal

from attndyn import registry
from attndyn.optim.adam import Adam, AdamMoments

TOLD = Path(__file__).with_name("die")


class MortalOptions(AdamMoments):
    """Those of Adam."""

    kind: Literal["mortal"] = "mortal"


@registry.optimizer("mortal")
class Mortal(Adam):
    """Adam that at step 10 sends the process the signal whose number is in the file `die`, once."""

    Options = MortalOptions

    def advance(self, parameters, gradients, step, gradient):
        """One step, perhaps the last one."""
        if step == 10 and TOLD.is_file():
            number = int(TOLD.read_text())
            TOLD.unlink()
            os.kill(os.getpid(), number)
        super().advance(parameters, gradients, step, gradient)
'''
