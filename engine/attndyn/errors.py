"""Errors that are the user's to mend: each prints as clear lines, never as a traceback."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


class AttndynError(Exception):
    """Base of all errors the command line shows as a message; `exit_code` is what the process returns."""

    exit_code = 2


class PluginError(AttndynError):
    """A plugin is unknown, clashes with another, or failed to load; the message names it and its origin."""


class BackendError(AttndynError):
    """The requested backend cannot be used here; the message says why."""


class RunError(AttndynError):
    """A run's directory or file is missing, unreadable, or does not belong to the spec given."""


class AnalyzersFailed(RunError):
    """Some analyzers of a run failed; what the others made is kept.

    Attributes:
        failed: why, in a line, by the name of the analyzer.
    """

    exit_code = 4

    def __init__(self, failed: Mapping[str, str]):
        super().__init__("\n".join(f"the analyzer '{name}' failed: {why}" for name, why in failed.items()))
        self.failed = dict(failed)


class UnusableOption(Exception):
    """An option that is well-formed but cannot be used here: a file is missing, a text too short.

    Raised by plugins while they are made; whoever makes them says where the option stands.

    Attributes:
        path: of the option, inside the plugin's section.
        message: what was found and what is needed.
    """

    def __init__(self, path: tuple[str | int, ...], message: str):
        super().__init__(message)
        self.path = path
        self.message = message


@dataclass(frozen=True)
class Problem:
    """One thing wrong with a spec.

    Attributes:
        where: origin as `file:line:column`, or `--set path=value` for an override.
        path: path inside the spec, e.g. `data.stationary.pi[2]`; empty for the document itself.
        message: what was found and what is allowed.
    """

    where: str
    path: str
    message: str

    def __str__(self) -> str:
        path = f" {self.path}:" if self.path else ""
        return f"{self.where}:{path} {self.message}"


class SpecError(AttndynError):
    """A spec is wrong; `problems` lists every problem found, in the order of the file."""

    def __init__(self, problems: Iterable[Problem]):
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))
