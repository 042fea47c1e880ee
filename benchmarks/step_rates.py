"""Steps per second of the engine on each backend that can be used here: `python benchmarks/step_rates.py`.

A step is loss, gradients, update and the look for divergence, without records. With sampling, each step draws
its contexts on the host; without, one batch is used over and over.
"""

from __future__ import annotations

import time
from pathlib import Path

from attndyn import load_spec
from attndyn.backend.cupy_backend import unusable
from attndyn.simulation import Simulation

HEADLINE = Path(__file__).parents[1] / "specs/paper/figure2.yaml"
SECONDS = 3.0
CASES = {
    "headline, 1 replica": ("replicas.seeds=1",),
    "headline, 64 replicas": ("replicas.seeds=64",),
    "d_model 1024, 1 replica": ("replicas.seeds=1", "model.d_model=1024"),
}


def rate(simulation: Simulation, seconds: float = SECONDS) -> float:
    """Steps per second of the run loop without records, measured for that long after a warm-up."""
    run_to(simulation, simulation.step + 3)
    begun, first = time.perf_counter(), simulation.step
    simulation.run(interrupted=lambda: time.perf_counter() - begun > seconds)
    wait_for_device(simulation)
    return (simulation.step - first) / (time.perf_counter() - begun)


def run_to(simulation: Simulation, step: int) -> None:
    simulation.run(interrupted=lambda: simulation.step >= step)
    wait_for_device(simulation)


def fix_batch(simulation: Simulation) -> None:
    """From now on every step sees the batch of step 0."""
    contexts = simulation.contexts(0)
    simulation.contexts = lambda step: contexts  # type: ignore[method-assign]


def wait_for_device(simulation: Simulation) -> None:
    simulation.backend.to_host(simulation.parameters.flat[:, 0])


def main() -> None:
    backends = ["numpy"] + ([] if unusable() else ["cupy"])
    print(f"{'':26}{'backend':>8}{'with sampling':>16}{'without':>12}   steps/s")
    for name, overrides in CASES.items():
        for backend in backends:
            # more steps than the fastest machine takes
            quiet = ("expect=[]", "analyzers=[]", "probes={}")
            spec = load_spec(HEADLINE, (*overrides, *quiet, "training.steps=1000000"))
            simulation = Simulation(spec, backend)
            with_sampling = rate(simulation)
            fix_batch(simulation)
            print(f"{name:26}{backend:>8}{with_sampling:16.1f}{rate(simulation):12.1f}", flush=True)


if __name__ == "__main__":
    main()
