"""Every shipped architecture in every combination of options: gradients, representations, purity of shape."""

import itertools

import numpy as np
import pytest

from attndyn.conformance.gradients import central_differences, relative_error
from attndyn.errors import SpecError
from attndyn.simulation import Simulation

LIMIT = 1e-7

ONE_LAYER = [
    f"architecture: {name}, value_projection: {v}, output_projection: {o}, attention: {a}, positions: {p}, "
    f"scale: {s}{mask}"
    for name in ("pure_attention", "residual")
    for v, o in (("false", "false"), ("true", "true"), ("false", "true"))
    for a, p, s, mask in (
        ("full", "none", "inv_sqrt", ""),
        ("causal", "none", "none", ""),
        ("full", "learned", "inv_sqrt", ""),
        ("full", "sinusoidal", "inv_sqrt", ""),
        ("full", "none", "inv_sqrt", ", mask_token: 0"),
        ("causal", "learned", "none", ", mask_token: 1"),
    )
]
TRANSFORMER = [
    f"architecture: transformer, layers: {n}, heads: {h}, attention: {a}, positions: {p}, "
    f"layer_norm: {norm}{rest}"
    for (n, h), a, norm in itertools.product(((1, 1), (2, 3)), ("full", "causal"), ("none", "pre", "post"))
    for p, rest in (
        ("none", ""),
        ("learned", ", mlp: {width: 7}"),
        ("none", ", mlp: {width: 7, activation: relu}, mask_token: 0"),
    )
] + [
    "architecture: transformer, layers: 2, heads: 2, d_head: 5",
    "architecture: transformer, layers: 2, heads: 3, value_projection: false, output_projection: false",
    "architecture: transformer, layers: 2, heads: 3, value_projection: false",
    "architecture: transformer, layers: 2, heads: 3, output_projection: false, attention: causal",
    "architecture: transformer, layers: 3, heads: 2, scale: none, positions: sinusoidal",
]
POSITIONS = ("last", "all")


def simulate(small, model, positions="last", *changes):
    width = "6"  # 2 and 3 heads divide it
    return Simulation(
        small(
            f"model={{{model}, d_model: {width}, init: {{std: 0.5}}}}",
            f"training.loss_positions={positions}",
            "data.n_ctx=4",
            "data.batch=3",
            "replicas.seeds=2",
            *changes,
        ),
        "numpy",
    )


def exact(small, model, positions):
    return simulate(small, model, positions).architecture.representations(positions)


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("model", ONE_LAYER + TRANSFORMER)
def test_gradients(small, model, positions):
    for representation in exact(small, model, positions):
        if representation == "population":
            changes = ("data.regime=population", "optimizer={kind: gd, lr: 0.1}")
        else:
            changes = (f"representation={representation}",)
        simulation = simulate(small, model, positions, *changes)
        # away from the initial zeros and ones of normalisations
        simulation.parameters.flat += 0.1 * np.random.default_rng(0).normal(
            size=simulation.parameters.flat.shape
        )
        simulation.evaluate(1)
        contexts = simulation.contexts(1)

        def loss(simulation=simulation, contexts=contexts):
            return simulation.architecture.loss_and_gradients(simulation.parameters, contexts)[0][1]

        for name, array in simulation.parameters.items():
            expected = central_differences(loss, array[1])
            found = simulation.gradients[name][1]
            if np.abs(expected).max() < 1e-9:  # a learned place that no query sees, a masked key
                assert np.abs(found).max() < 1e-9, (representation, name)
            else:
                assert relative_error(found, expected) <= LIMIT, (representation, name)


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("model", ONE_LAYER + TRANSFORMER)
def test_exact_representations_agree_and_others_are_refused(small, model, positions):
    claimed = exact(small, model, positions)
    assert "positions" in claimed
    if "counts" not in claimed:
        with pytest.raises(SpecError, match="counts"):
            simulate(small, model, positions, "representation=counts")
        return
    by_counts, by_positions = (
        simulate(small, model, positions, f"representation={r}") for r in ("counts", "positions")
    )
    for step in range(3):
        np.testing.assert_allclose(by_counts.evaluate(step), by_positions.evaluate(step), rtol=1e-12)
        scale = np.abs(by_positions.gradients.flat).max()
        np.testing.assert_allclose(by_counts.gradients.flat, by_positions.gradients.flat, atol=1e-12 * scale)


@pytest.mark.parametrize(
    "model", ["architecture: residual", "architecture: transformer, layers: 2, heads: 3"]
)
def test_counts_where_they_are_not_exact_differ(small, model):
    """The claims are not merely cautious: causal attention at all positions is something else."""
    causal = simulate(small, f"{model}, attention: causal", "all")
    full = simulate(small, model, "all")
    assert causal.representation == "positions"
    assert abs(causal.evaluate(0) - full.evaluate(0)).max() > 1e-4


@pytest.mark.parametrize("model", ONE_LAYER[::5] + TRANSFORMER[::5])
def test_attention_rows_sum_to_one(small, model):
    simulation = simulate(small, model)
    _, n_layers, n_heads = simulation.parameters["W_Q"].shape[:3]
    values = simulation.probes["attention"].measure(type("S", (), {"parameters": simulation.parameters})())
    a = values["attention"]
    assert a.shape == (2, n_layers, n_heads, 4, 4)
    rows = a.sum(axis=-1)
    np.testing.assert_allclose(rows[np.isfinite(rows)], 1, rtol=1e-12)
    assert np.isfinite(rows).any()
