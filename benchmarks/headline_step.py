"""The headline step of `specs/paper/figure2.yaml`, here and in PyTorch, side by side in one process.

    pip install -e '.[dev]'
    OMP_NUM_THREADS=2 python benchmarks/headline_step.py

The same loss and gradients on the same batch are checked first. Then both sides take turns, round by round;
what is printed are medians over rounds, of times and of their ratios. Our step is the engine's own run loop
without probes; with sampling, each side draws a fresh batch every step in its own way.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from step_rates import HEADLINE, fix_batch

from attndyn import load_spec
from attndyn.simulation import Simulation

TOLERANCE = {"float64": 1e-10, "float32": 1e-4}


def headline(dtype: str, fixed_batch: bool) -> Simulation:
    """The headline run with one replica and no probes; with a fixed batch it never samples again."""
    overrides = ("replicas.seeds=1", "expect=[]", "analyzers=[]", "probes={}", "training.steps=1000000")
    simulation = Simulation(load_spec(HEADLINE, (*overrides, f"training.dtype={dtype}")), "numpy")
    if fixed_batch:
        fix_batch(simulation)
    return simulation


def first_batch(simulation: Simulation) -> tuple[np.ndarray, np.ndarray]:
    """The batch of step 0 as the usual code wants it: contexts `(B, s)` and next tokens `(B,)`."""
    contexts = simulation.data.batch(0, "positions")
    assert contexts.keys is not None
    return contexts.keys[0].T.astype(np.int64), contexts.targets[0, 0].astype(np.int64)


def weights(simulation: Simulation) -> dict[str, np.ndarray]:
    """Parameters of the only replica, without layer and head."""
    return {name: w[0].reshape(w.shape[-2:]).copy() for name, w in simulation.parameters.items()}


def advance(simulation: Simulation, steps: int) -> None:
    """That many steps of the run loop."""
    end = simulation.step + steps
    simulation.run(interrupted=lambda: simulation.step >= end)


def check_equal(dtype: str) -> str:
    """Loss and gradients of both sides on one batch, away from the start where most gradients vanish.

    Raises:
        SystemExit: they differ by more than rounding.
    """
    import torch
    import torch_model

    simulation = headline(dtype, fixed_batch=True)
    noise = np.random.default_rng(0).normal(size=simulation.parameters.flat.shape)
    simulation.parameters.flat[...] = 0.3 * noise
    loss = float(simulation.evaluate(0)[0])
    tokens, targets = map(torch.from_numpy, first_batch(simulation))
    worst = 0.0
    for last_query in (False, True):
        theirs = torch_model.Training(weights(simulation), lr=1e-3, last_query=last_query)
        differences = [abs(theirs.loss(tokens, targets).item() - loss) / loss]
        for name, gradient in theirs.gradients().items():
            ours = simulation.gradients[name].reshape(gradient.shape)
            differences.append(float(np.abs(ours - gradient).max() / np.abs(gradient).max()))
        worst = max(worst, *differences)
    if not worst <= TOLERANCE[dtype]:
        raise SystemExit(f"{dtype}: loss or gradients differ by {worst:.1e}; nothing was timed")
    return f"{dtype}: loss {loss:.6f} on both sides; largest relative difference of gradients {worst:.1e}"


def sides(dtype: str) -> dict[str, tuple[int, Callable[[int], object]]]:
    """What is timed: how many steps a round, and a function that takes so many."""
    import torch
    import torch_model

    fixed, sampled = headline(dtype, fixed_batch=True), headline(dtype, fixed_batch=False)
    data, options = sampled.data, sampled.spec.data
    tokens, targets = map(torch.from_numpy, first_batch(fixed))
    pi, transition = torch.from_numpy(data.pi[0].copy()), torch.from_numpy(data.transition[0].copy())
    lr = sampled.spec.optimizer.lr  # type: ignore[attr-defined]
    full, last, drawing, last_drawing = (
        torch_model.Training(weights(fixed), lr, last_query) for last_query in (False, True) * 2
    )

    def fresh() -> Any:
        return torch_model.sample(pi, transition, options.n_ctx, options.batch)

    def repeat(step: Callable[[], object]) -> Callable[[int], object]:
        return lambda n: [step() for _ in range(n)]

    return {
        "ours": (400, lambda n: advance(fixed, n)),
        "ours, sampling": (100, lambda n: advance(sampled, n)),
        "PyTorch": (2, repeat(lambda: full.step(tokens, targets))),
        "PyTorch, sampling": (2, repeat(lambda: drawing.step(*fresh()))),
        "PyTorch, last query": (4, repeat(lambda: last.step(tokens, targets))),
        "PyTorch, last query, sampling": (4, repeat(lambda: last_drawing.step(*fresh()))),
    }


def measure(dtype: str, rounds: int) -> dict[str, list[float]]:
    """Milliseconds a step of every side, round by round; the first round is a warm-up and is left out."""
    found: dict[str, list[float]] = {}
    every = sides(dtype)
    for round_ in range(rounds + 1):
        for name, (steps, take) in every.items():
            begun = time.perf_counter()
            take(steps)
            if round_:
                found.setdefault(name, []).append((time.perf_counter() - begun) / steps * 1e3)
    return found


def report(times: dict[str, list[float]]) -> None:
    """Medians of the times, and of the ratios of a round's times."""
    for name, milliseconds in times.items():
        ours = times["ours, sampling" if name.endswith("sampling") else "ours"]
        ratios = [theirs / mine for theirs, mine in zip(milliseconds, ours, strict=True)]
        ratio = f"{statistics.median(ratios):8.0f} x  ({min(ratios):.0f} to {max(ratios):.0f})"
        print(
            f"  {name:32}{statistics.median(milliseconds):9.3f} ms" + (ratio if ours != milliseconds else "")
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--dtypes", nargs="+", default=["float64", "float32"], choices=TOLERANCE)
    arguments = parser.parse_args()
    try:
        import torch
    except ImportError:
        raise SystemExit("PyTorch is needed to compare with: pip install -e '.[dev]'") from None
    print(
        f"Python {platform.python_version()}, NumPy {np.__version__}, PyTorch {torch.__version__}, "
        f"{os.cpu_count()} cores, {torch.get_num_threads()} threads"
    )
    for dtype in arguments.dtypes:
        print(check_equal(dtype))
        report(measure(dtype, arguments.rounds))


if __name__ == "__main__":
    main()
