"""A planted fault fails the checks with a message that names it, and nothing else fails."""

from pathlib import Path

import pytest

from attndyn.conformance import Fault, check_class
from conformance import planted

FAULTS = {
    planted.WrongSign: (Fault.WRONG_SIGN, "gradient of W_K", "gradients"),
    planted.SwappedAxes: (Fault.SWAPPED_AXES, "gradient of W_Q", "gradients"),
    planted.MissingTerm: (Fault.MISSING_TERM, "gradient of W_0", "gradients"),
    planted.MissingGradient: (Fault.MISSING_TERM, "gradient of W_V", "gradients"),
    planted.WrongScores: (Fault.MISSING_TERM, "gradient of W_0", "gradients"),
    planted.MissingFactor: (Fault.WRONG_FACTOR, "gradient of W_O", "gradients"),
    planted.HostLeak: (Fault.HOST_LEAK, "step", "nothing leaves the device"),
    planted.HostResult: (Fault.HOST_LEAK, "gradient of W_1", "nothing leaves the device"),
    planted.LostReplica: (Fault.LOST_REPLICA, "gradient of W_1", "replicas are independent"),
    planted.SummedLoss: (Fault.LOST_REPLICA, "loss", "replicas are independent"),
    planted.MixedReplicas: (Fault.MIXED_REPLICAS, "gradient of W_V", "replicas are independent"),
    planted.Upcast: (Fault.DTYPE, "gradient of W_1", "dtype is kept"),
    planted.WrongClaim: (Fault.NOT_EXACT, "loss", "claimed representations agree"),
    planted.WrongLimit: (Fault.NOT_EXACT, "loss", "claimed representations agree"),
    planted.Noisy: (Fault.RANDOM, "loss", "repeatable, inputs untouched"),
    planted.Remembering: (Fault.HIDDEN_STATE, "loss", "repeatable, inputs untouched"),
    planted.Modifying: (Fault.INPUT_MODIFIED, "parameter W_0", "repeatable, inputs untouched"),
    planted.SwappedAttention: (Fault.SWAPPED_AXES, "attention", "attention rows sum to 1"),
    planted.SwappedDeclaration: (Fault.SWAPPED_AXES, "parameter W_0", "declarations are true"),
    planted.NotFinite: (Fault.NOT_FINITE, "loss", "smallest sizes"),
    planted.Raising: (Fault.ERROR, "ZeroDivisionError", "shapes"),
}


def test_without_a_fault_nothing_fails():
    report = check_class("architecture", planted.Sound, "sound")
    assert report.passed, str(report)
    assert all(result.n_cases == 1 for result in report.results)
    assert "passes all of 10 checks" in str(report)


@pytest.mark.parametrize("cls", FAULTS, ids=lambda cls: cls.__name__)
def test_planted_fault_is_named(cls):
    fault, subject, check = FAULTS[cls]
    report = check_class("architecture", cls, "planted")
    found = {(result.check, f.fault, f.subject) for result in report.results for f in result.failures}
    assert (check, fault, subject) in found
    assert {f.fault for f in report.failures} == {fault}, str(report)
    assert f"{check}: {fault}: {subject}" in str(report)


def test_every_planted_architecture_is_tested():
    classes = {c for c in vars(planted).values() if isinstance(c, type) and issubclass(c, planted.Sound)}
    assert classes == {*FAULTS, planted.Sound}


def test_a_line_of_the_plugin_is_named():
    (failure,) = check_class("architecture", planted.Raising, "planted").failures
    source = Path(planted.__file__).read_text("utf-8").splitlines()
    line = next(n for n, text in enumerate(source, 1) if "raise ZeroDivisionError" in text)
    assert f"no contexts ({planted.__file__}:{line})" in failure.detail
    leak = check_class("architecture", planted.HostLeak, "planted").failures[0]
    line = next(n for n, text in enumerate(source, 1) if "np.ones(loss.shape" in text)
    assert f"{planted.__file__}:{line}" in leak.detail
