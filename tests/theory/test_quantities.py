"""Every quantity that is computed: finite where the theory reaches, and one clear line where it does not."""

from dataclasses import replace

import numpy as np
import pytest

from attndyn.theory.quantities import QUANTITIES, evaluate
from attndyn.theory.setting import OutOfReach, Setting

GROUP = replace(Setting.sticky(np.array([0.7, 0.1, 0.1, 0.1]), 0.4, 4, 1e-3), seed=0)
GEOMETRIC = Setting.sticky(0.25 ** np.arange(4) / np.sum(0.25 ** np.arange(4)), 0.5, 8)
RESIDUAL = Setting(GROUP.pi, GROUP.transition, 0.4, 4, 0.5, 1e-3, residual=True)
#: of other settings only
ELSEWHERE = {"second_direction_rate", "opening_rate", "next_token"}


def test_names_are_those_of_the_functions_and_values_are_within_their_bounds():
    for name, quantity in QUANTITIES.items():
        assert quantity.name == name
        assert quantity.long_name
        assert quantity.valid
        if name not in ELSEWHERE:
            value = evaluate(name, GROUP, 0 if quantity.per_token else None)
            low, high = quantity.bounds
            assert np.isfinite(value), name
            assert low <= value <= high, name


def test_the_next_token_of_the_geometric_family_is_the_second_most_frequent():
    assert evaluate("next_token", GEOMETRIC) == 1


@pytest.mark.parametrize("name", ["first_overlap", "degenerate_margin", "plateau_power", "next_token"])
def test_a_residual_is_out_of_reach(name):
    with pytest.raises(OutOfReach):
        evaluate(name, RESIDUAL)


def test_modes_of_the_residual_model_have_no_attention():
    assert evaluate("first_attention_block", RESIDUAL) < 1e-14 < evaluate("first_attention_block", GROUP)


@pytest.mark.parametrize(
    ("name", "setting", "says"),
    [
        ("first_rate", replace(GROUP, d_model=64, score_scale=0.125), "parameters: all modes are found for"),
        ("plateau_power", replace(GROUP, d_model=64, score_scale=0.125), "d_model 64"),
        ("plateau_power", replace(GROUP, score_scale=1.0), "scores over √m"),
        ("transverse_exponent", replace(GROUP, score_scale=1.0), "scores over √m"),
        ("escape_over_arrival", replace(GROUP, seed=None), "a seed"),
        ("transverse_exponent", GEOMETRIC, "tokens but the first differ"),
        ("second_transverse_exponent", Setting.sticky(np.array([0.8, 0.1, 0.1]), 0.4, 4), "three tokens"),
        ("first_rat", GROUP, "first_rate"),
    ],
)
def test_reasons(name, setting, says):
    with pytest.raises(OutOfReach, match=says):
        evaluate(name, setting)
