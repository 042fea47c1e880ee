"""Every kind of expectation: a run that holds, one that does not, and what is refused as unable to fail."""

import numpy as np
import pytest
from pydantic import ValidationError

from attndyn.conformance.expectation import VacuousError
from attndyn.conformance.fits import straight_line
from attndyn.conformance.measured import SelectionError
from conformance.made_runs import judged, made, options

LOSS = {"probe": "loss", "variable": "loss"}
LAST = LOSS | {"at": "last"}
OTHER = {"set": {"optimizer.lr": 0.2}}
LR = [1, 2, 4, 1, 2, 4]
SEEDS = [0, 0, 0, 1, 1, 1]


def ending(*last, lr=LR, seeds=SEEDS):
    """Runs whose loss is 30 at first and as given at last."""
    return made([[30.0, 30.0, value] for value in last], lr, seeds)


# -- value ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "verdict"),
    [
        ({"relation": "at_most", "number": 2.0}, "holds"),
        ({"relation": "at_most", "number": 1.0}, "does not hold"),
        ({"relation": "at_most", "number": 1.5}, "in part"),
        ({"relation": "equal", "number": 1.5, "atol": 0.6}, "holds"),
        ({"relation": "equal", "number": 1.5, "atol": 0.3, "wider_atol": 0.6}, "in part"),
        ({"relation": "equal", "number": 1.5, "rtol": 0.1}, "does not hold"),
        ({"relation": "at_most", "other": LOSS | {"at": "first"}, "times": 0.5}, "holds"),
        ({"relation": "at_least", "other": LOSS | {"at": "first"}, "plus": -1.5}, "does not hold"),
        ({"relation": "equal", "formula": "loss_floor", "rtol": 0.01}, "does not hold"),
    ],
)
def test_value(given, verdict):
    run = made([[4, 3, 1.1], [4, 2, 1.9]], overrides=["replicas.seeds=2"])
    assert judged("value", run, of=LAST, **given).verdict == verdict


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"relation": "equal", "number": 1.5, "atol": 2.6}, "as wide as the range"),
        (
            {"relation": "equal", "number": 2.5, "atol": 1.6},
            "as wide as the range",
        ),  # all of 1.1 … 4 is within
        ({"relation": "equal", "number": 1.5, "atol": 0.1, "wider_atol": 9.0}, "as wide as the range"),
        ({"relation": "at_least", "number": 0.0}, "is always ≥ 0"),
        ({"relation": "at_least", "number": 0.5, "atol": 0.5}, "is always ≥ 0"),
    ],
)
def test_value_that_cannot_fail(given, says):
    with pytest.raises(VacuousError, match=says):
        judged("value", made([[4, 3, 1.1], [4, 2, 1.9]]), of=LAST, **given)


def test_value_of_nothing():
    with pytest.raises(VacuousError, match="nothing but NaN"):
        judged("value", made(np.full((2, 3), np.nan)), of=LAST, relation="at_most", number=1.0)
    with pytest.raises(SelectionError, match="step 60 is not on record"):
        judged("value", made([[4, 3, 1.1]]), of=LOSS | {"step": 60}, relation="at_most", number=1.0)


def test_attention_cannot_be_above_one():
    run = made([[1, 1]], attention=np.full((1, 2, 1, 1, 3, 3), 1 / 3))
    of = {"probe": "attention", "variable": "attention", "labels": {"query": 0, "key": "1"}, "at": "last"}
    with pytest.raises(VacuousError, match="always ≤ 1"):
        judged("value", run, of=of, relation="at_most", number=1.0)
    with pytest.raises(VacuousError, match="always ≥ 0"):
        judged(
            "value",
            run,
            of=of | {"at": None, "window": [0, 10], "take": "range"},
            relation="at_least",
            number=0,
        )


# -- trend ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "verdict", "figure"),
    [
        ({"exponent": 1.0, "atol": 0.05}, "holds", 1.02),
        ({"exponent": 1.0, "atol": 0.01, "wider_atol": 0.05}, "in part", 1.02),
        ({"exponent": 1.0, "relation": "at_least", "atol": 1e-9}, "holds", 1.02),
        ({"exponent": 2.0, "rtol": 0.1}, "does not hold", 1.02),
        ({"slope": 3.0, "rtol": 0.1}, "holds", 3.05),
        ({"slope": -3.0, "rtol": 0.1}, "does not hold", 3.05),
        ({"direction": "rising"}, "holds", 1.0),
        ({"direction": "rising", "monotone": True}, "holds", 1.0),
        ({"direction": "falling"}, "does not hold", 1.0),
        ({"direction": "flat", "atol": 1.0}, "does not hold", 9.2),
        ({"direction": "flat", "atol": 9.0, "wider_atol": 9.5}, "in part", 9.2),
        ({"direction": "flat", "atol": 9.5}, "holds", 9.2),
    ],
)
def test_trend(given, verdict, figure):
    run = ending(3, 6, 12, 2.9, 6, 12.3) if "exponent" not in given else ending(3, 6, 12, 3, 6, 12.7)
    found = judged("trend", run, of=LAST, against="lr", **given)
    assert found.verdict == verdict
    assert found.figure == pytest.approx(figure, abs=0.05)
    assert (found.n, found.trials) == (2, 2)
    assert "95 % interval" in found.detail


def test_rising_without_being_monotone():
    run = ending(1, 3, 2, 4, lr=[1, 2, 3, 4], seeds=[0] * 4)
    assert judged("trend", run, of=LAST, against="lr", direction="rising").verdict == "holds"
    found = judged("trend", run, of=LAST, against="lr", direction="rising", monotone=True)
    assert found.verdict == "does not hold"
    assert found.figure == pytest.approx(0.8)
    still = ending(2, 2, 2, 2, lr=[1, 2, 3, 4], seeds=[0] * 4)
    assert judged("trend", still, of=LAST, against="lr", direction="rising").verdict == "does not hold"


def test_trend_over_runs_by_seed():
    runs = [ending(*last, lr=None, seeds=[0, 1]) for last in ((1, 1), (2, 2.1), (4, 3.9))]
    variants = [{"set": {"model.d_model": m}, "at": float(m)} for m in (1, 2)]
    given = {"of": LAST, "runs": variants, "at": 4.0}
    assert judged("trend", runs[2], runs[:2], **given, exponent=1.0, atol=0.1).verdict == "holds"
    assert judged("trend", runs[0], [runs[2], runs[1]], **given, exponent=1.0, atol=0.1).k == 0


def test_missing_points_of_a_trend():
    run = ending(1, 2, 4, 1, np.nan, 4)
    found = judged("trend", run, of=LAST, against="lr", exponent=1.0, atol=0.1)
    assert (found.verdict, found.k, found.n, found.trials) == ("in part", 1, 2, 2)  # it diverged
    assert "1 of 6 points are not there" in found.detail
    run = ending(*[np.nan] * 6)
    assert judged("trend", run, of=LAST, against="lr", direction="rising").verdict == "does not hold"


@pytest.mark.parametrize(
    ("run", "given", "error", "says"),
    [
        (ending(1, 2, lr=[1, 2], seeds=[0, 0]), {"exponent": 1.0}, VacuousError, "2 different values"),
        (ending(1, 2, lr=[1, 1], seeds=[0, 1]), {"direction": "rising"}, VacuousError, "1 different value;"),
        (ending(1, 2, -0.25, 1, 2, 4), {"exponent": 1.0}, VacuousError, "is -0.25, which has no logarithm"),
        (ending(1, 2, 4, 1, 2, 4, lr=[0, 2, 4] * 2), {"exponent": 1.0}, VacuousError, "varies is 0, which"),
        (ending(1, 2, 4, 1, 2, 4), {"exponent": 1.0, "atol": 9.0}, VacuousError, "as wide as the range"),
        (ending(1, 2, 4, 1, 2, 4), {"direction": "flat", "atol": 29.0}, VacuousError, "as wide as the range"),
        (ending(1, 2, 4, 8, lr=[1, 2, 4, 4], seeds=[0] * 4), {"exponent": 1.0}, SelectionError, "several"),
    ],
)
def test_trend_that_tells_nothing(run, given, error, says):
    given = ({} if "direction" in given else {"atol": 0.1}) | given
    with pytest.raises(error, match=says):
        judged("trend", run, of=LAST, against="lr", **given)


def test_interval_of_a_line_by_hand():
    x, y = np.array([1.0, 2, 3, 4]), np.array([1.0, 3, 2, 4])
    fit = straight_line([(x, y)])
    # slope 0.8; residuals -0.3, 0.9, -0.9, 0.3 with 2 degrees of freedom; Sxx = 5; t(0.975, 2) = 4.302653
    assert fit.slope == pytest.approx(0.8)
    assert fit.high - fit.slope == pytest.approx(4.302653 * np.sqrt(1.8 / 2 / 5), rel=1e-6)
    assert np.isnan(straight_line([(x[:2], y[:2])]).low)
    shifted = straight_line([(x, y), (x, y + 7)])  # each seed has an intercept of its own
    assert shifted.slope == pytest.approx(0.8)
    assert shifted.high < fit.high


# -- agreement --------------------------------------------------------------------------------------------


def other(loss, **given):
    return made(loss, overrides=["optimizer.lr=0.2"], **given)


@pytest.mark.parametrize(
    ("given", "verdict"),
    [
        ({"rtol": 1e-3}, "holds"),
        ({"rtol": 1e-6}, "does not hold"),
        ({"atol": 1.5e-4}, "in part"),
        ({"rtol": 1e-6, "wider_rtol": 1e-3}, "in part"),
        ({"rtol": 1e-6, "relation": "at_least"}, "holds"),
        ({"rtol": 1e-3, "relation": "at_least"}, "does not hold"),
    ],
)
def test_agreement(given, verdict):
    one, two = made([[1, 2.0, 3], [1, 2, 4]]), other([[1, 2.0001, 3], [1, 2.0002, 4]])
    assert judged("agreement", one, [two], of=LOSS, other=OTHER, **given).verdict == verdict


def test_agreement_is_by_seed_and_by_step():
    one, two = made([[1, 2], [3, 4.0]], seeds=[5, 6]), other([[3, 4], [1, 2], [9, 9.0]], seeds=[6, 5, 7])
    found = judged("agreement", one, [two], of=LOSS, other=OTHER, rtol=1e-9)
    assert (found.verdict, found.trials) == ("holds", 2)
    longer = other([[1, 2, 7, 8]], seeds=[5])
    assert judged("agreement", one, [longer], of=LOSS, other=OTHER, rtol=1e-9).verdict == "holds"
    with pytest.raises(SelectionError, match="no replica has the same seed"):
        judged("agreement", one, [other([[1, 2]], seeds=[9])], of=LOSS, other=OTHER, rtol=1e-9)


def test_one_that_diverges_does_not_agree():
    one, two = made([[1, 2, 3.0]]), other([[1, 2, np.nan]])
    found = judged("agreement", one, [two], of=LOSS, other=OTHER, rtol=0.1)
    assert (found.verdict, found.figure) == ("does not hold", 1.0)
    both = judged("agreement", made([[1, 2, np.nan]]), [two], of=LOSS, other=OTHER, rtol=0.1)
    assert both.verdict == "does not hold"  # of what neither lived to see nothing agrees


@pytest.mark.parametrize(
    ("one", "two", "given", "says"),
    [
        ([[0, 0.0]], [[0, 0.0]], {"rtol": 0.1}, "0 throughout"),
        ([[1, 2.0]], [[1, 2.0]], {"atol": 1.0}, "as wide as the range"),
        ([[1, 2.0]], [[1, 2.0]], {"rtol": 0.5}, "as wide as the range"),
        ([[np.nan, np.nan]], [[1, 2.0]], {"rtol": 0.1}, "nothing but NaN"),
    ],
)
def test_agreement_that_tells_nothing(one, two, given, says):
    with pytest.raises(VacuousError, match=says):
        judged("agreement", made(one), [other(two)], of=LOSS, other=OTHER, **given)


def test_agreement_with_itself():
    with pytest.raises(VacuousError, match="the same one"):
        judged("agreement", made([[1, 2]]), [made([[1, 2]])], of=LOSS, other={"set": {"name": "b"}}, rtol=0.1)


# -- invariant --------------------------------------------------------------------------------------------


def test_invariant():
    run = made([[1, 1.001, 0.9995], [2, 2.001, 2]])
    assert judged("invariant", run, of=LOSS, at_most=2e-3).verdict == "holds"
    assert judged("invariant", run, of=LOSS, at_most=1e-4).verdict == "does not hold"
    assert judged("invariant", run, of=LOSS, at_most=7e-4).verdict == "in part"
    assert judged("invariant", run, of=LOSS, at_most=1e-4, wider=2e-3).verdict == "in part"
    found = judged("invariant", run, of=LOSS, at_most=0.01, measure="absolute")
    assert (found.verdict, found.units) == ("holds", "nats")
    assert found.figure == pytest.approx(1e-3)
    lost = made([[1, 1, np.nan], [2, 2.001, 2]])
    found = judged("invariant", lost, of=LOSS, at_most=2e-3)
    assert (found.verdict, found.k, found.n, found.detail) == ("in part", 1, 2, "1 diverged")


def test_a_run_cut_short_supports_nothing():
    """All replicas diverged at step 20 of 60: the last records are finite, and say nothing of the end."""
    run = made([[1, 1, 1.0]], asked=60)
    assert run.lost.all()
    for of in (LAST, LOSS | {"step": 40}, LOSS | {"window": [0, "last"], "take": "max"}):
        found = judged("value", run, of=of, relation="at_most", number=9.0)
        assert (found.verdict, found.k, found.n) == ("does not hold", 0, 1)
    assert judged("value", run, of=LOSS | {"step": 10}, relation="at_most", number=9.0).verdict == "holds"
    assert judged("invariant", run, of=LOSS, at_most=0.5).verdict == "does not hold"
    assert made([[1, 1, 2e4]]).lost.all()


def test_closeness_is_no_vacuity():
    run = made([[0.995, 1.005, 1.0]])
    assert judged("value", run, of=LAST, relation="equal", number=1.0, atol=0.01).verdict == "holds"
    with pytest.raises(VacuousError, match="as wide"):
        judged("value", made([[0.1, 1.39, 1.0]]), of=LAST, relation="equal", number=1.0, atol=2.0)


def test_settings_are_counted_apart():
    found = judged("value", ending(1, 2, 4, 1, 2, 4), of=LAST, relation="at_most", number=3.0)
    assert (found.settings, found.detail) == (3, "lr 1: 2 of 2; lr 2: 2 of 2; lr 4: 0 of 2")


def test_a_twin_in_the_same_representation():
    other_spec = {"set": {"representation": "positions"}}
    twin = made([[1, 2]], overrides=["representation=positions"])
    with pytest.raises(VacuousError, match="counts in both"):
        judged("agreement", made([[1, 2]]), [twin], of=LOSS, other=other_spec, rtol=0.1)


@pytest.mark.parametrize(
    ("loss", "given", "says"),
    [
        ([[0, 0.0]], {}, "0 throughout"),
        ([[1.0]], {}, "fewer than two records"),
        ([[1, 2.0]], {"at_most": 2.0, "measure": "absolute"}, "as large as the variable ever is"),
        ([[np.nan, np.nan]], {}, "nothing but NaN"),
    ],
)
def test_invariant_that_tells_nothing(loss, given, says):
    with pytest.raises(VacuousError, match=says):
        judged("invariant", made(loss), of=LOSS, **{"at_most": 0.1, **given})


# -- options ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "given", "says"),
    [
        ("value", {"of": LAST, "relation": "equal", "number": 1.0}, "equal needs a tolerance"),
        ("value", {"of": LAST, "relation": "equal", "number": 0.0, "rtol": 0.1}, "is relative to 0"),
        ("value", {"of": LAST, "relation": "at_most", "other": LAST}, "compared with itself"),
        ("value", {"of": LAST, "relation": "at_most"}, "exactly one of number"),
        ("value", {"of": LAST, "relation": "at_most", "formula": "los_floor"}, "did you mean 'loss_floor'"),
        ("trend", {"of": LAST, "direction": "rising"}, "exactly one of against, runs"),
        ("trend", {"of": LAST, "against": "lr"}, "exactly one of direction, slope, exponent"),
        ("trend", {"of": LAST, "against": "lr", "exponent": 1.0}, "needs a tolerance"),
        ("trend", {"of": LAST, "against": "lr", "direction": "flat"}, "flat needs a tolerance"),
        ("trend", {"of": LAST, "against": "lr", "direction": "rising", "atol": 1.0}, "see least"),
        ("trend", {"of": LAST, "runs": [OTHER | {"at": 1.0}], "exponent": 1.0, "atol": 1.0}, "1 different"),
        ("agreement", {"of": LOSS, "other": OTHER}, "exactly one of atol, rtol"),
        ("agreement", {"of": LOSS, "other": {}, "atol": 1.0}, "names no other run"),
        ("agreement", {"of": LAST, "other": OTHER, "atol": 1.0}, "at"),
        ("invariant", {"of": LOSS, "at_most": 1.5}, "cannot fail"),
        ("invariant", {"of": LOSS, "at_most": 0.5, "wider": 0.1}, "must be greater than at_most"),
        ("stages", {}, "cannot fail"),
    ],
)
def test_options_that_are_refused(kind, given, says):
    with pytest.raises(ValidationError, match=says):
        options(kind, **given)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"window": ["last", 10], "take": "max", "at": None}, "ends before it begins"),
        ({"window": [20, 10], "take": "max", "at": None}, "ends before it begins"),
        ({"labels": {"query": True}}, "a label, or a list of labels"),
        ({"labels": {"query": [1, "1"]}}, "given twice"),
        ({"step": 1}, "one of step, at, window"),
        ({"take": "max"}, "belong together"),
    ],
)
def test_selections_that_are_refused(change, says):
    with pytest.raises(ValidationError, match=says):
        options("value", of=LAST | change, relation="at_most", number=1.0)
