"""Every spec that ships passes the suite `core`."""

from pathlib import Path

import pytest

from attndyn.conformance import check_spec
from attndyn.spec import load_spec

SPECS = Path(__file__).parents[2] / "specs"
SHIPPED = sorted(SPECS.rglob("*.yaml"))


def test_there_are_specs():
    assert SHIPPED


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.relative_to(SPECS).as_posix())
def test_conforms(path):
    report = check_spec(load_spec(path))
    assert report.passed, str(report)
    assert all(result.n_cases == 1 for result in report.results)
