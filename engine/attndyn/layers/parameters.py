"""Parameters: declared once with named dimensions, stored in one flat array, seen as labelled views."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal

import numpy as np

from attndyn.backend import Array, Backend
from attndyn.data import philox
from attndyn.spec.base import Identity, ModelOptions, Zero


@dataclass(frozen=True)
class Parameter:
    """Declaration of one parameter of an architecture; storage, labels and checks follow from it.

    Attributes:
        name: name in trajectories, e.g. `W_0`.
        dims: names of its axes, e.g. `("token", "model")`; the replica axis before them is implied.
        shape: sizes of those axes.
        symbol: the paper's symbol, in LaTeX.
        long_name: what it is, in a few words.
        init: `normal` numbers of the spec's scale, or the same entry everywhere: `zero` or `one`.
    """

    name: str
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    symbol: str
    long_name: str
    init: Literal["normal", "zero", "one"] = "normal"

    @property
    def size(self) -> int:
        """Number of entries of one replica."""
        return prod(self.shape)


class Parameters(Mapping[str, Array]):
    """All parameters of all replicas: one array `flat (R, P)`, and a view `(R, *shape)` of it for each name.

    Optimizers work on `flat`, models on the views; writing to one writes to the other.
    """

    def __init__(self, declared: Sequence[Parameter], flat: Array):
        self.declared = tuple(declared)
        self.flat = flat
        self._views: dict[str, Array] = {}
        start = 0
        for parameter in declared:
            columns = flat[:, start : start + parameter.size]
            self._views[parameter.name] = columns.reshape(flat.shape[0], *parameter.shape)
            start += parameter.size

    def __getitem__(self, name: str) -> Array:
        return self._views[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._views)

    def __len__(self) -> int:
        return len(self._views)

    def with_flat(self, flat: Array) -> Parameters:
        """The same parameters with other values."""
        return Parameters(self.declared, flat)


def initial(
    declared: Sequence[Parameter], models: Sequence[ModelOptions], seeds: Sequence[int], backend: Backend
) -> Parameters:
    """The parameters at step 0, as each replica's model section has them.

    A parameter's random numbers depend on the seed and its name only, so that adding a parameter changes no
    other, and replicas of one seed start in the same direction whatever their scale.
    """
    rows = [
        np.concatenate([_entries(p, model, seed) for p in declared])
        for model, seed in zip(models, seeds, strict=True)
    ]
    return Parameters(declared, backend.asarray(np.stack(rows)))


def _entries(parameter: Parameter, model: ModelOptions, seed: int) -> np.ndarray:
    """One replica's entries of a parameter, `(size,)`: of its own init if it has one."""
    init = model.init.parameters.get(parameter.name)
    if isinstance(init, Identity):
        rows, columns = parameter.shape[-2:]
        matrix = init.scale * np.eye(rows, columns)
        return np.broadcast_to(matrix, parameter.shape).ravel()
    if isinstance(init, Zero) or (init is None and parameter.init == "zero"):
        return np.zeros(parameter.size)
    if init is None and parameter.init == "one":
        return np.ones(parameter.size)
    part = zlib.crc32(parameter.name.encode())
    scale = (init or model.init).scale(model.d_model)
    return scale * philox.normals(seed, philox.Purpose.INIT, part, (parameter.size,))
