"""Short runs that probes and analyzers are checked on: several layers and heads, sizes all different."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import xarray as xr

from attndyn import registry
from attndyn.backend import Backend
from attndyn.errors import PluginError
from attndyn.simulation import Simulation
from attndyn.spec import Spec, parse_spec
from attndyn.trajectory import TrajectoryWriter, open_trajectory
from attndyn.trajectory.writer import TRAJECTORY

SPEC = """
name: conformance
data:
  kind: markov
  stationary: {kind: geometric, d_vocab: 4, ratio: 0.5}
  transition: {kind: sticky, lam: 0.5}
  n_ctx: 8
  batch: 7
model: {architecture: transformer, d_model: 6, layers: 2, heads: 3, init: {std: 0.1}}
optimizer: {kind: gd, lr: 2.0}
training: {steps: 60}
replicas: {vary: {optimizer.lr: [2.0, 1.9, 1.8, 1.7, 1.6]}}
"""

#: of four words, as many as the chain has tokens
TEXT = " ".join(f"w{i * i % 7}" for i in range(90))

#: changes of the spec by what they are for
FORMS = {
    "two layers of three heads": (),
    "causal, all positions": ("model.attention=causal", "training.loss_positions=all"),
    "population, one head": (
        "data.regime=population",
        "model={architecture: pure_attention, d_model: 6, init: {std: 0.3}}",
    ),
    "text, a part of it held out": (
        f"data={{kind: corpus, source: {{kind: text, text: {TEXT}}}, n_ctx: 8, batch: 7, held_out: 0.4}}",
        "model.attention=causal",
        "training.loss_positions=all",
    ),
}


def spec(form: str, probes: Iterable[str] = ("loss",), *changes: str) -> Spec:
    """The spec of a form (`FORMS`), which records at every second step.

    Raises:
        PluginError: there is no such probe.
    """
    unknown = set(probes) - set(registry.names("probe"))
    if unknown:
        allowed = ", ".join(registry.names("probe"))
        raise PluginError(f"needs the probe '{min(unknown)}', which there is not; allowed: {allowed}")
    listed = ", ".join(f"{name}: {{every: 2}}" for name in probes)
    return parse_spec(SPEC, "conformance", (*FORMS[form], f"probes={{{listed}}}", *changes))


def simulation(form: str, backend: Backend) -> Simulation:
    """A simulation of a form, evaluated at step 0."""
    dtype = f"training.dtype={backend.dtype}"
    return Simulation(spec(form, ("loss",), dtype), backend)


@cache
def _groups(probes: tuple[str, ...]) -> dict[str, xr.Dataset]:
    """The whole trajectory of the first form, in memory: its root under `/`, and its groups."""
    tree = recorded(spec("two layers of three heads", probes))
    return {node.path: node.to_dataset(inherit=False) for node in tree.subtree}


def recorded(spec: Spec) -> xr.DataTree:
    """The trajectory of a short run, in memory."""
    with TemporaryDirectory() as folder:
        Simulation(spec, "numpy").run([TrajectoryWriter(Path(folder))])
        with open_trajectory(Path(folder) / TRAJECTORY) as tree:
            groups = {node.path: node.to_dataset(inherit=False).load() for node in tree.subtree}
    return xr.DataTree.from_dict(groups)


def trajectories(probes: tuple[str, ...]) -> dict[str, xr.DataTree]:
    """Trajectories by what is special about them."""
    whole = _groups(probes)
    return {
        "several replicas, layers and heads": _tree(whole, lambda dataset: dataset),
        "one replica": _tree(whole, lambda dataset: dataset.isel(replica=[2], missing_dims="ignore")),
        "one record": _tree(whole, lambda dataset: dataset.isel(step=[0], missing_dims="ignore")),
        "a replica that is NaN from some step on": _tree(whole, _lost),
    }


def _tree(groups: dict[str, xr.Dataset], change: Callable[[xr.Dataset], xr.Dataset]) -> xr.DataTree:
    return xr.DataTree.from_dict({path: change(dataset) for path, dataset in groups.items()}).copy(deep=True)


def _lost(dataset: xr.Dataset) -> xr.Dataset:
    """Replica 1 is NaN from the middle on, as one that diverged there."""
    if "step" not in dataset.dims:
        return dataset
    middle = dataset["step"][dataset.sizes["step"] // 2]
    place = xr.DataArray(np.arange(dataset.sizes["replica"]), dims="replica")
    kept = (place != 1) | (dataset["step"] < middle)
    return _with(dataset, lambda array: array.where(kept).transpose(*array.dims))


def with_axes_reversed(tree: xr.DataTree) -> xr.DataTree:
    """A copy with the axes of every variable in reverse: dimensions have names, not places."""
    return changed(tree, lambda array: array.transpose(*reversed(array.dims)))


def changed(tree: xr.DataTree, change: Callable[[xr.DataArray], xr.DataArray]) -> xr.DataTree:
    """A copy with every variable of every group changed."""
    groups = {node.path: node.to_dataset(inherit=False) for node in tree.subtree}
    return _tree(groups, lambda dataset: _with(dataset, change))


def _with(dataset: xr.Dataset, change: Callable[[xr.DataArray], xr.DataArray]) -> xr.Dataset:
    return dataset.assign({name: change(array) for name, array in dataset.data_vars.items()})
