"""What a check reports: a fault by name, what has it, and how it shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from traceback import extract_tb
from typing import Any


class Fault(StrEnum):
    """The faults that checks can tell apart."""

    WRONG_SIGN = "wrong sign"
    SWAPPED_AXES = "swapped axes"
    MISSING_TERM = "missing term"
    WRONG_FACTOR = "wrong factor"
    HOST_LEAK = "host-array leak"
    LOST_REPLICA = "lost replica"
    MIXED_REPLICAS = "mixed replicas"
    NOT_EXACT = "wrong exactness claim"
    DTYPE = "dtype not kept"
    SHAPE = "wrong shape"
    DECLARATION = "wrong declaration"
    NOT_FINITE = "not finite"
    NOT_NORMALISED = "not normalised"
    RANDOM = "not deterministic"
    HIDDEN_STATE = "hidden state"
    INPUT_MODIFIED = "input modified"
    VIEW = "view of the state"
    NOT_IN_PLACE = "not in place"
    NOT_RESTORED = "not restored"
    NOT_CONSERVED = "not conserved"
    OFF_FORMAT = "not as documented"
    UNLABELLED = "unlabelled"
    NOTHING_DRAWN = "nothing drawn"
    CANNOT_FAIL = "cannot fail"
    ERROR = "error"


@dataclass(frozen=True)
class Failure:
    """One fault that a check has found.

    Attributes:
        fault: its name.
        subject: what has it, e.g. `gradient of W_0`.
        detail: how it shows.
        case: the options and sizes at which it was first seen.
        n_cases: how many cases showed it.
    """

    fault: Fault
    subject: str
    detail: str
    case: str = ""
    n_cases: int = 1

    def __str__(self) -> str:
        more = f", and {self.n_cases - 1} more" if self.n_cases > 1 else ""
        where = f" [{self.case}{more}]" if self.case else ""
        return f"{self.fault}: {self.subject} {self.detail}{where}"


@dataclass(frozen=True)
class Result:
    """What came of one check: in how many cases it was made, and every fault, each once."""

    check: str
    n_cases: int
    failures: tuple[Failure, ...]

    @property
    def verdict(self) -> str:
        """`fails`, `holds`, or `not reached` where an earlier check failed in every case."""
        if not self.n_cases:
            return "not reached"
        return "fails" if self.failures else "holds"


@dataclass(frozen=True)
class Report:
    """What came of all checks of one plugin.

    Attributes:
        kind: of the plugin.
        name: of the plugin.
        origin: where it comes from.
        results: check by check, in the order in which they were made.
    """

    kind: str
    name: str
    origin: str
    results: tuple[Result, ...]

    @property
    def failures(self) -> tuple[Failure, ...]:
        """All faults found."""
        return tuple(failure for result in self.results for failure in result.failures)

    @property
    def passed(self) -> bool:
        """Whether no fault was found."""
        return not self.failures

    def __str__(self) -> str:
        title = f"{self.kind} '{self.name}' ({self.origin})"
        if self.passed:
            return f"{title} passes all of {len(self.results)} checks"
        lines = [f"  {result.check}: {f}" for result in self.results for f in result.failures]
        return "\n".join([f"{title} does not conform:", *lines])


Check = Callable[[Any], Iterable[Failure]]


def run_checks(
    checks: Mapping[str, Check], cases: Sequence[tuple[str, Any]], source: str
) -> tuple[Result, ...]:
    """Every check in every case, up to a check that raises: what comes after would raise again.

    A case in which the first check fails is left out by the others too.

    Args:
        checks: by name.
        cases: a label, and what the checks are given.
        source: the plugin's file, whose lines are named where it raises.
    """
    results: list[Result] = []
    for name, check in checks.items():
        found: dict[tuple[Fault, str], Failure] = {}
        sound = []
        for label, case in cases:
            failures = list(_guarded(check, case, source))
            for failure in failures:
                key = (failure.fault, failure.subject)
                earlier = found.get(key) or replace(failure, case=label, n_cases=0)
                found[key] = replace(earlier, n_cases=earlier.n_cases + 1)
            if not failures or (results and all(f.fault != Fault.ERROR for f in failures)):
                sound.append((label, case))
        results.append(Result(name, len(cases), tuple(found.values())))
        cases = sound
    return tuple(results)


def _guarded(check: Check, case: Any, source: str) -> Iterator[Failure]:
    """The failures of a check in one case, each fault of a subject once; that it raised is one."""
    seen = set()
    try:
        for failure in check(case):
            if (failure.fault, failure.subject) not in seen:
                seen.add((failure.fault, failure.subject))
                yield failure
    except (Exception, SystemExit) as error:  # a plugin may raise anything
        yield Failure(Fault.ERROR, type(error).__name__, f"is raised: {blame(error, source)}")


def blame(error: BaseException, source: str) -> str:
    """What an error says, and the last line of the plugin's file on the way to it, on one line."""
    text = " ".join(str(error).split())[:300]
    frames = extract_tb(error.__traceback__)
    frame = next((f for f in reversed(frames) if f.filename == source), frames[-1])
    return f"{text} ({frame.filename}:{frame.lineno})"
