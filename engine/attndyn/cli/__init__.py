"""The command line: arguments, progress and exit codes; no logic of its own."""

from attndyn.cli.main import main

__all__ = ["main"]
