"""`formula`: quantities of the theory against one another, setting by setting."""

import pytest
from pydantic import ValidationError

from attndyn.conformance.expectation import VacuousError
from attndyn.conformance.rehearsal import rehearse
from attndyn.spec import parse_spec
from conformance.made_runs import SPEC, judged, made, options

LOSSES = [[4, 3, 1.1], [4, 2, 1.9]]


EQUAL = {"relation": "equal"}
RATE = EQUAL | {"of": "first_rate", "formula": "focus_rate"}
ROW = {"of": "plateau_row_norm", "token": 1, "relation": "at_most", "formula": "plateau_norm"}
FLOOR = {"of": "loss_floor"}
WIDTHS, STICKINESS = {"model.d_model": [2, 3, 5]}, {"data.transition.lam": [0.1, 0.9]}
TINY = {"model.init.std": [1e-200]}


@pytest.mark.parametrize(
    ("given", "verdict", "k", "n"),
    [
        (RATE | {"rtol": 1e-8}, "holds", 2, 2),
        (RATE | {"times": 1.01, "rtol": 1e-3}, "does not hold", 0, 2),
        (EQUAL | {"of": "first_unstable", "formula": "d_model", "atol": 0.5, "over": WIDTHS}, "holds", 6, 6),
        (ROW, "holds", 2, 2),
        (FLOOR | {"relation": "at_most", "number": 0.6, "over": STICKINESS}, "in part", 2, 4),
        (FLOOR | EQUAL | {"formula": "loss_origin", "rtol": 0.1, "wider_rtol": 0.9}, "in part", 0, 2),
    ],
)
def test_settings_are_trials(given, verdict, k, n):
    found = judged("formula", made(LOSSES, overrides=["replicas.seeds=2"]), **given)
    assert (found.verdict, found.k, found.n) == (verdict, k, n)


def test_what_is_out_of_reach_is_left_out_with_the_reason():
    given = {"of": "transverse_exponent", "relation": "equal", "number": 1.0, "atol": 0.02}
    chains = [
        {"kind": "symmetric", "d_vocab": 3, "p": 0.75},
        {"kind": "geometric", "d_vocab": 3, "ratio": 0.5},
    ]
    over = {"data.stationary": chains}
    found = judged("formula", made(LOSSES[:1]), **given, over=over)
    assert (found.verdict, found.n, found.trials) == ("holds", 1, 2)
    assert "tokens but the first differ" in found.detail
    with pytest.raises(VacuousError, match="nothing to look at: π has no symmetric group"):
        judged("formula", made(LOSSES[:1]), **given)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"of": "first_residual", "relation": "at_least", "number": 0.0}, "always ≥ 0"),
        ({"of": "focus_rate", "relation": "at_least", "number": 0.0}, "always ≥ 0"),
        ({"of": "onset_focus", "relation": "at_most", "number": 9.0, "over": TINY}, "squares underflow"),
        ({"of": "first_overlap", "relation": "at_most", "number": 1.0}, "always ≤ 1"),
        ({"of": "loss_floor", "relation": "equal", "number": 0.5, "atol": 2.0}, "cannot fail"),
    ],
)
def test_what_cannot_fail_is_refused(given, says):
    with pytest.raises(VacuousError, match=says):
        judged("formula", made(LOSSES[:1]), **given)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"of": "focus_rat", "number": 1.0}, "focus_rate"),
        ({"of": "focus_rate", "formula": "first_rat"}, "first_rate"),
        ({"of": "focus_rate"}, "exactly one of number, formula"),
        ({"of": "focus_rate", "formula": "focus_rate"}, "compared with itself"),
        ({"of": "plateau_row_norm", "number": 1.0}, "token"),
        ({"of": "focus_rate", "number": 1.0, "token": 1}, "has no effect"),
        ({"of": "focus_rate", "number": 1.0, "over": {"model.d_model": []}}, "lists no value"),
        ({"of": "focus_rate", "number": 1.0, "over": {"model.d_model": [*range(2, 999)]}}, "allowed: 256"),
    ],
)
def test_wrong_options(given, says):
    with pytest.raises(ValidationError, match=says):
        options("formula", relation="at_most", **given)


def test_a_setting_that_is_no_spec_is_found_in_the_rehearsal():
    wrong = (
        "{kind: formula, id: x, claim: x, source: x, of: focus_rate, relation: at_most, number: 1.0, OVER}"
    )
    spec = parse_spec(SPEC, overrides=[f"expect=[{wrong.replace('OVER', 'over: {model.d_model: [-1]}')}]"])
    [flaw] = rehearse(spec)
    assert flaw.path == ("expect", 0, "over")
    assert "model.d_model" in flaw.message
