"""Every plugin that ships passes its checks; a few option sets here, all of them where plugins are tested."""

from importlib.metadata import entry_points

import pytest

from attndyn.conformance import check_plugin
from attndyn.conformance.plugins import SUITES

SHIPPED = [
    (kind, entry.name)
    for kind in SUITES
    for entry in entry_points(group=f"attndyn.{kind}")
    if entry.dist and entry.dist.name == "attndyn"
]


@pytest.mark.parametrize(("kind", "name"), SHIPPED, ids=[":".join(pair) for pair in SHIPPED])
def test_conforms(kind, name):
    report = check_plugin(kind, name, limit=4)
    assert report.passed, str(report)
    assert all(result.n_cases >= 1 for result in report.results)
