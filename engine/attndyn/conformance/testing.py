"""For tests of plugins: `pytest_plugins = ["attndyn.conformance.testing"]` brings the fixture `conform`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attndyn.conformance.plugins import LIMIT, check_plugin, find


@pytest.fixture
def conform() -> Callable[..., None]:
    """A function that checks plugins, and fails the test with all of their faults, one a line.

    `conform(plugin, limit=24, **options)`: the plugin is `kind:name`, a name, or the path to a file or
    folder of plugins; `limit` is the number of option sets to check it with, at most; `options` are values
    of its options, which are otherwise varied.
    """

    def check(plugin: str | Path, limit: int = LIMIT, **options: Any) -> None:
        reports = [check_plugin(kind, name, options, limit) for kind, name in find(str(plugin))]
        faulty = [str(report) for report in reports if not report.passed]
        if faulty:
            pytest.fail("\n".join(faulty), pytrace=False)

    return check
