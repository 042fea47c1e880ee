"""The file: its labels, what it holds of a run, and what a run leaves that is cut short."""

import subprocess
import sys

import numpy as np
import pytest
import xarray as xr

import attndyn
from attndyn.errors import RunError
from attndyn.simulation import Simulation
from attndyn.trajectory import TrajectoryWriter, open_trajectory, schema, writer
from attndyn.trajectory.writer import read_checkpoint


def write(spec, directory, interrupted=lambda: False, resume=False):
    simulation = Simulation(spec, "numpy")
    if resume:
        simulation.restore(read_checkpoint(directory))
    simulation.run([TrajectoryWriter(directory, resume=resume)], interrupted)
    return open_trajectory(directory / "trajectory.nc")


def data_of(tree):
    """All data variables and coordinates, as plain arrays."""
    arrays = {}
    for node in tree.subtree:
        with_coordinates = node.to_dataset(inherit=False)
        arrays |= {
            f"{node.path}:{name}": with_coordinates[name].values for name in with_coordinates.variables
        }
    return arrays


def identical(one, other):
    one, other = data_of(one), data_of(other)
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


DIMS = {
    ("loss", "loss"): ("replica", "step"),
    ("attention", "attention"): ("replica", "step", "layer", "head", "query", "key"),
    ("attention", "entropy"): ("replica", "step", "layer", "head", "query"),
    ("parameters", "W_0"): ("replica", "step", "token", "model"),
    ("parameters", "W_1"): ("replica", "step", "model", "next_token"),
    ("parameters", "W_Q"): ("replica", "step", "layer", "head", "model", "d_head"),
    ("parameters", "W_V"): ("replica", "step", "layer", "head", "model", "d_head"),
    ("gradients", "W_K"): ("replica", "step", "layer", "head", "model", "d_head"),
}


def test_the_contract(small, tmp_path):
    spec = small("model.value_projection=true", "data.tokens=[the, 'no', 'É', 'a b']")
    tree = write(spec, tmp_path)
    assert tree.attrs.keys() == {
        *("title", "Conventions", "attndyn_version", "spec_yaml", "spec_sha256", "plugins"),
        *("simulation_sha256", "code_sha256", "texts", "data_facts", "data_summary"),
        *("backend", "dtype", "representation", "created"),
    }
    assert tree.attrs["spec_sha256"] == spec.sha256
    assert attndyn.spec.parse_spec(tree.attrs["spec_yaml"]) == spec
    assert {"replica", "seed", "token", "next_token", "pi", "transition"} == set(tree.coords)
    assert not tree.to_dataset().data_vars
    assert tree.token.values.tolist() == ["the", "no", "É", "a b"]
    assert tree.pi.dims == ("replica", "token")
    assert tree.transition.dims == ("replica", "token", "next_token")
    for (group, name), dims in DIMS.items():
        assert tree[group][name].dims == dims
    assert tree["loss"].step.values.tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert tree["parameters"].step.values.tolist() == [0, 4, 6]
    assert tree["gradients"].step.values.tolist() == [1, 5, 6]
    assert tree["attention"]["attention"].sel(query="the", key="no").shape == (3, 4, 1, 1)
    np.testing.assert_allclose(tree["attention"]["attention"].sum("key"), 1, rtol=1e-13)
    for node in tree.subtree:
        for name, variable in node.to_dataset(inherit=False).variables.items():
            if name not in ("layer", "head"):
                assert variable.attrs["long_name"], name
                assert variable.attrs["units"], name


def test_varied_scalars_are_coordinates(small, tmp_path):
    tree = write(small("replicas={seeds: 2, vary: {optimizer.lr: [0.1, 0.2]}}"), tmp_path)
    assert tree.lr.values.tolist() == [0.1, 0.1, 0.2, 0.2]
    assert tree.seed.values.tolist() == [0, 1, 0, 1]
    for group in ("loss", "attention", "parameters", "gradients"):
        assert tree[group].lr.values.tolist() == [0.1, 0.1, 0.2, 0.2]
        assert tree[group].seed.values.tolist() == [0, 1, 0, 1]
    by_rate = tree["loss"]["loss"].groupby("lr").mean()
    assert by_rate.sizes == {"lr": 2, "step": 7}


@pytest.mark.parametrize(
    ("optimizer", "expected"),
    [
        ("{kind: gd, lr: 0.5}", [0, 0.5, 1, 1.5, 2, 2.5, 3]),
        (
            "{kind: sgd, lr: 0.5, schedule: {kind: warmup, warmup: 2}}",
            [0, 0.25, 0.75, 1.25, 1.75, 2.25, 2.75],
        ),
        ("{kind: adam, lr: 0.5}", None),
    ],
)
def test_time(small, tmp_path, optimizer, expected):
    tree = write(small(f"optimizer={optimizer}"), tmp_path)
    if expected is None:
        assert "time" not in tree["loss"].coords
    else:
        assert tree["loss"].time.dims == ("step",)
        np.testing.assert_allclose(tree["loss"].time, expected)
        np.testing.assert_allclose(tree["parameters"].time, np.array(expected)[[0, 4, 6]])


def test_time_of_replicas_that_differ_in_it(small, tmp_path):
    tree = write(
        small("optimizer={kind: gd, lr: 0.5}", "replicas={vary: {optimizer.lr: [0.1, 0.2]}}"), tmp_path
    )
    assert tree["loss"].time.dims == ("replica", "step")
    np.testing.assert_allclose(tree["loss"].time[:, 6], [0.6, 1.2])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_precision_and_reproduction_bit_for_bit(small, tmp_path, dtype):
    trees = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        trees.append(write(small(f"training.dtype={dtype}"), tmp_path / name))
    identical(*trees)
    assert trees[0]["parameters"]["W_0"].dtype == dtype


def test_what_is_written_is_what_was_recorded(small, tmp_path, monkeypatch):
    """However small the pieces in which it is written."""
    whole = write(small(), tmp_path)
    monkeypatch.setattr(writer, "BUFFER_BYTES", 1)
    (tmp_path / "pieces").mkdir()
    identical(whole, write(small(), tmp_path / "pieces"))


@pytest.mark.parametrize("stop", [0, 1, 4, 5])
def test_an_interrupted_run_is_readable_and_goes_on(small, tmp_path, stop):
    (tmp_path / "whole").mkdir()
    whole = write(small(), tmp_path / "whole")
    looks = iter([False] * stop + [True])
    part = write(small(), tmp_path, lambda: next(looks))
    assert part["loss"].step.values.tolist() == list(range(stop))
    part.close()
    identical(write(small(), tmp_path, resume=True), whole)


KILLED = """
import os, signal, sys
from pathlib import Path
from attndyn.simulation import Simulation
from attndyn.spec import load_spec
from attndyn.trajectory import TrajectoryWriter, writer

writer.BUFFER_BYTES = 200

class Killer:
    def start(self, simulation): ...
    def record(self, probe, step, values):
        if step == 5 and probe == "gradients":
            os.kill(os.getpid(), signal.SIGKILL)
    def advance(self, simulation): ...
    def finish(self, simulation, outcome): ...

directory = Path(sys.argv[1])
Simulation(load_spec(directory / "spec.yaml"), "numpy").run([TrajectoryWriter(directory), Killer()])
"""


def test_a_killed_run_is_readable_and_goes_on(small, tmp_path):
    spec = small()
    (tmp_path / "spec.yaml").write_text(spec.to_yaml())
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False, timeout=120)
    assert killed.returncode == -9
    tree = open_trajectory(tmp_path / "trajectory.nc")
    assert tree["loss"].step.values.tolist() == [0, 1, 2, 3, 4]
    assert np.isfinite(tree["parameters"]["W_0"]).all()
    tree.close()
    (tmp_path / "whole").mkdir()
    identical(write(spec, tmp_path, resume=True), write(spec, tmp_path / "whole"))


def test_parameters_that_overflow_are_recorded_without_a_warning(small, tmp_path):
    with write(small("model.init={std: 1e150}"), tmp_path) as tree:
        assert tree["loss"].step.values.tolist() == [0]  # and lost at once


def test_memory_is_bounded_by_the_buffer(small, tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "BUFFER_BYTES", 5000)
    most = []
    kept = TrajectoryWriter.record

    def record(self, probe, step, values):
        kept(self, probe, step, values)
        most.append(self._bytes)

    monkeypatch.setattr(TrajectoryWriter, "record", record)
    write(small("training.steps=300", "probes={loss: {every: 1}, parameters: {every: 1}}"), tmp_path)
    assert max(most) < 5000 + 2 * 3 * 8 * 100  # one step's records above it


def test_a_full_disk_is_one_line_and_keeps_what_was_written(small, tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "BUFFER_BYTES", 1)
    true = TrajectoryWriter._write

    def full(self, probe, records):
        if records[0][0] == 4:
            raise OSError(28, "No space left on device")
        true(self, probe, records)

    monkeypatch.setattr(TrajectoryWriter, "_write", full)
    with pytest.raises(RunError, match="No space left") as error:
        write(small(), tmp_path)
    assert "\n" not in str(error.value)
    with open_trajectory(tmp_path / "trajectory.nc") as tree:
        assert tree["loss"].step.values.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("content", [None, b"", b"\x89HDF\r\n\x1a\n damaged", b"text"])
def test_an_unreadable_file_is_one_line(tmp_path, content):
    path = tmp_path / "trajectory.nc"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(RunError) as error:
        open_trajectory(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_of_something_else_is_refused(tmp_path):
    xr.Dataset({"x": ("y", [1.0])}).to_netcdf(tmp_path / "other.nc")
    with pytest.raises(RunError, match="not written by attndyn"):
        open_trajectory(tmp_path / "other.nc")


@pytest.mark.parametrize("content", [None, b"", b"PK\x03\x04 damaged"])
def test_an_unreadable_checkpoint_is_one_line(tmp_path, content):
    if content is not None:
        (tmp_path / "checkpoint.npz").write_bytes(content)
    with pytest.raises(RunError, match="checkpoint") as error:
        read_checkpoint(tmp_path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("n_replicas", "record", "expected"),
    [(4, 8, (4, 4096)), (4, 2**16, (2, 1)), (1000, 2**30, (1, 1)), (1, 2**10, (1, 128))],
)
def test_chunks_stay_small_however_large_a_record(n_replicas, record, expected):
    assert schema._chunk(n_replicas, record) == expected
