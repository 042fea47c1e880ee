"""What several commands share: exit codes, and options that mean the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

FELL_SHORT, USAGE, DIVERGED, INTERRUPTED = 1, 2, 3, 130

Out = Annotated[Path, typer.Option(metavar="DIR", help="where runs are kept")]
OUTPUTS = Path("outputs")
Backend = Annotated[str, typer.Option(help="auto, numpy or cupy")]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="PATH=VALUE", help="change the spec, e.g. --set model.d_model=32", show_default=False
    ),
]
Plugins = Annotated[
    list[Path] | None,
    typer.Option(
        "--plugins", metavar="PATH", help="a file or folder of plugins; its code is run", show_default=False
    ),
]
