"""A suite's findings for other programs: `conformance.json`, and JUnit XML for continuous integration."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from attndyn import __version__
from attndyn.conformance.faults import Report, Result
from attndyn.conformance.suite import Judged
from attndyn.conformance.verdicts import Finding
from attndyn.provenance import code_sha256
from attndyn.spec import Spec
from attndyn.spec.words import printable

LIBRARIES = ("numpy", "scipy", "xarray", "netCDF4")


@dataclass(frozen=True)
class Checked:
    """A spec and what came of the suite `core`.

    Attributes:
        path: the spec's file.
        spec: as loaded.
        report: check by check.
    """

    path: Path
    spec: Spec
    report: Report


def versions() -> dict[str, str]:
    """Versions that figures may depend on, by name."""
    return {
        "attndyn": __version__,
        "Python": platform.python_version(),
        **{name: version(name) for name in LIBRARIES},
    }


def as_json(
    judged: Sequence[Judged],
    refused: Mapping[Path, str],
    created: str,
    checked: Sequence[Checked] = (),
    left_out: Mapping[Path, str] | None = None,
) -> str:
    """Everything that was found, spec by spec.

    Args:
        judged: specs and their findings.
        refused: what is wrong with the specs that could not be judged, in lines.
        created: the time, in ISO 8601.
        checked: specs and what came of the suite `core`.
        left_out: why there is nothing to judge of specs that are as they should be.
    """
    document = {
        "created": created,
        "versions": versions(),
        "code_sha256": code_sha256(),
        "specs": [_spec(each) for each in judged],
        "core": [_core(each) for each in checked],
        "left_out": [{"spec": p.as_posix(), "reason": m} for p, m in (left_out or {}).items()],
        "refused": [{"spec": p.as_posix(), "problems": m.splitlines()} for p, m in refused.items()],
    }
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def _heading(path: Path, spec: Spec) -> dict[str, Any]:
    return {"spec": path.as_posix(), "name": spec.name, "spec_sha256": spec.sha256}


def _spec(judged: Judged) -> dict[str, Any]:
    return {
        **_heading(judged.path, judged.spec),
        "simulation_sha256": judged.spec.simulation_sha256,
        "runs": [run.as_posix() for run in judged.runs],
        "findings": [_finding(finding) for finding in judged.findings],
    }


def _core(checked: Checked) -> dict[str, Any]:
    return {
        **_heading(checked.path, checked.spec),
        "passed": checked.report.passed,
        "checks": [_check(result) for result in checked.report.results],
    }


def _check(result: Result) -> dict[str, Any]:
    faults = [
        {
            "fault": f.fault.value,
            "subject": printable(f.subject),
            "detail": printable(f.detail),
            "case": f.case,
        }
        for f in result.failures
    ]
    return {"check": result.check, "verdict": result.verdict, "faults": faults}


def _finding(finding: Finding) -> dict[str, Any]:
    values = asdict(finding) | {"as_recorded": finding.as_recorded}
    # JSON has no infinity
    infinite = {k: _finite(v) for k, v in values.items() if isinstance(v, float)}
    pairs = {k: [_finite(v) for v in pair] for k, pair in values.items() if isinstance(pair, tuple)}
    return values | infinite | pairs


def _finite(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def as_junit(
    judged: Sequence[Judged],
    refused: Mapping[Path, str],
    checked: Sequence[Checked] = (),
    left_out: Mapping[Path, str] | None = None,
) -> str:
    """JUnit XML: a suite for each spec, a case for each claim, which fails if not as recorded.

    The suite `core` of a spec is another one, with a case for each check. A spec of which there is nothing to
    judge is a suite of one case, which is skipped; one that could not be judged, of one that is an error.
    """
    root = ElementTree.Element("testsuites", name="attndyn conform")
    for each in judged:
        differ = [f for f in each.findings if f.verdict is not None and not f.as_recorded]
        broken = [f for f in each.findings if f.verdict is None]
        suite = _suite(root, each.spec.name, len(each.findings), len(differ), len(broken))
        for finding in each.findings:
            _case(suite, each.path, finding)
    for core in checked:
        _core_suite(root, core)
    for path, message in (left_out or {}).items():
        _single(root, path, "claims", "skipped", message)
    for path, message in refused.items():
        _single(root, path, "spec", "error", message)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _suite(
    root: ElementTree.Element, name: str, tests: int, failures: int = 0, errors: int = 0, skipped: int = 0
) -> ElementTree.Element:
    found = {"tests": tests, "failures": failures, "errors": errors, "skipped": skipped}
    counts = {name: str(count) for name, count in found.items()}
    return ElementTree.SubElement(root, "testsuite", {"name": name, **counts})


def _single(root: ElementTree.Element, path: Path, name: str, outcome: str, message: str) -> None:
    """A suite of one case, which is `skipped` or an `error`."""
    suite = _suite(root, path.stem, 1, errors=int(outcome == "error"), skipped=int(outcome == "skipped"))
    case = ElementTree.SubElement(suite, "testcase", classname=path.stem, name=name, file=path.as_posix())
    ElementTree.SubElement(case, outcome, message=" ".join(message.split()))


def _core_suite(root: ElementTree.Element, checked: Checked) -> None:
    name, results = f"{checked.spec.name}.core", checked.report.results
    verdicts = [result.verdict for result in results]
    counts = len(results), verdicts.count("fails"), 0, verdicts.count("not reached")
    suite = _suite(root, name, *counts)
    for result in results:
        case = ElementTree.SubElement(
            suite, "testcase", classname=name, name=result.check, file=checked.path.as_posix()
        )
        if result.verdict == "not reached":
            ElementTree.SubElement(case, "skipped", message="an earlier check fails")
        elif result.failures:
            lines = [printable(str(failure)) for failure in result.failures]
            ElementTree.SubElement(case, "failure", message=lines[0]).text = "\n".join(lines)


def _case(suite: ElementTree.Element, path: Path, finding: Finding) -> None:
    name = suite.get("name") or ""
    case = ElementTree.SubElement(suite, "testcase", classname=name, name=finding.id, file=path.as_posix())
    if finding.verdict is None:
        ElementTree.SubElement(case, "error", message=finding.problem)
    elif not finding.as_recorded:
        said = f"{finding.verdict}; on record is: {finding.recorded}"
        ElementTree.SubElement(case, "failure", message=said).text = finding.claim
    out = ElementTree.SubElement(case, "system-out")
    out.text = f"{finding.verdict}: {finding.figure} {finding.units}, {finding.k} of {finding.n}"
