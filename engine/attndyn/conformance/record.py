"""A suite's findings for other programs: `conformance.json`, and JUnit XML for continuous integration."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from attndyn import __version__
from attndyn.conformance.suite import Judged
from attndyn.conformance.verdicts import Finding
from attndyn.provenance import code_sha256

LIBRARIES = ("numpy", "scipy", "xarray", "netCDF4")


def versions() -> dict[str, str]:
    """Versions that figures may depend on, by name."""
    return {
        "attndyn": __version__,
        "Python": platform.python_version(),
        **{name: version(name) for name in LIBRARIES},
    }


def as_json(judged: Sequence[Judged], refused: Mapping[Path, str], created: str) -> str:
    """Everything that was found, spec by spec.

    Args:
        judged: specs and their findings.
        refused: what is wrong with the specs that could not be judged, in lines.
        created: the time, in ISO 8601.
    """
    document = {
        "created": created,
        "versions": versions(),
        "code_sha256": code_sha256(),
        "specs": [_spec(each) for each in judged],
        "refused": [{"spec": p.as_posix(), "problems": m.splitlines()} for p, m in refused.items()],
    }
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def _spec(judged: Judged) -> dict[str, Any]:
    return {
        "spec": judged.path.as_posix(),
        "name": judged.spec.name,
        "spec_sha256": judged.spec.sha256,
        "simulation_sha256": judged.spec.simulation_sha256,
        "runs": [run.as_posix() for run in judged.runs],
        "findings": [_finding(finding) for finding in judged.findings],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    values = asdict(finding) | {"as_recorded": finding.as_recorded}
    # JSON has no infinity
    infinite = {k: _finite(v) for k, v in values.items() if isinstance(v, float)}
    pairs = {k: [_finite(v) for v in pair] for k, pair in values.items() if isinstance(pair, tuple)}
    return values | infinite | pairs


def _finite(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def as_junit(judged: Sequence[Judged], refused: Mapping[Path, str]) -> str:
    """JUnit XML: a suite for each spec, a case for each claim, which fails if not as recorded.

    A spec that could not be judged is a suite of one case, which is an error.
    """
    root = ElementTree.Element("testsuites", name="attndyn conform")
    for each in judged:
        differ = [f for f in each.findings if f.verdict is not None and not f.as_recorded]
        broken = [f for f in each.findings if f.verdict is None]
        suite = _suite(root, each.spec.name, len(each.findings), len(differ), len(broken))
        for finding in each.findings:
            _case(suite, each.path, finding)
    for path, message in refused.items():
        suite = _suite(root, path.stem, 1, 0, 1)
        case = ElementTree.SubElement(
            suite, "testcase", classname=path.stem, name="spec", file=path.as_posix()
        )
        ElementTree.SubElement(case, "error", message=" ".join(message.split()))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _suite(
    root: ElementTree.Element, name: str, tests: int, failures: int, errors: int
) -> ElementTree.Element:
    counts = {"tests": str(tests), "failures": str(failures), "errors": str(errors)}
    return ElementTree.SubElement(root, "testsuite", {"name": name, **counts})


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
