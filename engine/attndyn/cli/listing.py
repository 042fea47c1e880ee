"""What `attndyn plugins` prints."""

from __future__ import annotations

import inspect

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from attndyn import registry
from attndyn.errors import PluginError
from attndyn.spec.options import options_of
from attndyn.spec.words import printable

#: columns where there is no terminal to fit into, so that a line is a plugin
WIDE = 400


def show_plugins(kind: str | None, name: str | None, options: bool) -> None:
    """Print a table of plugins: of all kinds or one, with a table of options below each if asked for.

    Raises:
        PluginError: there is no such kind or plugin, or the one that was named does not load.
    """
    if kind is not None and kind not in registry.KINDS:
        raise PluginError(f"unknown kind '{kind}'; {registry.nearest(kind, list(registry.KINDS))}")
    if kind is not None and name is not None:
        registry.get(kind, name)
    console = Console()
    if not console.is_terminal:
        console.width = WIDE
    kinds = [kind] if kind else registry.KINDS
    chosen = [(k, n) for k in kinds for n in registry.names(k) if name in (None, n)]
    if not options:
        console.print(_table("kind", "name", "from", "what it is", rows=[_row(*key) for key in chosen]))
        return
    for key in chosen:
        console.print(_table(rows=[_row(*key)]))
        console.print(_options(*key))


def _row(kind: str, name: str) -> list[str]:
    """Kind, name, origin and the first line of its docstring, or why it does not load."""
    try:
        what = inspect.cleandoc(registry.get(kind, name).__doc__ or "").partition("\n")[0]
    except PluginError as error:
        what = f"does not load: {error}"
    return [kind, name, registry.origin(kind, name), what]


def _options(kind: str, name: str) -> Table | str:
    try:
        section = registry.get(kind, name).Options
    except PluginError:
        return ""
    rows = [[f"  {option.path}", *option[1:]] for option in options_of(section)]
    return _table("  option", "type", "default", "what it is", rows=rows) if rows else "  no options\n"


def _table(*columns: str, rows: list[list[str]]) -> Table:
    table = Table(*columns, box=None, show_header=bool(columns), pad_edge=False)
    for row in rows:
        table.add_row(*(escape(printable(cell)) for cell in row))
    return table
