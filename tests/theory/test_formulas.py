"""Formulas by name, and the settings they are for."""

import numpy as np
import pytest

from attndyn.spec import parse_spec
from attndyn.theory import closed_forms
from attndyn.theory.formulas import FORMULAS, evaluate
from attndyn.theory.setting import OutOfReach, Setting

SPEC = """
name: a
data:
  kind: markov
  stationary: {kind: geometric, d_vocab: 4, ratio: 0.25}
  transition: {kind: sticky, lam: 0.5}
model: {architecture: MODEL, d_model: 9, init: {kind: normal, std: 1e-5}}
optimizer: {kind: gd, lr: 0.1}
training: {steps: 3, loss_positions: all}
"""

PI = np.array([0.6, 0.3, 0.1])
STICKY = Setting.sticky(PI, 0.4, 16)


def test_setting_of_a_spec():
    setting = Setting.of(parse_spec(SPEC.replace("MODEL", "residual")))
    np.testing.assert_allclose(setting.pi, 0.25 ** np.arange(4) / np.sum(0.25 ** np.arange(4)))
    np.testing.assert_allclose(setting.pi @ setting.transition, setting.pi)
    assert (setting.lam, setting.d_model, setting.d_vocab) == (0.5, 9, 4)
    assert (setting.score_scale, setting.std) == (pytest.approx(1 / 3), 1e-5)
    assert setting.residual
    assert not setting.value_projection


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("MODEL", "transformer", "transformer"),
        ("MODEL, d_model: 9", "residual, d_model: 9, output_projection: true", "W_O"),
        ("MODEL, d_model: 9", "residual, d_model: 9, attention: causal", "causal"),
        ("MODEL, d_model: 9", "residual, d_model: 9, positions: learned", "positions"),
        ("MODEL, d_model: 9", "residual, d_model: 9, mask_token: 0", "masks nothing"),
        ("training:", "replicas: {seeds: 2}\ntraining:", "several"),
    ],
)
def test_what_is_out_of_reach_says_why(old, new, reason):
    spec = parse_spec(SPEC.replace(old, new).replace("MODEL", "pure_attention"))
    with pytest.raises(OutOfReach, match=reason) as caught:
        Setting.of(spec)
    assert "\n" not in str(caught.value)


def test_causal_attention_read_at_the_last_position_is_full_attention():
    text = SPEC.replace("MODEL, d", "pure_attention, attention: causal, d").replace("all", "last")
    assert Setting.of(parse_spec(text)).lam == 0.5


def test_a_sticky_chain_is_a_special_case_of_a_general_one():
    assert evaluate("focus_rate", STICKY) == pytest.approx(closed_forms.focus_rate(PI, 0.4, 16), rel=1e-13)


def test_formulas_are_named_after_their_functions_and_finite():
    absent = {"second_direction_rate"}  # of a residual model only
    for name, formula in FORMULAS.items():
        assert formula.name == name
        if name in absent:
            continue
        value = evaluate(name, STICKY, **({"token": 1} if formula.per_token else {}))
        assert np.isfinite(value)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("focus_rat", STICKY), "focus_rate"),
        (("plateau_row_norm", STICKY), "position"),
        (("plateau_row_norm", STICKY, 3), "0 to 2"),
        (("focus_rate", STICKY, 0), "not of a token"),
    ],
)
def test_wrong_questions(arguments, reason):
    with pytest.raises(OutOfReach, match=reason):
        evaluate(*arguments)
