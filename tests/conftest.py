"""Fixtures that several rooms' tests share, and what to do where there is no browser."""

import os
import shutil

import pytest

from attndyn.spec import parse_spec

# small, with sizes that are all different, and every probe
SMALL = """
name: small
data:
  kind: markov
  stationary: {kind: geometric, d_vocab: 4, ratio: 0.4}
  transition: {kind: sticky, lam: 0.5}
  n_ctx: 12
  batch: 7
model: {architecture: pure_attention, d_model: 5, init: {kind: normal, std: 0.3}}
optimizer: {kind: adam, lr: 1e-2}
training: {steps: 6}
replicas: {seeds: 3}
probes: {loss: {every: 1}, attention: {every: 2}, parameters: {every: 4}, gradients: {steps: [1, 5]}}
"""


@pytest.fixture
def small():
    """A function from overrides (`path=value`) to a small valid spec with these changes."""
    return lambda *overrides: parse_spec(SMALL, overrides=overrides)


def pytest_runtest_setup(item):
    """Without chromium a test marked `browser` is skipped; in continuous integration it fails."""
    if item.get_closest_marker("browser") and shutil.which("chromium") is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("chromium is not installed")


def pytest_terminal_summary(terminalreporter):
    """Say it once more where it is seen."""
    if shutil.which("chromium") is None:
        terminalreporter.write_line(
            "chromium is not installed: the report was not opened in a browser", yellow=True
        )
