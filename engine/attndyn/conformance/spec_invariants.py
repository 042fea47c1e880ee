"""The checks of what is true of any correct run: normalisation, bounds, and what gradient flow conserves."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from attndyn.conformance.diagnosis import deviation, near
from attndyn.conformance.faults import Failure, Fault
from attndyn.conformance.spec_numbers import batch, evaluate, typical
from attndyn.conformance.trial import Trial, exact, lively, records
from attndyn.layers.parameters import Parameters
from attndyn.optim.flow import GradientFlowOptions
from attndyn.simulation import Simulation
from attndyn.theory.conservation import laws

#: standard deviation of the initial weights of a flow whose conserved matrices are watched
LIVELY = 0.3
#: steps of the integrator's own that a short flow may take
INNER_STEPS = 100
#: largest change of a law along the gradient, relative to its largest entry: rounding, of many terms
LAW_LIMIT = 1e-10


def probabilities(trial: Trial) -> Iterator[Failure]:
    """π and the rows of P sum to 1, π is stationary; rows of the attention sum to 1, none is negative."""
    root = trial.run.trajectory
    pi = root["pi"].to_numpy()
    yield from _rows_sum_to_1("pi", pi, 1e-12)
    if "transition" in root.coords:
        transition = root["transition"].to_numpy()
        yield from _rows_sum_to_1("transition", transition, 1e-12)
        moved = np.einsum("rt,rtn->rn", pi, transition)
        if not near(moved, pi, 1e-9):
            detail = f"is not stationary: P changes it {deviation(moved, pi)}"
            yield Failure(Fault.NOT_NORMALISED, "pi", detail)
    yield from _attention(trial, 1e-5 if trial.spec.training.dtype == "float32" else 1e-12)


def _attention(trial: Trial, limit: float) -> Iterator[Failure]:
    """The map and its entropy; rows are NaN, throughout, of tokens that the probe's batch lacks."""
    recorded = trial.run.trajectory["attention"]
    attention, entropy = recorded["attention"].to_numpy(), recorded["entropy"].to_numpy()
    # (replica, query): whether the token was there, at any step, layer, head, key
    there = ~np.isnan(attention).all(axis=(1, 2, 3, 5))
    sampled = "population" not in exact_for_architecture(trial)
    if not there.all() and not (sampled and there.any()):
        yield Failure(Fault.NOT_FINITE, "attention", "has rows of NaN")
        return
    by_token = attention.transpose(0, 4, 1, 2, 3, 5)[there]
    yield from _rows_sum_to_1("attention", by_token, limit)
    found = entropy.transpose(0, 4, 1, 2, 3)[there]
    most = np.log(len(trial.alone.data.tokens))
    if not (found.min() >= -limit and found.max() <= most + limit):
        detail = f"is from {found.min():.3g} to {found.max():.3g} nats; allowed: 0 to log d = {most:.3g}"
        yield Failure(Fault.NOT_NORMALISED, "entropy", detail)


def exact_for_architecture(trial: Trial) -> tuple[str, ...]:
    """Representations that the architecture takes without loss, whatever the data."""
    return trial.alone.architecture.representations(trial.spec.training.loss_positions)


def _rows_sum_to_1(subject: str, array: np.ndarray, limit: float) -> Iterator[Failure]:
    off = float(np.abs(array.sum(axis=-1) - 1).max())
    if not (off <= limit and array.min() >= 0):
        detail = f"has rows whose sum is off 1 by {off:.2g}, or negative entries"
        yield Failure(Fault.NOT_NORMALISED, subject, detail)


def unembedding(trial: Trial) -> Iterator[Failure]:
    """What softmax and cross-entropy imply where logits are linear in an unembedding W_1 (model, next_token).

    Shifting all logits changes nothing: rows of the gradient sum to 0. The loss is convex in W_1 and log d
    at W_1 = 0, so that it lies between the tangents: log d + ⟨G(0), W_1⟩ ≤ L ≤ log d + ⟨G(W_1), W_1⟩.
    """
    simulation = trial.alone
    if not _has_unembedding(simulation):
        return
    own = np.array(simulation.parameters.flat)
    contexts = batch(simulation, simulation.representation)
    log_d = np.log(len(simulation.data.tokens))
    for where, flat in (("the initial weights", own), ("typical weights", typical(simulation))):
        parameters = Parameters(simulation.parameters.declared, flat.copy())
        w = parameters["W_1"].copy()
        loss, found = evaluate(simulation, flat, contexts)
        gradient = found["W_1"]
        off = np.abs(gradient.sum(axis=-1)).max()
        if not off <= 1e-12 * max(1.0, np.abs(gradient).max()):
            detail = f"has rows that sum to {off:.2g} at {where}; shifting all logits changes no loss"
            yield Failure(Fault.NOT_CONSERVED, "gradient of W_1", detail)
        parameters["W_1"][...] = 0
        at_zero, at_zero_gradients = evaluate(simulation, parameters.flat, contexts)
        if not near(at_zero, np.array([log_d]), 1e-12):
            detail = f"is {at_zero[0]:.8g} at W_1 = 0; log d = {log_d:.8g} it is there"
            yield Failure(Fault.NOT_CONSERVED, "loss", detail)
            return
        low, high = (log_d + float(np.vdot(g, w)) for g in (at_zero_gradients["W_1"], gradient))
        if not low - 1e-12 <= loss[0] <= high + 1e-12:
            detail = f"is {loss[0]:.8g} at {where}; convex in W_1 it is from {low:.8g} to {high:.8g}"
            yield Failure(Fault.NOT_CONSERVED, "loss", detail)


def _has_unembedding(simulation: Simulation) -> bool:
    return any(p.name == "W_1" and p.dims == ("model", "next_token") for p in simulation.parameters.declared)


def scores(trial: Trial) -> Iterator[Failure]:
    """Where the loss does not change under W_Q → W_Q A, W_K → W_K A⁻ᵀ, W_QᵀG_Q = G_KᵀW_K in every head.

    This is what makes W_QᵀW_Q - W_KᵀW_K constant under gradient flow; it is looked at there too.
    """
    simulation = trial.alone
    if not {"W_Q", "W_K"} <= set(simulation.parameters):
        return
    flat = typical(simulation)
    contexts = batch(simulation, exact(simulation)[0])
    if not _symmetric(simulation, flat):
        return
    _, found = evaluate(simulation, flat, contexts)
    parameters = Parameters(simulation.parameters.declared, flat)
    left = np.swapaxes(parameters["W_Q"], -1, -2) @ found["W_Q"]
    right = np.swapaxes(found["W_K"], -1, -2) @ parameters["W_K"]
    if not near(left, right, 1e-11, 1e-14):
        detail = f"differs {deviation(left, right)} from G_KᵀW_K, though only W_Q W_Kᵀ matters to the loss"
        yield Failure(Fault.NOT_CONSERVED, "W_QᵀG_Q", detail)
    if isinstance(trial.spec.optimizer, GradientFlowOptions):
        yield from _conserved(trial, trial.spec.optimizer)


def _symmetric(simulation: Simulation, flat: np.ndarray) -> bool:
    """Whether only W_Q W_Kᵀ matters, for all that a loss of these weights can tell."""
    contexts = batch(simulation, exact(simulation)[0])
    before, _ = evaluate(simulation, flat, contexts)
    moved = Parameters(simulation.parameters.declared, flat.copy())
    width = moved["W_Q"].shape[-1]
    if moved["W_K"].shape != moved["W_Q"].shape:
        return False
    mixing = np.eye(width) + np.random.default_rng(2).normal(scale=0.1 * width**-0.5, size=(width, width))
    moved["W_Q"][...] = moved["W_Q"] @ mixing
    moved["W_K"][...] = moved["W_K"] @ np.linalg.inv(mixing).T
    after, _ = evaluate(simulation, moved.flat, contexts)
    return near(after, before, 1e-11)


def _conserved(trial: Trial, options: GradientFlowOptions) -> Iterator[Failure]:
    """W_QᵀW_Q - W_KᵀW_K along a flow from weights that move at once, as well as its tolerances allow."""
    spec = lively(trial.spec, LIVELY)
    found = records(spec)
    q, k = found["parameters/W_Q"], found["parameters/W_K"]
    law = np.swapaxes(q, -1, -2) @ q - np.swapaxes(k, -1, -2) @ k
    drift = np.abs(law - law[:, :1]).max()
    length = max(np.linalg.norm(q, axis=(-2, -1)).max(), np.linalg.norm(k, axis=(-2, -1)).max())
    error = options.rtol * length + options.atol * np.sqrt(q[0, 0].size)
    limit = INNER_STEPS * 4 * length * error + 1e-14 * length**2
    if not drift <= limit:
        detail = f"drifts by {drift:.2g}; the integrator's tolerances allow {limit:.2g}"
        yield Failure(Fault.NOT_CONSERVED, "W_QᵀW_Q - W_KᵀW_K", detail)


def conserved(trial: Trial) -> Iterator[Failure]:
    """No conservation law of the architecture changes along the gradient, to first order.

    A law is linear or quadratic in the parameters, so that its difference between θ + hG and θ − hG is its
    rate of change exactly, for any h; the two are as far from θ as θ is large.
    """
    simulation = trial.alone
    found = laws(simulation.architecture)
    if not found:
        return
    flat = typical(simulation)
    declared = simulation.parameters.declared
    _, gradients = evaluate(simulation, flat, batch(simulation, exact(simulation)[0]))
    along = np.concatenate([np.asarray(gradients[p.name]).reshape(len(flat), -1) for p in declared], axis=1)
    along *= np.linalg.norm(flat) / max(float(np.linalg.norm(along)), np.finfo(float).tiny)
    ahead, behind = (Parameters(declared, simulation.backend.asarray(flat + h * along)) for h in (1, -1))
    for law in found:
        after, before = (np.asarray(law.evaluate(point)) for point in (ahead, behind))
        if not near(after, before, LAW_LIMIT):
            detail = f"changes along the gradient {deviation(after, before)}: gradient flow would not keep it"
            yield Failure(Fault.NOT_CONSERVED, f"law {law.name}", detail)
