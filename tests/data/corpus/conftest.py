"""What the tests of texts share: packages of the extra `corpora`."""

import importlib
import os

import pytest


@pytest.fixture
def optional():
    """A function that imports such a package; without it a test is skipped, but not in integration."""
    return importlib.import_module if os.environ.get("CI") else pytest.importorskip
