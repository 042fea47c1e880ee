"""The checks of a spec's numbers: gradients, determinism, replicas, representations."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from attndyn.conformance.diagnosis import deviation, gradient_fault, near, same
from attndyn.conformance.faults import Failure, Fault
from attndyn.conformance.gradients import central_differences
from attndyn.conformance.trial import Trial, exact, records, with_dtype
from attndyn.data.contexts import REPRESENTATIONS, Contexts
from attndyn.layers.parameters import Parameters
from attndyn.simulation import Simulation

#: random directions of each parameter in which its gradient is checked, besides its own
N_DIRECTIONS = 3
#: half of a difference along a direction of length 1; longer than for a single entry, whose share is larger
STEP = 1e-4
#: largest deviation between representations in float32, relative to the largest entry
SINGLE_LIMIT = 1e-4


def it_runs(trial: Trial) -> Iterator[Failure]:
    """The shortened spec runs to its end, in which no replica diverges."""
    status = trial.run.status
    if status["state"] != "complete":
        detail = f"is {status['state']} after {status['step']} of {status['steps']} steps"
        yield Failure(Fault.NOT_FINITE, "run", detail)


def typical(simulation: Simulation) -> np.ndarray:
    """Parameters `(R, P)`, float64, that keep the stream's size: every term of a gradient counts."""
    scale = simulation.spec.model.d_model**-0.5
    return np.random.default_rng(0).normal(scale=scale, size=simulation.parameters.flat.shape)


def batch(simulation: Simulation, representation: str) -> Contexts:
    """The contexts of step 0."""
    return simulation.data.batch(0, representation).on(simulation.backend)


def evaluate(
    simulation: Simulation, flat: np.ndarray, contexts: Contexts
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Loss `(R,)` and gradients by name at parameters `(R, P)`."""
    parameters = Parameters(simulation.parameters.declared, simulation.backend.asarray(flat))
    return simulation.architecture.loss_and_gradients(parameters, contexts)


def gradients(trial: Trial) -> Iterator[Failure]:
    """Every gradient against central differences in float64, along directions that have all of its entries.

    At the spec's own widths: entry by entry an architecture is checked at small ones, as a plugin.
    """
    simulation = trial.alone
    flat = typical(simulation)
    for representation in exact(simulation):
        contexts = batch(simulation, representation)
        loss, found = evaluate(simulation, flat, contexts)
        rounding = 16 * np.finfo(np.float64).eps * max(1.0, float(np.abs(loss).max())) / STEP
        start = 0
        for parameter in simulation.parameters.declared:
            place = slice(start, start := start + parameter.size)
            gradient = found[parameter.name].reshape(-1)
            directions = _directions(gradient)
            near_by, farther = (
                _along(simulation, flat, contexts, place, directions, step) for step in (STEP, 1.5 * STEP)
            )
            # a unit about to switch makes a quotient worth less; a gross fault shows all the same
            noise = 4 * np.abs(near_by - farther).max()
            floor = max(rounding, min(noise, 1e-2 * np.abs(near_by).max()))
            fault = gradient_fault(
                parameter.name, ("direction",), directions @ gradient, near_by, floor=floor
            )
            if fault:
                yield fault


def _directions(gradient: np.ndarray) -> np.ndarray:
    """Directions `(direction, entry)` of length 1: random ones, and the gradient's own."""
    rows = np.random.default_rng(1).normal(size=(N_DIRECTIONS, gradient.size))
    if np.isfinite(gradient).all() and np.any(gradient):
        rows = np.concatenate([gradient[None], rows])
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def _along(
    simulation: Simulation,
    flat: np.ndarray,
    contexts: Contexts,
    place: slice,
    directions: np.ndarray,
    step: float,
) -> np.ndarray:
    """Derivatives of the loss along directions of the entries at `place`, by central differences."""
    shift = np.zeros(len(directions))

    def loss() -> float:
        moved = flat.copy()
        moved[0, place] += shift @ directions
        return float(evaluate(simulation, moved, contexts)[0][0])

    return central_differences(loss, shift, step)


def deterministic(trial: Trial) -> Iterator[Failure]:
    """Two runs of the spec record the same bits."""
    first, second = records(trial.spec), records(trial.spec)
    for name, array in first.items():
        if not np.array_equal(array, second[name], equal_nan=True):
            yield Failure(Fault.RANDOM, name, "differs between two runs of the same spec")


def replicas(trial: Trial) -> Iterator[Failure]:
    """The first and the last replica record alone what they record among others, to rounding (float64)."""
    together = records(trial.precise)
    specs = trial.precise.replicas_expanded().specs
    for replica in (0, len(specs) - 1):
        alone = records(specs[replica])
        for name, array in together.items():
            if len(array) != len(specs):
                yield Failure(Fault.LOST_REPLICA, name, f"has {len(array)} of {len(specs)} replicas")
            elif not same(array[replica], alone[name][0]):
                by = deviation(array[replica], alone[name][0])
                detail = f"of replica {replica} differs {by} from what it is alone"
                yield Failure(Fault.MIXED_REPLICAS, name, detail)


def representations(trial: Trial) -> Iterator[Failure]:
    """Every exact representation gives the same loss and gradients, in float64 and in the spec's dtype."""
    yield from _agree(trial.alone, 1e-12)
    if trial.spec.training.dtype == "float32":
        first = with_dtype(trial.spec, "float32").replicas_expanded().specs[0]
        yield from _agree(Simulation(first, "numpy"), SINGLE_LIMIT)


def _agree(simulation: Simulation, limit: float) -> Iterator[Failure]:
    # positions are the definition; what is not exact differs from them
    reference, *others = sorted(exact(simulation), key=REPRESENTATIONS.index, reverse=True)
    flat = typical(simulation)
    expected = _parts(simulation, flat, reference)
    for representation in others:
        for subject, array in _parts(simulation, flat, representation).items():
            if not near(array, expected[subject], limit, limit):
                by = deviation(array, expected[subject])
                detail = f"differs {by} between the representations {representation} and {reference}"
                yield Failure(Fault.NOT_EXACT, subject, f"{detail}, in {simulation.backend.dtype}")
                break  # where the loss differs, so do its gradients


def _parts(simulation: Simulation, flat: np.ndarray, representation: str) -> dict[str, np.ndarray]:
    loss, found = evaluate(simulation, flat, batch(simulation, representation))
    return {"loss": loss} | {f"gradient of {name}": array for name, array in found.items()}
