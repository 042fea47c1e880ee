"""Gradient descent beside gradient flow: how far apart they are at equal times, and with which power of lr.

One step of gradient descent is an Euler step of the flow, so at a fixed time θ_gd − θ_flow = O(lr). What
flow conserves changes in a step by lr² Q(∇L), Q its quadratic part: it too drifts by O(lr) in a fixed time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attndyn.errors import AttndynError
from attndyn.simulation import Simulation
from attndyn.spec import Spec, parse_spec
from attndyn.theory.conservation import laws


@dataclass(frozen=True)
class Comparison:
    """Gradient descent at several learning rates against flow, all at one time.

    Attributes:
        rates: learning rates, shape (lr,).
        distance: ‖θ_gd − θ_flow‖ / ‖θ_flow‖, shape (lr,).
        loss: loss of gradient descent minus that of flow, in nats, shape (lr,).
        drift: largest drift of each conservation law from its initial value, shape (lr,).
        flow_drift: the same under flow.
    """

    rates: np.ndarray
    distance: np.ndarray
    loss: np.ndarray
    drift: dict[str, np.ndarray]
    flow_drift: dict[str, float]


def against_flow(spec: Spec, rates: Sequence[float], time: float) -> Comparison:
    """Gradient descent at every learning rate, and flow at rtol 1e-11, from one start to one time.

    Args:
        spec: of one replica and of regime population; its optimizer and length do not matter.
        rates: learning rates, each a whole part of `time`.
        time: sum of the learning rates, time of the flow.

    Raises:
        AttndynError: a learning rate does not divide the time, or the spec has several replicas.
    """
    if spec.replicas.count() != 1:
        raise AttndynError(f"{spec.name}: has {spec.replicas.count()} replicas; give a spec with one")
    steps = [round(time / rate) for rate in rates]
    for rate, n in zip(rates, steps, strict=True):
        if n < 1 or abs(n * rate - time) > 1e-9 * time:
            raise AttndynError(f"{spec.name}: the time {time} is no whole number of steps of {rate}")
    flow = _ran(spec, "{kind: flow, rtol: 1.0e-11, atol: 1.0e-14}", f"{{time: {time}, steps: 1}}")
    runs = [
        _ran(spec, f"{{kind: gd, lr: {rate}}}", f"{{steps: {n}}}")
        for rate, n in zip(rates, steps, strict=True)
    ]
    end, loss = flow.parameters.flat, flow.evaluate(flow.step)
    size = np.linalg.norm(end)
    drifts = [_drift(run) for run in runs]
    return Comparison(
        rates=np.array(rates),
        distance=np.array([np.linalg.norm(run.parameters.flat - end) / size for run in runs]),
        loss=np.array([float((run.evaluate(run.step) - loss)[0]) for run in runs]),
        drift={name: np.array([drift[name] for drift in drifts]) for name in drifts[0]},
        flow_drift=_drift(flow),
    )


def _ran(spec: Spec, optimizer: str, training: str) -> Simulation:
    """The finished simulation of a spec with another optimizer, nothing recorded but the ends."""
    changes = (f"optimizer={optimizer}", f"training={training}", "probes={loss: {steps: [0]}}")
    changed = parse_spec(spec.to_yaml(), spec.name, (*changes, "analyzers=[]", "expect=[]"))
    simulation = Simulation(changed, "numpy")
    simulation.run()
    return simulation


def _drift(simulation: Simulation) -> dict[str, float]:
    start = Simulation(simulation.spec, simulation.backend).parameters
    both = start, simulation.parameters
    return {
        law.name: float(np.abs(np.subtract(*map(law.evaluate, both))).max())
        for law in laws(simulation.architecture)
    }
