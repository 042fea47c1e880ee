"""The layout of `trajectory.nc`, as docs/trajectory.md describes it: creating the empty file."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import netCDF4
import numpy as np
from scipy.sparse import csr_array

from attndyn import __version__, registry
from attndyn.provenance import code_sha256
from attndyn.simulation import Simulation
from attndyn.simulation.probe import Declaration, Variable
from attndyn.spec import Replicas

CONVENTIONS = "CF-1.11 attndyn-1"
#: the group of the pairs of tokens of a text
PAIRS = "pairs"
#: aim for chunks of this many bytes, and at least one record
CHUNK_BYTES = 2**17


def create(path: str, simulation: Simulation) -> netCDF4.Dataset:
    """A new file with everything that does not grow: root attributes, coordinates, and empty groups."""
    file = netCDF4.Dataset(path, "w", format="NETCDF4")
    _root(file, simulation)
    if simulation.data.pairs is not None:
        _pairs(file, simulation.data.pairs)
    for name, probe in simulation.probes.items():
        _group(file, file.createGroup(name), probe.declare(), simulation)
    file.sync()
    return file


def _root(file: netCDF4.Dataset, simulation: Simulation) -> None:
    spec, data, replicas = simulation.spec, simulation.data, simulation.replicas
    n_replicas, d_vocab = data.pi.shape
    file.setncatts(
        {
            "title": spec.name,
            "Conventions": CONVENTIONS,
            "attndyn_version": __version__,
            "spec_yaml": spec.to_yaml(),
            "spec_sha256": spec.sha256,
            "simulation_sha256": spec.simulation_sha256,
            "code_sha256": code_sha256(spec.plugin_classes()),
            "plugins": json.dumps(registry.digests(spec.plugins)),
            "texts": json.dumps(dict(data.sha256)),
            "data_facts": json.dumps(dict(data.facts)),
            "data_summary": data.summary() or "",
            "backend": simulation.backend.name,
            "dtype": str(simulation.backend.dtype),
            "representation": simulation.representation,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
        }
    )
    for name, size in (("replica", n_replicas), ("token", d_vocab), ("next_token", d_vocab)):
        file.createDimension(name, size)
    _coordinate(file, "replica", ("replica",), np.arange(n_replicas), "replica of the run")
    _coordinate(file, "token", ("token",), data.tokens, "token")
    _coordinate(file, "next_token", ("next_token",), data.tokens, "next token")
    _coordinate(file, "pi", ("replica", "token"), data.pi, "stationary distribution", r"\pi")
    names = ["pi"]
    if data.transition is not None:
        dims = ("replica", "token", "next_token")
        long_name = "probability of the next token after a token"
        _coordinate(file, "transition", dims, data.transition, long_name, "P")
        names.append("transition")
    if data.count is not None:
        _coordinate(file, "count", ("token",), data.count, "occurrences of the token in the text")
        names.append("count")
    # coordinates that are no dimension are named here, so that xarray reads them as coordinates
    file.setncattr("coordinates", " ".join([*names, *_replica_coordinates(file, replicas)]))


def _pairs(file: netCDF4.Dataset, pairs: csr_array) -> None:
    """The group of the pairs of tokens that occur, each with its count."""
    group = file.createGroup(PAIRS)
    found = pairs.tocoo()
    group.createDimension("pair", found.nnz)
    for name, values, long_name in (
        ("first", found.row, "index along `token` of a pair's first token"),
        ("second", found.col, "index along `next_token` of a pair's second token"),
        ("occurrences", found.data, "occurrences of the pair in the text, inside its documents"),
    ):
        _coordinate(group, name, ("pair",), values, long_name)


def _replica_coordinates(group: netCDF4.Dataset | netCDF4.Group, replicas: Replicas) -> list[str]:
    """Write what tells replicas apart, the seed and every varied scalar; the names written.

    They stand in every group, since xarray hands down only coordinates that are dimensions.
    """
    found = {"seed": (np.array(replicas.seeds, dtype=np.int64), "seed of the replica")}
    for path, values in replicas.varied.items():
        if np.ndim(values[0]) == 0:
            found[replicas.coordinates[path]] = (np.array(values), f"varied: {path}")
    for name, (array, long_name) in found.items():
        _coordinate(group, name, ("replica",), array, long_name)
    return list(found)


def _coordinate(
    group: netCDF4.Dataset | netCDF4.Group,
    name: str,
    dims: tuple[str, ...],
    values: np.ndarray | list[str],
    long_name: str,
    symbol: str = "",
) -> None:
    labels = isinstance(values, list) or values.dtype.kind in "US"
    array = np.array(values, dtype=object) if labels else np.asarray(values)
    variable = group.createVariable(name, str if array.dtype == object else array.dtype, dims)
    variable.setncatts({"long_name": long_name, "units": "1"} | ({"symbol": symbol} if symbol else {}))
    variable[:] = array


def _group(
    file: netCDF4.Dataset, group: netCDF4.Group, declaration: Declaration, simulation: Simulation
) -> None:
    group.createDimension("step", None)
    step = group.createVariable("step", "i8", ("step",), chunksizes=(CHUNK_BYTES // 8,))
    step.setncatts({"long_name": "updates made before this state", "units": "step"})
    coordinates = _replica_coordinates(group, simulation.replicas)
    if _time_dims(simulation):
        time = group.createVariable("time", "f8", _time_dims(simulation), chunksizes=_time_chunks(simulation))
        time.setncatts({"long_name": "time of gradient flow", "units": "1", "symbol": "t"})
        coordinates.append("time")
    group.setncattr("coordinates", " ".join([*coordinates, *declaration.fixed]))
    for name, labels in declaration.labels.items():
        group.createDimension(name, len(labels))
        described = declaration.described.get(name, f"{name} token")
        _coordinate(group, name, (name,), labels, described)
    for name, fixed in declaration.fixed.items():
        _coordinate(group, name, fixed.dims, fixed.values, fixed.long_name)
    for name, variable in declaration.variables.items():
        for dim, size in zip(variable.dims, variable.shape, strict=True):
            if dim not in group.dimensions and dim not in file.dimensions:
                group.createDimension(dim, size)
        _variable(group, name, variable, simulation)


def _variable(group: netCDF4.Group, name: str, variable: Variable, simulation: Simulation) -> None:
    dtype, n_replicas = simulation.backend.dtype, len(simulation.replicas.seeds)
    chunks = (*_chunk(n_replicas, int(np.prod(variable.shape)) * dtype.itemsize), *variable.shape)
    dims = ("replica", "step", *variable.dims)
    created = group.createVariable(name, dtype, dims, chunksizes=chunks, fill_value=np.nan)
    attributes = {"long_name": variable.long_name, "units": variable.units, "symbol": variable.symbol}
    attributes["comment"] = f"NaN where {variable.nan_where}" if variable.nan_where else ""
    created.setncatts({k: v for k, v in attributes.items() if v})
    bounds = {"valid_min": variable.valid_min, "valid_max": variable.valid_max}
    created.setncatts({k: dtype.type(v) for k, v in bounds.items() if v is not None})


def _chunk(n_replicas: int, record: int) -> tuple[int, int]:
    """Replicas and steps of a chunk of about `CHUNK_BYTES`, given the bytes of one replica's record."""
    replicas = min(n_replicas, max(1, CHUNK_BYTES // record))
    return replicas, max(1, CHUNK_BYTES // (record * replicas))


def times(simulation: Simulation, steps: np.ndarray) -> np.ndarray | None:
    """The `time` coordinate at some steps: `(step,)`, or `(replica, step)` where replicas differ in it."""
    time = simulation.optimizer.time(steps)
    return time if time is None or len(_time_dims(simulation)) == 2 else time[0]


def _time_dims(simulation: Simulation) -> tuple[str, ...]:
    """Dimensions of the `time` coordinate; none where the optimizer has no time."""
    at_end = simulation.optimizer.time(np.array([simulation.steps]))
    if at_end is None:
        return ()
    return ("step",) if np.all(at_end == at_end[0]) else ("replica", "step")


def _time_chunks(simulation: Simulation) -> tuple[int, ...]:
    n_dims = len(_time_dims(simulation))
    return _chunk(len(simulation.replicas.seeds) if n_dims == 2 else 1, 8)[-n_dims:]
