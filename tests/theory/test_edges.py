"""Settings at the edge of the theory: a reason or an exact value, and never a warning."""

from dataclasses import replace

import numpy as np
import pytest

from attndyn.theory.asserted.passage import passage
from attndyn.theory.formulas import FORMULAS, evaluate
from attndyn.theory.manifold import Manifold
from attndyn.theory.onsets import Start, follow
from attndyn.theory.plateau import first_plateau
from attndyn.theory.quantities import QUANTITIES
from attndyn.theory.quantities import evaluate as computed
from attndyn.theory.setting import OutOfReach, Setting

PI = 0.25 ** np.arange(4) / np.sum(0.25 ** np.arange(4))
PLAIN = replace(Setting.sticky(PI, 0.5, 16, 1e-6), seed=0)
UNIFORM = Setting.sticky(np.full(4, 0.25), 0.5, 16, 1e-6)
NO_MEMORY = replace(PLAIN, lam=0.0, transition=np.tile(PI, (4, 1)))


@pytest.mark.parametrize("seed", [0, None])
def test_a_start_whose_squares_underflow(seed):
    tiny = replace(PLAIN, std=1e-200, seed=seed)
    for stage in ("onset_condensation", "onset_focus", "onset_dilution"):
        with pytest.raises(OutOfReach, match="underflow"):
            evaluate(stage, tiny)
    assert np.isfinite(evaluate("onset_focus", replace(PLAIN, std=1e-140, seed=seed)))


def test_given_parameters_that_underflow():
    shapes = {"W_0": (4, 16), "W_1": (16, 4), "W_Q": (16, 16), "W_K": (16, 16)}
    weights = {name: np.full(shape, 1e-3) for name, shape in shapes.items()}
    assert Start.of(PLAIN, weights).alpha > 0
    with pytest.raises(OutOfReach, match="underflow"):
        Start.of(PLAIN, {name: 1e-190 * weight for name, weight in weights.items()})


@pytest.mark.parametrize("value_projection", [False, True])
def test_a_uniform_pi_rests_at_the_origin(value_projection):
    setting = replace(UNIFORM, value_projection=value_projection)
    assert evaluate("loss_plateau", setting) == pytest.approx(np.log(4), rel=1e-15)
    assert evaluate("embedding_scale", setting) == evaluate("plateau_norm", setting) == 0
    for name in ("focus_rate", "onset_focus", "onset_dilution"):
        with pytest.raises(OutOfReach, match="no first plateau apart from the origin"):
            evaluate(name, setting)


def test_a_pi_uniform_but_for_rounding_is_uniform():
    pi = np.array([1 / 3, 1 / 3, np.nextafter(1 / 3, 1)])
    setting = Setting.sticky(pi / pi.sum(), 0.5, 4)
    assert evaluate("plateau_norm", setting) == 0
    with pytest.raises(OutOfReach, match="no first plateau apart from the origin"):
        evaluate("opening_rate", setting)


def test_every_formula_of_an_edge_has_a_value_or_a_reason():
    memoryless = replace(UNIFORM, lam=0.0, transition=np.full((4, 4), 0.25))
    for setting in (UNIFORM, memoryless, replace(memoryless, residual=True), NO_MEMORY):
        for name, formula in FORMULAS.items():
            try:
                value = evaluate(name, setting, 0 if formula.per_token else None)
            except OutOfReach as error:
                value = 0.0 if "nan" not in str(error) else np.nan
            assert np.isfinite(value), name


@pytest.mark.parametrize("seed", [0, None])
@pytest.mark.parametrize("std", [0.03, 5.0])
def test_a_start_that_is_not_small(std, seed):
    """W_0 begins at 0.12 of its plateau, or at 20 times its size."""
    large = replace(PLAIN, std=std, seed=seed)
    for name in ("onset_condensation", "onset_focus", "onset_dilution"):
        with pytest.raises(OutOfReach, match="not small: W_0 begins at"):
            evaluate(name, large)
    with pytest.raises(OutOfReach, match="not small"):
        follow(large, np.array([0.0, 1.0]))
    assert evaluate("onset_focus", replace(large, std=0.02)) > 0


def test_a_flow_followed_to_its_start_alone():
    """All that a run leaves that diverged at once."""
    flow, states = follow(PLAIN, np.array([0.0]))
    start = Start.drawn(PLAIN)
    np.testing.assert_allclose(states, [flow.pack(start.u, start.v, 1.0, start.alpha)], rtol=1e-14)


def test_a_flow_with_nothing_to_follow():
    with pytest.raises(OutOfReach, match="nothing grows"):
        follow(UNIFORM, np.array([0.0, 1.0]))


def test_a_rate_that_is_rounding_is_zero():
    assert evaluate("focus_rate", NO_MEMORY) == 0
    with pytest.raises(OutOfReach, match="its rate is 0 but for rounding"):
        evaluate("opening_rate", NO_MEMORY)
    with pytest.raises(OutOfReach, match="attention has no gradient"):
        evaluate("onset_focus", NO_MEMORY)


@pytest.mark.parametrize("lam", [1e-3, 1e-6, 1e-9])
def test_a_small_rate_is_not_taken_for_rounding(lam):
    """κ is linear in λ."""
    weak, whole = (first_plateau(Setting.sticky(PI, each, 16)).kappa for each in (lam, 0.5))
    assert weak == pytest.approx(2 * lam * whole, rel=1e-6)


def test_attention_that_would_turn_away_says_its_rate():
    # tokens avoid themselves: a sticky chain with λ < 0
    setting = Setting.sticky(PI, -0.5 * PI[-1], 16)
    rate = first_plateau(setting).kappa
    assert rate < 0
    with pytest.raises(OutOfReach, match=f"its rate is {rate:.3g}"):
        Manifold(setting).descend()


def test_norms_rates_and_times_are_bounded_below():
    for name, quantity in QUANTITIES.items():
        if name in FORMULAS or quantity.symbol.startswith((r"\|", "|")):
            assert quantity.bounds[0] == 0, name


NARROW = replace(PLAIN, d_model=3, score_scale=3**-0.5, std=1e-3)
EVEN = {"pi": np.full(4, 0.25), "transition": 0.5 * np.eye(4) + 0.125}
COMPUTED = sorted(QUANTITIES.keys() - FORMULAS.keys())


@pytest.mark.parametrize(
    "changes",
    [
        EVEN,
        {"lam": 0.0, "transition": np.tile(PI, (4, 1))},
        {"lam": 0.0, "transition": np.tile(PI, (4, 1)), "residual": True},
        {"d_model": 1, "score_scale": 1.0},
        {"std": 0.0},
        {"std": 5.0},
        {"std": None},
    ],
)
def test_what_is_computed_at_an_edge_has_a_value_within_its_bounds_or_a_reason(changes):
    setting = replace(NARROW, **changes)
    for name in COMPUTED:
        if name.startswith("law_error") and setting.std:
            continue  # a long way to follow, and no edge
        low, high = QUANTITIES[name].bounds
        try:
            value = computed(name, setting)
        except OutOfReach as error:
            value = max(low, 0.0) if "nan" not in str(error) else np.nan
        assert np.isfinite(value), name
        assert low <= value <= high, name


@pytest.mark.parametrize(
    ("name", "changes", "says"),
    [
        ("first_residual", EVEN, "no first critical point apart from the origin"),
        ("plateau_power_predicted", {"lam": 0.0, "transition": np.tile(PI, (4, 1))}, "κ = 0"),
        ("off_rank_power", {"d_model": 1, "score_scale": 1.0}, "one singular value"),
        ("law_error", {"std": 0.0}, "ε > 0"),
    ],
)
def test_the_reason_is_clear(name, changes, says):
    with pytest.raises(OutOfReach, match=says):
        computed(name, replace(NARROW, **changes))


@pytest.mark.parametrize(
    "changes", [{}, {"lam": 0.0, "transition": np.tile(PI, (4, 1))}, {"value_projection": True}]
)
def test_the_outer_block_contracts_in_as_many_directions_whether_attention_does_or_not(changes):
    """d − 1 for pure attention, also where κ = 0 and no mode of attention decays."""
    assert computed("first_contracting_outer", replace(NARROW, **changes)) == 3


def test_nothing_comes_before_a_stop_that_is_there_at_once():
    seen = passage(PI, 0.5, 4, 5.0, 0)
    assert (seen.arrival, seen.escape) == (np.inf, 0.0)
