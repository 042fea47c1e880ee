"""One replica's setting as the theory sees it, and where the theory ends."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attndyn import registry
from attndyn.data.options import MarkovOptions
from attndyn.data.transition import Sticky
from attndyn.errors import AttndynError
from attndyn.layers.one_layer import OneLayer, OneLayerOptions
from attndyn.spec import Spec


class OutOfReach(AttndynError):
    """The theory says nothing here; the message is the reason, in one line."""


@dataclass(frozen=True, eq=False)
class Setting:
    """A chain and a one-layer model under population gradient flow: all that the closed forms depend on.

    Attributes:
        pi: stationary distribution π `(token,)`.
        transition: transition matrix P `(token, next_token)`.
        lam: λ of a sticky chain P = λ I + (1 − λ) 1 πᵀ; None for any other.
        d_model: embedding width m.
        score_scale: factor of the scores, 1/√m or 1.
        std: standard deviation ε of the initial parameters; None where some begin otherwise.
        residual: whether the query's own embedding is added to what attention brings.
        value_projection: whether there is a W_V.
        seed: of the initial parameters, where they are known and not their distribution only.
    """

    pi: np.ndarray
    transition: np.ndarray
    lam: float | None
    d_model: int
    score_scale: float
    std: float | None
    residual: bool = False
    value_projection: bool = False
    seed: int | None = None

    @property
    def d_vocab(self) -> int:
        """Number of tokens d."""
        return len(self.pi)

    @classmethod
    def sticky(cls, pi: np.ndarray, lam: float, d_model: int, std: float | None = None) -> Setting:
        """Pure attention on a sticky chain, with scores over √m and ε = 1/m² unless given."""
        pi = np.asarray(pi, dtype=float)
        transition = lam * np.eye(len(pi)) + (1 - lam) * pi
        return cls(pi, transition, lam, d_model, d_model**-0.5, d_model**-2.0 if std is None else std)

    @classmethod
    def of(cls, spec: Spec) -> Setting:
        """The setting of a spec with one replica, whatever its optimizer and its batches.

        Those change how closely a run follows the predictions, not the predictions themselves.

        Raises:
            OutOfReach: the theory does not cover its data or its model, or it has several replicas.
        """
        if spec.replicas.count() > 1:
            raise OutOfReach("a setting is that of one replica; the spec has several")
        data, model = spec.data, spec.model
        if not isinstance(data, MarkovOptions):
            raise OutOfReach(f"data '{data.kind}': the theory needs a first-order Markov chain")
        if not isinstance(model, OneLayerOptions):
            raise OutOfReach(
                f"architecture '{model.architecture}': the theory covers one layer of one head, "
                "pure_attention and residual"
            )
        for reason in _beyond(model, spec.training.loss_positions):
            raise OutOfReach(reason)
        architecture = registry.get("architecture", model.architecture)
        if not issubclass(architecture, OneLayer):
            raise OutOfReach(f"architecture '{model.architecture}': not one that the theory knows")
        transition = data.transition
        return cls(
            pi=data.pi,
            transition=data.P,
            lam=transition.lam if isinstance(transition, Sticky) else None,
            d_model=model.d_model,
            score_scale=model.d_model**-0.5 if model.scale == "inv_sqrt" else 1.0,
            std=None if model.init.parameters else model.init.scale(model.d_model),
            residual=architecture.residual,
            value_projection=model.value_projection,
            seed=spec.replicas.base_seed,
        )

    @classmethod
    def of_chain(cls, spec: Spec) -> Setting:
        """The chain alone of a spec, for what holds of every model.

        Raises:
            OutOfReach: the data are no first-order Markov chain.
        """
        if not isinstance(spec.data, MarkovOptions):
            raise OutOfReach(f"data '{spec.data.kind}': the theory needs a first-order Markov chain")
        return cls(spec.data.pi, spec.data.P, None, spec.model.d_model, 1.0, None)


def _beyond(model: OneLayerOptions, loss_positions: str) -> list[str]:
    """What the model has that the theory leaves out; at the last position causal attention sees all."""
    causal = model.attention == "causal" and loss_positions == "all"
    reasons = {
        "output_projection: the theory has no W_O": model.output_projection,
        "attention 'causal': early positions see few tokens, not the stationary weights": causal,
        f"positions '{model.positions}': the theory has none": model.positions != "none",
        f"mask_token {model.mask_token}: the theory masks nothing": model.mask_token is not None,
    }
    return [reason for reason, present in reasons.items() if present]
