"""A training step of a deep causal transformer, here and in PyTorch, side by side in one process.

    pip install -e '.[dev]'
    OMP_NUM_THREADS=2 python benchmarks/dense_step.py

8 layers of 8 heads, d_model 64, 64 contexts of 64 tokens, the loss at all positions: nothing of it can be
reduced to counts. The same loss and gradients on the same batch are checked first. Then all sides take turns,
round by round; what is printed are medians over rounds, of times and of their ratios. A step is loss,
gradients and Adam, on the same batch each time.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import time
from collections.abc import Callable

import numpy as np
from headline_step import TOLERANCE, advance
from step_rates import HEADLINE, fix_batch

from attndyn import load_spec
from attndyn.simulation import Simulation

DENSE = (
    "model={architecture: transformer, layers: 8, heads: 8, d_model: 64, attention: causal}",
    "model.init={std: 0.1}",
    "training.loss_positions=all",
    "data.n_ctx=64",
    "data.batch=64",
    "replicas.seeds=1",
    "expect=[]",
    "analyzers=[]",
    "probes={}",
    "training.steps=1000000",
)


def dense(dtype: str) -> Simulation:
    """The run, with one replica, one batch and no probes."""
    simulation = Simulation(load_spec(HEADLINE, (*DENSE, f"training.dtype={dtype}")), "numpy")
    fix_batch(simulation)
    return simulation


def batch(simulation: Simulation) -> tuple[np.ndarray, np.ndarray]:
    """The batch as the usual code wants it: contexts and next tokens, both `(B, n)`."""
    contexts = simulation.contexts(0)
    assert contexts.keys is not None
    return contexts.keys[0].T.astype(np.int64), contexts.targets[0].T.astype(np.int64)


def sides(
    dtype: str, run: Callable[[str], Simulation] | None = None
) -> tuple[str, dict[str, Callable[[], object]]]:
    """A line that says that all compute the same, and what is timed: functions that take a step.

    Args:
        dtype: of the arithmetic.
        run: makes the run from it, by default `dense`; a causal transformer, the loss at all positions.

    Raises:
        SystemExit: loss or gradients differ by more than rounding.
    """
    import torch
    from torch_transformer import Training

    simulation = (run or dense)(dtype)
    tokens, targets = map(torch.from_numpy, batch(simulation))
    initial = {name: w[0].copy() for name, w in simulation.parameters.items()}
    lr = simulation.spec.optimizer.lr  # type: ignore[attr-defined]
    theirs = {
        "PyTorch, scaled_dot_product_attention": Training(initial, lr, fused=True),
        "PyTorch, explicit softmax": Training(initial, lr, fused=False),
    }
    loss = float(simulation.evaluate(0)[0])
    gradients = {name: g[0] for name, g in simulation.gradients.items()}
    worst = 0.0
    for training in theirs.values():
        difference = abs(training.loss(tokens, targets).item() - loss) / loss
        worst = max(worst, difference, *training.differences(gradients))
    if not worst <= TOLERANCE[dtype]:
        raise SystemExit(f"{dtype}: loss or gradients differ by {worst:.1e}; nothing was timed")
    said = f"{dtype}: loss {loss:.6f} on all sides; largest relative difference of gradients {worst:.1e}"
    return said, {
        "ours": lambda: advance(simulation, 1),
        **{name: (lambda t=training: t.step(tokens, targets)) for name, training in theirs.items()},
    }


def measure(every: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Milliseconds of a step of every side, round by round, after two rounds of warm-up."""
    found: dict[str, list[float]] = {name: [] for name in every}
    for round_ in range(rounds + 2):
        for name, step in every.items():
            begun = time.perf_counter()
            step()
            if round_ >= 2:
                found[name].append((time.perf_counter() - begun) * 1e3)
    return found


def report(times: dict[str, list[float]]) -> None:
    """Medians of the times, and of the ratios of a round's times."""
    for name, milliseconds in times.items():
        ratios = sorted(theirs / mine for theirs, mine in zip(milliseconds, times["ours"], strict=True))
        low, high = ratios[len(ratios) // 10], ratios[-1 - len(ratios) // 10]
        ratio = f"{statistics.median(ratios):8.2f} x  ({low:.2f} to {high:.2f})" if name != "ours" else ""
        print(f"  {name:40}{statistics.median(milliseconds):9.1f} ms{ratio}")


def main(title: str = __doc__, run: Callable[[str], Simulation] | None = None) -> None:
    parser = argparse.ArgumentParser(description=title.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--dtypes", nargs="+", default=["float32", "float64"], choices=TOLERANCE)
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
        said, every = sides(dtype, run)
        print(said)
        report(measure(every, arguments.rounds))


if __name__ == "__main__":
    main()
