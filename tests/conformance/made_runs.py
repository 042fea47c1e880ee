"""Runs made by hand, whose numbers are known, and what expectations make of them."""

import numpy as np
import xarray as xr

from attndyn.conformance.expectation import Evidence
from attndyn.conformance.measured import Measured
from attndyn.conformance.verdicts import finding
from attndyn.registry import get
from attndyn.spec import parse_spec

SPEC = """
name: made
data:
  kind: markov
  stationary: {kind: geometric, d_vocab: 3, ratio: 0.5}
  transition: {kind: sticky, lam: 0.5}
model: {architecture: pure_attention, d_model: 4}
optimizer: {kind: gd, lr: 0.1}
training: {steps: 100}
probes: {loss: {every: 1}, attention: {every: 1}}
"""
COMMON = {"id": "x", "claim": "so it is", "source": "test"}


def made(loss, lr=None, seeds=None, attention=None, overrides=(), asked=None, representation="counts"):
    """A run whose loss is given, `(replica, step)`, with a record every ten steps, of `asked` steps."""
    loss = np.atleast_2d(np.asarray(loss, float))
    n, steps = loss.shape
    step = ("step", 10 * np.arange(steps))
    coords = {
        "replica": np.arange(n),
        "seed": ("replica", np.arange(n) if seeds is None else np.asarray(seeds)),
    }
    if lr is not None:
        coords["lr"] = ("replica", np.asarray(lr, float), {"long_name": "varied: optimizer.lr"})
    groups = {
        "/": xr.Dataset(coords=coords),
        "/loss": xr.Dataset(
            {"loss": (("replica", "step"), loss, {"units": "nats", "long_name": "loss", "valid_min": 0.0})},
            {"step": step},
        ),
    }
    if attention is not None:
        dims = ("replica", "step", "layer", "head", "query", "key")
        labels = [str(i) for i in range(np.shape(attention)[-1])]
        groups["/attention"] = xr.Dataset(
            {
                "attention": (
                    dims,
                    np.asarray(attention, float),
                    {"units": "1", "long_name": "attention", "valid_min": 0.0, "valid_max": 1.0},
                )
            },
            {"step": step, "query": labels, "key": labels},
        )
    steps = f"training.steps={max(1, 10 * (loss.shape[1] - 1)) if asked is None else asked}"
    tree = xr.DataTree.from_dict(groups)
    tree.attrs.update(representation=representation)
    return Measured(parse_spec(SPEC, overrides=[steps, *overrides]), tree)


def options(kind, **given):
    """Valid options of a kind."""
    return get("expectation", kind).Options.model_validate({"kind": kind, **COMMON, **given})


def judged(kind, own, others=(), **given):
    """The finding on a run; `others` are those that its references mean, in their order."""
    valid = options(kind, **given)
    expectation = get("expectation", kind)(valid)
    runs = dict(zip((str(reference) for reference in expectation.references()), others, strict=True))
    judgement = expectation.judge(Evidence(own, lambda reference: runs[str(reference)]))
    return finding(valid, judgement)
