"""The exact population loss of a spec or a setting, as a function of one flat vector of parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import numpy as np

from attndyn import registry
from attndyn.backend.numpy_backend import NumpyBackend
from attndyn.data.contexts import Contexts, population
from attndyn.data.options import MarkovOptions
from attndyn.layers.architecture import Architecture
from attndyn.layers.parameters import Parameter, Parameters
from attndyn.spec import Spec
from attndyn.theory.setting import OutOfReach, Setting
from attndyn.theory.tangent import Tangents

#: directions of a Hessian that are taken at once: bounds the memory, changes no number
HESSIAN_BATCH = 256


class Problem:
    """The loss of the engine's own architecture on population contexts, for solvers and spectra.

    A flat vector `(P,)` has the parameters in the architecture's order; every function of it also takes a
    batch `(n, P)` of such vectors where its description says so.

    Args:
        architecture: on the NumPy backend in float64.
        pi: stationary distribution π `(token,)`.
        transition: P `(token, next_token)`.
        setting: the same as the theory sees it; None where the model is not one of the theory's.

    Attributes:
        shapes: the parameters' shapes by name; without the axes of layer and head where there is one of both.
        dims: names of these axes.
        size: number of entries of a flat vector, P.
    """

    def __init__(
        self,
        architecture: Architecture,
        pi: np.ndarray,
        transition: np.ndarray,
        setting: Setting | None = None,
    ):
        self.architecture = architecture
        self.pi = np.asarray(pi, dtype=float)
        self.transition = np.asarray(transition, dtype=float)
        self.setting = setting
        self._declared = architecture.parameters
        self.shapes = {p.name: p.shape[_stacked(p) :] for p in self._declared}
        self.dims = {p.name: p.dims[_stacked(p) :] for p in self._declared}
        self.size = sum(p.size for p in self._declared)
        self._contexts = population(self.pi[None], self.transition[None])

    @classmethod
    def of(cls, spec: Spec) -> Self:
        """The problem of a spec with one replica; its regime may be sampled, the limit is taken here.

        Raises:
            OutOfReach: its data or architecture have no exact population limit, or it has several replicas.
        """
        if spec.replicas.count() > 1:
            raise OutOfReach("a problem is that of one replica; the spec has several")
        if not isinstance(spec.data, MarkovOptions):
            raise OutOfReach(f"data '{spec.data.kind}' have no exact population limit; a Markov chain has")
        make = registry.get("architecture", spec.model.architecture)
        architecture = make(spec.model, len(spec.data.pi), spec.data.n_ctx, NumpyBackend())
        if "population" not in architecture.representations(spec.training.loss_positions):
            raise OutOfReach(
                f"architecture '{spec.model.architecture}' has no exact population limit with these options"
            )
        try:
            setting = Setting.of(spec)
        except OutOfReach:
            setting = None
        return cls(architecture, spec.data.pi, spec.data.P, setting)

    @classmethod
    def of_setting(cls, setting: Setting) -> Self:
        """The problem of a setting.

        Raises:
            ValueError: its scores have a scale that no spec can have.
        """
        m = setting.d_model
        scales = {m**-0.5: "inv_sqrt", 1.0: "none"}
        if setting.score_scale not in scales:
            raise ValueError(f"score_scale {setting.score_scale} is neither 1/√m nor 1")
        name = "residual" if setting.residual else "pure_attention"
        make = registry.get("architecture", name)
        options = make.Options(
            architecture=name,
            d_model=m,
            scale=scales[setting.score_scale],
            value_projection=setting.value_projection,
        )
        architecture = make(options, setting.d_vocab, 1, NumpyBackend())
        return cls(architecture, setting.pi, setting.transition, setting)

    @classmethod
    def one_layer(
        cls,
        pi: np.ndarray,
        transition: np.ndarray,
        d_model: int,
        residual: bool = False,
        value_projection: bool = False,
        score_scale: float | None = None,
    ) -> Self:
        """The problem of a one-layer model where there is no spec; scores are over √m unless told."""
        scale = d_model**-0.5 if score_scale is None else score_scale
        return cls.of_setting(
            Setting(
                pi=np.asarray(pi, dtype=float),
                transition=np.asarray(transition, dtype=float),
                lam=None,
                d_model=d_model,
                score_scale=scale,
                std=None,
                residual=residual,
                value_projection=value_projection,
            )
        )

    # -- flat vectors and matrices ------------------------------------------------------------------------

    def pack(self, matrices: Mapping[str, np.ndarray]) -> np.ndarray:
        """The flat vector `(..., P)` of matrices by name, `(..., *shape)`; those left out are zero.

        Raises:
            ValueError: a name or a shape is not one of the problem's.
        """
        if wrong := sorted(matrices.keys() - self.shapes.keys()):
            raise ValueError(f"no parameter {wrong[0]}; there are {', '.join(self.shapes)}")
        arrays = {name: np.asarray(matrix, dtype=float) for name, matrix in matrices.items()}
        batches = set()
        for name, array in arrays.items():
            n_axes = len(self.shapes[name])
            if array.shape[array.ndim - n_axes :] != self.shapes[name]:
                raise ValueError(f"{name} is {array.shape}; needed is (..., {self.shapes[name]})")
            batches.add(array.shape[: array.ndim - n_axes])
        batch = np.broadcast_shapes(*batches)
        flat = np.zeros((*batch, self.size))
        for name, view in self.unpack(flat).items():
            if name in arrays:
                view[...] = arrays[name]
        return flat

    def unpack(self, flat: np.ndarray) -> dict[str, np.ndarray]:
        """Matrices `(..., *shape)` by name, as views of the flat vectors `(..., P)`."""
        views, start = {}, 0
        for p in self._declared:
            columns = flat[..., start : start + p.size]
            views[p.name] = columns.reshape(*flat.shape[:-1], *self.shapes[p.name])
            start += p.size
        return views

    # -- the loss and its derivatives ---------------------------------------------------------------------

    def loss(self, flat: np.ndarray) -> float:
        """The loss in nats at one flat vector `(P,)`."""
        return float(self._evaluate(flat[None])[0][0])

    def gradient(self, flat: np.ndarray) -> np.ndarray:
        """The gradient `(P,)` at one flat vector `(P,)`."""
        return self.gradients(flat[None])[0]

    def gradients(self, batch: np.ndarray) -> np.ndarray:
        """The gradients `(n, P)` at a batch of flat vectors `(n, P)`, all at once."""
        return self._evaluate(batch)[1]

    def losses(self, batch: np.ndarray) -> np.ndarray:
        """The losses `(n,)` in nats at a batch of flat vectors `(n, P)`."""
        return self._evaluate(batch)[0]

    def hvp(self, flat: np.ndarray, direction: np.ndarray) -> np.ndarray:
        """The Hessian at `flat (P,)` times `direction (P,)`, or times each of a batch `(n, P)`; exact.

        Raises:
            OutOfReach: the model is not a one-layer model of the theory.
        """
        gradients = self.tangents(flat, np.atleast_2d(direction)).gradients
        return self.pack({name: pair.rate for name, pair in gradients.items()}).reshape(direction.shape)

    def tangents(self, flat: np.ndarray, directions: np.ndarray) -> Tangents:
        """What the directions `(n, P)` change at `flat (P,)`; raises as `hvp` does."""
        if self.setting is None:
            name = self.architecture.options.architecture
            raise OutOfReach(
                f"architecture '{name}' with these options: second derivatives are there for one layer of "
                "one head only, pure_attention and residual, without W_O, positions and mask"
            )
        return Tangents.of(self.setting, self.unpack(flat), self.unpack(directions))

    def hessian(self, flat: np.ndarray) -> np.ndarray:
        """The Hessian `(P, P)` at `flat (P,)`, symmetric; for small sizes. Raises as `hvp` does."""
        unit = np.eye(self.size)
        parts = [unit[i : i + HESSIAN_BATCH] for i in range(0, self.size, HESSIAN_BATCH)]
        columns = np.concatenate([self.hvp(flat, part) for part in parts])
        return (columns + columns.T) / 2

    def _evaluate(self, batch: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        n = len(batch)
        parameters = Parameters(self._declared, np.ascontiguousarray(batch, dtype=float))
        loss, gradients = self.architecture.loss_and_gradients(parameters, self._for(n))
        return loss, np.concatenate([gradients[name].reshape(n, -1) for name in parameters], axis=1)

    def _for(self, n: int) -> Contexts:
        """The contexts, for so many replicas; those of the last number asked for are kept."""
        if len(self._contexts.log_weights) != n:
            pi, transition = (np.repeat(array[None], n, axis=0) for array in (self.pi, self.transition))
            self._contexts = population(pi, transition)
        return self._contexts


def _stacked(parameter: Parameter) -> int:
    """How many leading axes say nothing: those of layer and head, where there is one of both."""
    heads = parameter.dims[:2] == ("layer", "head") and parameter.shape[:2] == (1, 1)
    return 2 if heads else 0
