"""The checks of kinds of expectations find planted faults; misspelt names are found in the file."""

from typing import Literal

import numpy as np
import pytest

from attndyn.conformance import Fault, check_class
from attndyn.conformance.expectation import Evidence, Example, Expectation, Judgement, VacuousError
from attndyn.conformance.measured import SelectionError
from attndyn.conformance.rehearsal import rehearse
from attndyn.conformance.suite import Suite
from attndyn.errors import PluginError, SpecError
from attndyn.spec import parse_spec
from attndyn.spec.base import ExpectationOptions
from conformance.made_runs import SPEC, judged, made


class Options(ExpectationOptions):
    kind: Literal["planted"] = "planted"
    limit: float


class Sound(Expectation):
    """The loss at last is at most a limit."""

    name = "planted"
    Options = Options
    examples = (
        Example("holds", {"limit": 2.0}),
        Example("does not hold", {"limit": 0.1}),
        Example("refused", {"limit": 99.0}),
    )

    def judge(self, evidence: Evidence) -> Judgement:
        loss = evidence.own.trajectory["loss"]["loss"].isel(step=-1).values
        if self.options.limit > 10:
            raise VacuousError("cannot fail")
        return Judgement(loss, loss <= self.options.limit, f"≤ {self.options.limit:g}")


class AlwaysHolds(Sound):
    def judge(self, evidence):
        found = super().judge(evidence)
        return Judgement(found.figures, np.ones_like(found.holds), found.criterion)


class NeverRefuses(Sound):
    examples = (*Sound.examples[:2], Example("refused", {"limit": 9.0}))


class OneSided(Sound):
    examples = Sound.examples[:1]


class Numbers(Sound):
    def judge(self, evidence):
        found = super().judge(evidence)
        return Judgement(found.figures, found.holds * 1.0, found.criterion)


class Credulous(Sound):
    """Takes NaN for 0."""

    def judge(self, evidence):
        found = super().judge(evidence)
        return Judgement(np.nan_to_num(found.figures), found.holds, found.criterion)


class ByPlace(Sound):
    """Takes the last axis for the step."""

    def judge(self, evidence):
        super().judge(evidence)
        loss = evidence.own.trajectory["loss"]["loss"].values[:6, -1]
        return Judgement(loss, loss <= self.options.limit, "≤")


class Counting(Sound):
    calls = 0

    def judge(self, evidence):
        found = super().judge(evidence)
        self.calls += 1
        return Judgement(found.figures + self.calls, found.holds, found.criterion)


class Modifying(Sound):
    def judge(self, evidence):
        found = super().judge(evidence)
        evidence.own.trajectory["loss"]["loss"][{"step": 0}] += 1
        return found


@pytest.mark.parametrize(
    ("cls", "fault"),
    [
        (Sound, None),
        (AlwaysHolds, Fault.CANNOT_FAIL),
        (NeverRefuses, Fault.CANNOT_FAIL),
        (OneSided, Fault.DECLARATION),
        (Numbers, Fault.SHAPE),
        (Credulous, Fault.CANNOT_FAIL),
        (ByPlace, Fault.SWAPPED_AXES),
        (Counting, Fault.HIDDEN_STATE),
        (Modifying, Fault.INPUT_MODIFIED),
    ],
)
def test_planted(cls, fault):
    report = check_class("expectation", cls, "planted")
    assert {failure.fault for failure in report.failures} == ({fault} if fault else set()), str(report)


def test_without_examples():
    class Silent(Sound):
        examples = ()

    with pytest.raises(PluginError, match="declares no examples"):
        check_class("expectation", Silent, "planted")


# -- names ------------------------------------------------------------------------------------------------

EXPECT = """analyzers: [stages]
replicas: {vary: {optimizer.lr: [0.1, 0.2]}, seeds: 3}
expect:
  - kind: %s
    id: a
    claim: b
    source: c
"""
WHOLE = SPEC.replace("attention: {every: 1}", "attention: {every: 1}, parameters: {every: 1}") + EXPECT


OF_LOSS = "of: {probe: loss, variable: loss"
TREND = OF_LOSS + ", at: last}"
AGREE = "other: {set: {name: b}}\n    rtol: 0.1"


@pytest.mark.parametrize(
    ("kind", "lines", "place", "says"),
    [
        ("value", "of: {probe: los, variable: loss, at: last}", "los,", "did you mean 'loss'"),
        ("value", "of: {probe: loss, variable: lost, at: last}", "lost", "did you mean 'loss'"),
        ("value", OF_LOSS + "}", "loss}", "give step, at, or window"),
        ("value", OF_LOSS + ", at: focus_pek}", "focus_pek", "did you mean 'focus_peak'"),
        ("value", OF_LOSS + ", at: last, labels: {lr: 0.3}}", "0.3", "no label 0.3"),
        ("value", OF_LOSS + ", at: last, labels: {seed: 3}}", "3}", "no label 3; allowed: 0, 1, 2"),
        ("value", OF_LOSS + ", at: last, labels: {token: 0}}", "0}", "no such dimension"),
        ("value", "of: {probe: attention, variable: entropy, at: last}", "entropy", "needs a label"),
        ("value", OF_LOSS + ", step: 900}", "900", "0 to 100"),
        ("stages", "order: [focus_onset, focus_pek]", "focus_pek", "did you mean 'focus_peak'"),
        ("stages", "present: [focus_peak of token 7]", "focus_peak", "no such rank"),
        ("stages", "present: [focus_peak of token 1, focus_pek of query 0]", "focus_pek ", "no such event"),
        ("trend", TREND + "\n    direction: rising\n    against: lrr", "lrr", "did you mean 'lr'"),
        ("trend", TREND + "\n    exponent: 1.0\n    atol: 1.0\n    against: lr", "lr", "exponent needs 3"),
        ("agreement", OF_LOSS + "}\n    " + AGREE.replace("name", "optimizer.lt"), "{opt", "optimizer.lt"),
        ("agreement", "of: {probe: loss, variable: los}\n    " + AGREE, "los}", "did you mean 'loss'"),
        ("invariant", "of: {analyzer: stages, variable: in_order}\n    at_most: 0.1", "in_or", "no curve"),
    ],
)
def test_misspelt_names_are_found_in_the_file(kind, lines, place, says):
    text = WHOLE % kind + f"    {lines}\n"
    text += "    relation: at_most\n    number: 1\n" if kind == "value" else ""
    with pytest.raises(SpecError) as caught:
        parse_spec(text, "x.yaml", check=rehearse)
    (problem,) = caught.value.problems
    line, column = map(int, problem.where.removeprefix("x.yaml:").split(":"))
    assert text.splitlines()[line - 1][column - 1 :].startswith(place), str(problem)
    assert says in problem.message
    assert problem.path.startswith("expect[0].")


def test_what_is_right_is_let_through():
    text = WHOLE % "value" + (
        "    of: {probe: attention, variable: entropy, labels: {query: [0, 2], lr: 0.2, seed: 2},"
        " across: max, window: [first, focus_peak], take: max}\n    relation: at_most\n    number: 1\n"
    )
    assert parse_spec(text, check=rehearse).expect[0].kind == "value"


def test_other_specs_are_looked_at_before_anything_is_run(tmp_path):
    lines = "    of: {probe: loss, variable: loss}\n    rtol: 0.1\n    other: {spec: nowhere.yaml}\n"
    (tmp_path / "x.yaml").write_text(WHOLE % "agreement" + lines, "utf-8")
    with pytest.raises(SpecError, match=r"nowhere\.yaml"):
        Suite(tmp_path / "runs").judge(tmp_path / "x.yaml")
    assert not (tmp_path / "runs").exists()


# -- what selections give -----------------------------------------------------------------------------------


def test_nan_among_heads_is_not_passed_over():
    attention = np.full((2, 3, 1, 2, 3, 3), 0.25)
    attention[0, -1, 0, 1] = np.nan
    run = made([[1, 1, 1.0]] * 2, attention=attention)
    of = {"probe": "attention", "variable": "attention", "labels": {"query": 0, "key": 1}, "at": "last"}
    found = judged("value", run, of=of | {"across": "max"}, relation="at_most", number=0.5)
    assert (found.verdict, found.n, found.trials) == ("holds", 1, 2)
    with pytest.raises(SelectionError, match="'head' needs a label"):
        judged("value", run, of=of, relation="at_most", number=0.5)


def test_labels_are_words_or_numbers():
    loss = [[3, 1.0], [3, 2.0], [3, 0.5]]
    run = made(loss, lr=[1e-3, 3e-3, 1e-2])
    for label, figure in ((0.001, 1.0), ("0.003", 2.0), ([0.003, 0.01], 1.25)):
        of = {"probe": "loss", "variable": "loss", "at": "last", "labels": {"lr": label}}
        assert judged("value", run, of=of, relation="at_most", number=9.0).figure == figure


def test_windows():
    run = made([[5, 1, 2, 4.0], [5, 3, 2, np.nan]])
    expected = {"min": 1, "max": 4, "mean": 7 / 3, "range": 3, "step_of_min": 10, "step_of_max": 30}
    for take, figure in expected.items():
        of = {"probe": "loss", "variable": "loss", "window": [10, "last"], "take": take}
        found = judged("value", run, of=of, relation="at_most", number=99.0)
        assert (found.figure, found.n) == (pytest.approx(figure), 2), take
    with pytest.raises(SelectionError, match="no record in it"):
        judged("value", run, of=of | {"window": [11, 19]}, relation="at_most", number=99.0)


def test_between_records_a_curve_is_straight():
    of = {"probe": "loss", "variable": "loss", "step": 5}
    assert judged("value", made([[5, 1, 2.0]]), of=of, relation="at_most", number=9).figure == 3.0
