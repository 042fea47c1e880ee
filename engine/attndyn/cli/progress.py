"""Progress on the terminal; nothing where the output is not one."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from attndyn import registry
from attndyn.backend import Array
from attndyn.simulation import Outcome, Simulation

REFRESH_SECONDS = 0.2


class Progress:
    """A sink that shows a bar with the loss, the stage of the first replica, and the time left."""

    def __init__(self) -> None:
        console = Console(stderr=True)
        self._shown = console.is_terminal
        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[loss]}  {task.fields[stage]}"),
            TimeRemainingColumn(),
            console=console,
            disable=not self._shown,
        )
        self._loss: Array | None = None
        self._next = 0.0

    def __enter__(self) -> Progress:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def start(self, simulation: Simulation) -> None:
        """See `Sink.start`; says what is run, and how, whether there is a terminal or not."""
        print(summary(simulation))
        if (data := simulation.data.summary()) is not None:
            print(data)
        for file, sha256 in registry.digests(simulation.spec.plugins).items():
            print(f"plugin {file}, sha256 {sha256}")
        if self._shown:
            from attndyn.cli.watch import StageWatch

            self._watch = StageWatch(simulation)
        self._task = self._bar.add_task(
            simulation.spec.name, total=simulation.steps, completed=simulation.step, loss="", stage=""
        )

    @contextmanager
    def doing(self, what: str) -> Iterator[None]:
        """Show what is being done, while it is, where there are no steps to count."""
        task = self._bar.add_task(what, total=None, loss="", stage="")
        try:
            yield
        finally:
            self._bar.remove_task(task)

    def record(self, probe: str, step: int, values: Mapping[str, Array]) -> None:
        """See `Sink.record`."""
        if not self._shown:
            return
        if probe == "loss":
            self._loss = values["loss"]
        self._watch.record(probe, step, values)

    def advance(self, simulation: Simulation) -> None:
        """See `Sink.advance`."""
        if self._shown and time.monotonic() >= self._next:
            self._show(simulation)
            self._next = time.monotonic() + REFRESH_SECONDS

    def during(self, simulation: Simulation) -> None:
        """See `Onlooker.during`."""
        self.advance(simulation)

    def finish(self, simulation: Simulation, outcome: Outcome) -> None:
        """See `Sink.finish`."""
        if self._shown:
            self._show(simulation)

    def _show(self, simulation: Simulation) -> None:
        loss = ""
        if self._loss is not None:
            host = simulation.backend.to_host(self._loss)
            loss = f"loss {np.median(host):.4f}"
        self._bar.update(self._task, completed=simulation.progress, loss=loss, stage=self._watch.stage())


def summary(simulation: Simulation) -> str:
    """One line on what is run and how, for the log."""
    n_replicas, n_parameters = simulation.parameters.flat.shape
    from_step = f" from step {simulation.step}" if simulation.step else ""
    return (
        f"{simulation.spec.name}: {simulation.steps} steps{from_step}, {n_replicas} "
        f"replica{'s' if n_replicas > 1 else ''} of {n_parameters} parameters, "
        f"backend {simulation.backend.name}, {simulation.backend.dtype}, "
        f"representation {simulation.representation}"
    )


@contextmanager
def announce(doing: str) -> Iterator[None]:
    """Say on the terminal what is being done, while it is."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(doing):
        yield
