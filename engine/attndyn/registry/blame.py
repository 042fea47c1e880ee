"""Why an import failed, on one line that begins with the place in the plugin's own code."""

from __future__ import annotations

import os
import traceback

from attndyn.errors import PluginError


def blame(error: BaseException, module: str) -> str:
    """`file:line: cause` of an error raised while `module` was imported.

    The line is the last one of the module, or of the package that it is, on the way to the error: what went
    wrong further down was asked for there. The place is left out if no line of it was reached.
    """
    top = module.partition(".")[0]
    frames = [
        (frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if str(frame.f_globals.get("__name__")).partition(".")[0] == top
    ]
    if isinstance(error, SyntaxError) and error.filename and os.path.isfile(error.filename):
        frames = [(error.filename, error.lineno or 1)]
    where = "{}:{}: ".format(*frames[-1]) if frames else ""
    return where + _cause(error)


def _cause(error: BaseException) -> str:
    said = error.msg if isinstance(error, SyntaxError) else str(error)
    cause = said if isinstance(error, PluginError) else f"{type(error).__name__}: {said}"
    return " ".join(cause.split())
