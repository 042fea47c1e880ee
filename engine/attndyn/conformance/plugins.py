"""All checks of a plugin, by its kind."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from attndyn import registry
from attndyn.conformance import (
    analyzers,
    architectures,
    data_sources,
    example_runs,
    expectation_checks,
    optimizers,
    probes,
)
from attndyn.conformance.bench import Bench
from attndyn.conformance.faults import Check, Report, run_checks
from attndyn.conformance.options import option_sets
from attndyn.errors import PluginError
from attndyn.spec.checks import alternatives

#: option sets that a plugin is checked with, at most
LIMIT = 24

Sets = Sequence[tuple[str, Any]]
Cases = list[tuple[str, Any]]


class Suite(NamedTuple):
    """How plugins of one kind are checked.

    Attributes:
        checks: by name.
        fixed: options that are the same in all sets, given the class.
        cases: what the checks are given, made of the class, its option sets and its file.
    """

    checks: Mapping[str, Check]
    fixed: Callable[[Any], Mapping[str, Any]]
    cases: Callable[[Any, Sets, str], Cases]


def check_plugin(
    kind: str, name: str, options: Mapping[str, Any] | None = None, limit: int = LIMIT
) -> Report:
    """Every check of a plugin.

    Args:
        kind: `architecture`, `analyzer`, `optimizer`, `probe`, `data` or `expectation`.
        name: of the plugin.
        options: values of some of its options; the others are varied.
        limit: most option sets to check it with; where there are more, a fixed choice of them.

    Raises:
        PluginError: there is no such plugin, it does not load, or its options cannot be made up.
    """
    cls = registry.get(kind, name)
    return check_class(kind, cls, name, registry.origin(kind, name), options, limit)


def check_class(
    kind: str,
    cls: Any,
    name: str,
    origin: str = "",
    options: Mapping[str, Any] | None = None,
    limit: int = LIMIT,
) -> Report:
    """Every check of a plugin's class, registered or not; see `check_plugin`."""
    if kind not in SUITES:
        raise PluginError(f"{kind} '{name}': there are no checks for this kind; for: {', '.join(SUITES)}")
    suite = SUITES[kind]
    source = inspect.getsourcefile(cls) or ""
    try:
        sets = option_sets(cls.Options, {**suite.fixed(cls), **(options or {})}, limit)
        cases = suite.cases(cls, sets, source)
    except PluginError as error:
        raise PluginError(f"{kind} '{name}': {error}") from None
    # infinities and NaN are what checks look for
    with np.errstate(all="ignore"):
        results = run_checks(suite.checks, cases, source)
    return Report(kind, name, origin or source, results)


def find(plugin: str) -> list[tuple[str, str]]:
    """Kind and name of what the user calls `kind:name`, a name, or a path to a file or folder of plugins.

    Raises:
        PluginError: it is none of these.
    """
    kind, colon, name = plugin.partition(":")
    if colon and kind in registry.KINDS:
        registry.get(kind, name)
        return [(kind, name)]
    if plugin and (Path(plugin).suffix == ".py" or Path(plugin).is_dir()):
        return registry.load_file(plugin)
    found = [(kind, plugin) for kind in registry.KINDS if plugin in registry.names(kind)]
    if not found:
        names = sorted({name for kind in registry.KINDS for name in registry.names(kind)})
        raise PluginError(
            f"'{plugin}' is no plugin, KIND:NAME or file of plugins; {registry.nearest(plugin, names)}"
        )
    return found


def _architecture_cases(cls: Any, sets: Sets, source: str) -> Cases:
    return [(label, Bench(cls, options, source)) for label, options in sets]


def _optimizer_cases(cls: Any, sets: Sets, source: str) -> Cases:
    return [(label, optimizers.course(cls, options, source)) for label, options in sets]


def _data_cases(cls: Any, sets: Sets, source: str) -> Cases:
    return [(label, data_sources.Source(cls, options)) for label, options in sets]


def _probe_cases(cls: Any, sets: Sets, source: str) -> Cases:
    """Some option sets in a simulation of every form that the probe does not refuse.

    Raises:
        PluginError: it refuses all.
    """
    every = [
        (f"{form}; {label}", probes.Watched(cls, options, form, source))
        for label, options in islice(sets, 4)
        for form in example_runs.FORMS
    ]
    refused = {label: case.refused for label, case in every}
    cases = [(label, case) for label, case in every if not refused[label]]
    if not cases:
        raise PluginError(f"refuses every spec that it is checked on: {next(iter(refused.values()))}")
    return cases


def _analyzer_cases(cls: Any, sets: Sets, source: str) -> Cases:
    """Some option sets on the usual trajectory, the first on the awkward ones."""
    trees = example_runs.trajectories(tuple(alternatives(each)[0] for each in cls.requires) or ("loss",))
    usual, *awkward = trees
    return [
        *((f"{usual}; {o}", analyzers.Reading(cls, valid, trees[usual], True)) for o, valid in sets[:6]),
        *((name, analyzers.Reading(cls, sets[0][1], trees[name], False)) for name in awkward),
    ]


def _expectation_cases(cls: Any, sets: Sets, source: str) -> Cases:
    """The examples that it declares; they say more than options made up."""
    return [("its examples", expectation_checks.Examples(cls))]


SUITES = {
    "architecture": Suite(architectures.CHECKS, lambda cls: architectures.FIXED, _architecture_cases),
    "analyzer": Suite(analyzers.CHECKS, lambda cls: {}, _analyzer_cases),
    "optimizer": Suite(optimizers.CHECKS, optimizers.fixed, _optimizer_cases),
    "probe": Suite(probes.CHECKS, lambda cls: probes.FIXED, _probe_cases),
    "data": Suite(data_sources.CHECKS, data_sources.fixed, _data_cases),
    "expectation": Suite(expectation_checks.CHECKS, expectation_checks.fixed, _expectation_cases),
}
