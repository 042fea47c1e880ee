"""The progress bar and the stage it shows, without a terminal of its own."""

import io

import numpy as np
from rich.console import Console

from attndyn.analysis import monitor
from attndyn.cli.progress import Progress
from attndyn.cli.watch import StageWatch
from attndyn.simulation import Simulation


def test_the_bar_shows_loss_and_stage(small, monkeypatch):
    """On a terminal it names the experiment, the loss and the stage; elsewhere it prints nothing."""
    for terminal in (True, False):
        out = io.StringIO()
        console = Console(file=out, force_terminal=terminal, width=120)
        monkeypatch.setattr("attndyn.cli.progress.Console", lambda stderr, c=console: c)
        with Progress() as progress:
            Simulation(small(), "numpy").run([progress])
        if terminal:
            assert "small" in out.getvalue()
            assert "condensation" in out.getvalue()
            assert "loss 1." in out.getvalue()
        else:
            assert out.getvalue() == ""


def test_what_is_no_run_is_named_while_it_is_done(small, monkeypatch):
    """Beside the bar of a run, if there is one; then it is gone. Without a terminal nothing is said."""
    for terminal in (True, False):
        out = io.StringIO()
        console = Console(file=out, force_terminal=terminal, width=120)
        monkeypatch.setattr("attndyn.cli.progress.Console", lambda stderr, c=console: c)
        with Progress() as progress:
            with progress.doing("judging"):
                Simulation(small(), "numpy").run([progress])
            assert [task.description for task in progress._bar.tasks] == ["small"]
        assert ("judging" in out.getvalue()) == terminal


def test_the_watch_keeps_a_bounded_history(small, monkeypatch):
    monkeypatch.setattr(monitor, "MOST", 8)
    simulation = Simulation(
        small("training.steps=100", "probes={parameters: {every: 1}, attention: {every: 1}}")
    )
    watch = StageWatch(simulation)

    class Watching:
        def start(self, simulation): ...

        def record(self, probe, step, values):
            watch.record(probe, step, values)

        def advance(self, simulation):
            assert watch.stage() == "condensation"

        def finish(self, simulation, outcome): ...

    simulation.run([Watching()])
    steps = [record[0] for record in watch._monitor._attention]
    assert len(steps) <= 8
    assert steps == sorted(steps)
    assert steps[-1] == 99  # the loop asks before it records the last


def test_no_stage_where_the_probes_do_not_allow_it(small):
    for probes in ("{loss: {every: 1}}", "{attention: {every: 1, most: 1}, parameters: {every: 1}}"):
        simulation = Simulation(small(f"probes={probes}"), "numpy")
        watch = StageWatch(simulation)
        watch.record("loss", 0, {"loss": np.zeros(3)})
        assert watch.stage() == ""
