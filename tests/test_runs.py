"""Runs as directories, from Python."""

import os
import signal

import numpy as np
import pytest
import xarray as xr

import attndyn
from attndyn import registry
from attndyn.errors import AnalyzersFailed, RunError, SpecError, UnusableOption
from attndyn.runs import Run, StatusSink
from attndyn.simulation import Simulation
from attndyn.trajectory import TrajectoryWriter

ANALYZERS = "analyzers=[norms, condensation]"


def test_a_run_and_its_directory(small, tmp_path):
    run = attndyn.run(small(ANALYZERS, "probes.parameters={every: 1}"), tmp_path)
    assert run.directory.parent == tmp_path / "small"
    assert {path.name for path in run.directory.iterdir()} == {
        *("spec.yaml", "trajectory.nc", "checkpoint.npz", "status.json")
    }
    assert run.status == {"state": "complete", "step": 6, "steps": 6, "diverged": []}
    assert run.spec == small(ANALYZERS, "probes.parameters={every: 1}")
    assert run.trajectory["loss"]["loss"].shape == (3, 7)
    assert run.analysis == {}


def test_analyses_are_kept_and_added_to(small, tmp_path):
    run = attndyn.run(small(ANALYZERS), tmp_path)
    assert run.analyze().keys() == {"norms", "condensation"}
    run.analyze(["projection"])
    kept = attndyn.open_run(run.directory).analysis
    assert kept.keys() == {"norms", "condensation", "projection"}
    for result in kept.values():
        assert all(v.attrs.get("long_name") and v.attrs.get("units") for v in result.data_vars.values())


def test_analyses_of_a_run_that_went_on_are_made_again(small, tmp_path):
    run = attndyn.run(small(ANALYZERS), tmp_path)
    run.analyze()
    status = run.directory / "status.json"
    status.write_text(status.read_text().replace('"step": 6', '"step": 5'))
    assert run.analysis == {}


def test_an_analyzer_without_its_probe_is_refused(small, tmp_path):
    run = attndyn.run(small("probes={loss: {every: 1}}"), tmp_path)
    with pytest.raises(RunError, match="'parameters'"):
        run.analyze(["norms"])


def test_an_analyzer_that_fails_leaves_what_the_others_made(small, tmp_path, monkeypatch):
    def broken(self, trajectory):
        return trajectory["no such group"]

    monkeypatch.setattr(registry.get("analyzer", "norms"), "analyze", broken)
    monkeypatch.setattr(registry.get("analyzer", "pca"), "analyze", lambda self, trajectory: None)
    run = attndyn.run(small("analyzers=[norms, condensation, pca]"), tmp_path)
    with pytest.raises(AnalyzersFailed) as error:
        run.analyze()
    assert isinstance(error.value.__cause__, KeyError)
    assert list(error.value.failed) == ["norms", "pca"]
    first, second = str(error.value).splitlines()
    assert first.startswith("the analyzer 'norms' failed: KeyError: ")
    assert second == "the analyzer 'pca' failed: it gives a NoneType instead of an xarray.Dataset"
    assert run.analysis.keys() == {"condensation"}
    with pytest.raises(AnalyzersFailed):
        run.analyze(["norms"])
    assert run.analysis.keys() == {"condensation"}
    run.close()


@pytest.mark.parametrize("what", ["attribute", "values"])
def test_what_a_file_cannot_hold_leaves_what_the_others_made(small, tmp_path, monkeypatch, what):
    def odd(self, trajectory):
        if what == "attribute":
            return xr.Dataset(attrs={"options": {"a": 1}})
        return xr.Dataset({"found": ("x", np.array([{"a": 1}, None], dtype=object))})

    monkeypatch.setattr(registry.get("analyzer", "pca"), "analyze", odd)
    run = attndyn.run(small("analyzers=[norms, pca, condensation]"), tmp_path)
    run.analyze(["projection"])
    with pytest.raises(AnalyzersFailed) as error:
        run.analyze()
    (line,) = str(error.value).splitlines()
    assert line.startswith("the analyzer 'pca' failed: its result cannot be written: ")
    assert run.analysis.keys() == {"norms", "condensation", "projection"}
    assert not list(run.directory.glob(".*"))


@pytest.mark.parametrize("broken", ["__init__", "check"])
def test_an_analyzer_that_fails_before_the_run_is_one_line(small, tmp_path, monkeypatch, broken):
    def fail(self, *_):
        return {}["no such key"]

    spec = small(ANALYZERS)
    monkeypatch.setattr(registry.get("analyzer", "norms"), broken, fail)
    with pytest.raises(
        SpecError, match=r"^--set .*: analyzers\[0\]: the analyzer 'norms' .*KeyError"
    ) as error:
        attndyn.run(spec, tmp_path)
    assert len(str(error.value).splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_an_analyzer_that_cannot_be_made_of_a_run_is_one_line(small, tmp_path, monkeypatch):
    def fail(self, *_):
        return {}["no such key"]

    run = attndyn.run(small(), tmp_path)
    monkeypatch.setattr(registry.get("analyzer", "norms"), "__init__", fail)
    with pytest.raises(RunError, match=r"^the analyzer 'norms' cannot be made: .*KeyError: 'no such key'$"):
        run.analyze(["norms"])


def test_an_option_that_an_analyzer_cannot_use_is_named(small, tmp_path, monkeypatch):
    def fail(self, *_):
        raise UnusableOption(("kind",), "is not to be had")

    spec = small(ANALYZERS)
    monkeypatch.setattr(registry.get("analyzer", "norms"), "__init__", fail)
    with pytest.raises(SpecError, match=r": analyzers\[0\].kind: is not to be had$"):
        attndyn.run(spec, tmp_path)


def test_a_spec_may_be_a_file(small, tmp_path):
    (tmp_path / "spec.yaml").write_text(small().to_yaml())
    assert attndyn.run(tmp_path / "spec.yaml", tmp_path).spec == small()
    with pytest.raises(SpecError, match="no such file"):
        attndyn.run("missing.yaml")


def test_a_run_without_a_record_is_not_analyzed(small, tmp_path):
    class AtOnce:
        """Asks for an end, as Ctrl-C does, before the first step."""

        def start(self, simulation):
            os.kill(os.getpid(), signal.SIGINT)

        def record(self, probe, step, values): ...

        def advance(self, simulation): ...

        def finish(self, simulation, outcome): ...

    run = attndyn.run(small(ANALYZERS), tmp_path, sinks=[AtOnce()])
    assert run.status["state"] == "interrupted"
    with pytest.raises(RunError, match="nothing of the probe 'parameters' is recorded yet"):
        run.analyze()


def test_two_runs_at_once_have_two_directories(small, tmp_path):
    directories = {attndyn.run(small(), tmp_path).directory for _ in range(3)}
    assert len(directories) == 3


def test_what_cannot_be_resumed(small, tmp_path):
    run = attndyn.run(small(), tmp_path)
    with pytest.raises(RunError, match="complete"):
        attndyn.run(small(), resume=run.directory)
    with pytest.raises(RunError, match="another spec"):
        attndyn.run(small("training.steps=7"), resume=run.directory)
    with pytest.raises(RunError, match="not a run"):
        attndyn.run(small(), resume=tmp_path)


def interrupted(spec, directory):
    """A run that stopped half-way."""
    stop = Simulation(spec, "numpy")
    directory.mkdir()
    (directory / "spec.yaml").write_text(spec.to_yaml())
    stop.run([TrajectoryWriter(directory), StatusSink(directory)], lambda: stop.step == 3)
    return directory


def test_files_that_do_not_belong_together_are_not_resumed(small, tmp_path):
    spec, other = small(), small("model.d_model=6")
    run, foreign = interrupted(spec, tmp_path / "run"), interrupted(other, tmp_path / "foreign")
    for name, said in (("trajectory.nc", "another spec"), ("checkpoint.npz", "not a checkpoint of this run")):
        kept = (run / name).read_bytes()
        (run / name).write_bytes((foreign / name).read_bytes())
        with pytest.raises(RunError, match=rf"{name}: .*{said}"):
            attndyn.run(spec, resume=run)
        (run / name).write_bytes(b"damaged")
        with pytest.raises(RunError, match=name):
            attndyn.run(spec, resume=run)
        (run / name).unlink()
        with pytest.raises(RunError, match=name):
            attndyn.run(spec, resume=run)
        assert not (run / name).exists()
        (run / name).write_bytes(kept)
    assert Run(run).status["state"] == "interrupted"
    assert attndyn.run(spec, resume=run).status["state"] == "complete"


def test_a_directory_that_cannot_be_written(small, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot be written"):
        attndyn.run(small(), tmp_path / "file")


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "{}", "nonsense", "[" * 10**5, '{"state": "interrupted"}'),
        '{"state": "interrupted", "step": "x", "steps": 6, "diverged": []}',
        '{"state": "diverged", "step": 1, "steps": 6, "diverged": [{}]}',
        '{"state": "asleep", "step": 1, "steps": 6, "diverged": []}',
    ],
)
def test_a_damaged_status(small, tmp_path, text):
    (tmp_path / "spec.yaml").write_text(small().to_yaml())
    (tmp_path / "status.json").write_text(text)
    with pytest.raises(RunError, match=r"status\.json: not a status") as error:
        _ = Run(tmp_path).status
    assert "\n" not in str(error.value)


def test_a_damaged_analysis_says_how_to_go_on(small, tmp_path):
    run = attndyn.run(small(ANALYZERS), tmp_path)
    (run.directory / "analysis.nc").write_text("damaged")
    with pytest.raises(RunError, match=r"analysis\.nc: .*made again"):
        run.analyze()
    (run.directory / "analysis.nc").unlink()
    assert run.analyze().keys() == {"norms", "condensation"}


def test_a_damaged_spec_names_its_file(tmp_path):
    (tmp_path / "spec.yaml").write_text("name: [")
    with pytest.raises(SpecError, match=r"spec\.yaml:1"):
        _ = Run(tmp_path).spec


def test_the_readme_snippet_of_the_package(small, tmp_path):
    run = attndyn.run(small(), tmp_path)
    to_first = run.trajectory["attention"]["attention"].sel(key="0")
    assert to_first.dims == ("replica", "step", "layer", "head", "query")
    assert np.isfinite(to_first).all()
