"""Specification-driven simulation of how attention learns.

spec = attndyn.load_spec("specs/paper/figure2.yaml")
run = attndyn.run(spec)
run.trajectory["attention"]["attention"].sel(key="0")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["Run", "load_spec", "open_run", "run"]

if TYPE_CHECKING:
    from attndyn.runs import Run, open_run, run
    from attndyn.spec import load_spec

_HOMES = {"Run": "runs", "open_run": "runs", "run": "runs", "load_spec": "spec"}


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def __getattr__(name: str) -> Any:
    # imported when first used: `attndyn --help` need not wait for xarray
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(f"attndyn.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'attndyn' has no attribute '{name}'")
