"""Stopping a run between two steps when the user or the machine asks for it."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType


class Interrupt:
    """While entered, the first SIGINT or SIGTERM is remembered instead of breaking in; a second breaks in.

    Calling it says whether one came. Outside the main thread, where Python has no signals, it says no.
    """

    def __init__(self) -> None:
        self._came = False
        self._before: dict[signal.Signals, object] = {}

    def __call__(self) -> bool:
        """Whether a signal came."""
        return self._came

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._remember)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._give_back()

    def _remember(self, number: int, frame: FrameType | None) -> None:
        self._came = True
        self._give_back()

    def _give_back(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._before.clear()
