"""The scalar predictions of the theory by name: what expectations, tables and figures call them.

`evaluate(name, setting)` gives the number; those of a single token take its position as `token=`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from attndyn.registry import nearest
from attndyn.theory import closed_forms
from attndyn.theory.setting import OutOfReach, Setting


@dataclass(frozen=True)
class Formula:
    """One predicted quantity.

    Attributes:
        name: what it is called in specs and tables.
        symbol: in LaTeX.
        units: `1` where it has none; rates are per unit of time, the sum of learning rates or the ODE's.
        long_name: what it is, in a few words.
        valid: where it holds, in a few words.
        evaluate: the number, of a setting and, with `per_token`, of a token's position.
        per_token: whether it has one value a token.
    """

    name: str
    symbol: str
    units: str
    long_name: str
    valid: str
    evaluate: Callable[..., float]
    per_token: bool = False


FORMULAS: dict[str, Formula] = {}


def evaluate(name: str, setting: Setting, token: int | None = None) -> float:
    """The value of a formula.

    Args:
        name: one of `FORMULAS`.
        setting: what it depends on.
        token: position of the token, for a formula with one value a token.

    Raises:
        OutOfReach: the setting has none, there is no such formula, or the token is missing or misplaced.
    """
    formula = FORMULAS.get(name)
    if formula is None:
        raise OutOfReach(f"unknown formula '{name}'; {nearest(name, list(FORMULAS))}")
    if formula.per_token != (token is not None):
        wants = "has one value a token: give its position" if formula.per_token else "is not of a token"
        raise OutOfReach(f"formula '{name}' {wants}")
    if token is None:
        return formula.evaluate(setting)
    if not 0 <= token < setting.d_vocab:
        raise OutOfReach(f"formula '{name}': found token {token}; allowed: 0 to {setting.d_vocab - 1}")
    return formula.evaluate(setting, token)


def _formula(
    symbol: str, long_name: str, valid: str, units: str = "1", per_token: bool = False
) -> Callable[[Callable[..., float]], Callable[..., float]]:
    """Registers a function under its own name."""

    def register(function: Callable[..., float]) -> Callable[..., float]:
        name = function.__name__
        FORMULAS[name] = Formula(name, symbol, units, long_name, valid, function, per_token)
        return function

    return register


@_formula(r"\sigma", "growth rate of W_0 and W_1 at the origin", "small weights, gradient flow", "1/time")
def condensation_rate(setting: Setting) -> float:
    """σ, the leading singular value of minus the gradient in M = W_0 W_1 at the origin."""
    if setting.value_projection:
        raise OutOfReach("with W_V the gradient at the origin is of second order: there is no linear rate")
    _only_pure(setting)
    return closed_forms.condensation_rate(setting.pi)


@_formula("|w|", "scale of the embedding on the first plateau", "initial scale → 0, gradient flow")
def embedding_scale(setting: Setting) -> float:
    """|w| where W_0 = π wᵀ."""
    _only_pure(setting)
    scale = closed_forms.value_embedding_scale if setting.value_projection else closed_forms.embedding_scale
    return scale(setting.pi)


@_formula(r"\|W_0\|", "norm of the embedding on the first plateau", "initial scale → 0, gradient flow")
def plateau_norm(setting: Setting) -> float:
    """Frobenius norm of W_0 there."""
    return float(embedding_scale(setting) * np.linalg.norm(setting.pi))


@_formula(
    r"|W_0[i,:]|",
    "norm of a token's embedding on the first plateau",
    "initial scale → 0, gradient flow",
    per_token=True,
)
def plateau_row_norm(setting: Setting, token: int) -> float:
    """Norm of one row of W_0 there."""
    return float(embedding_scale(setting) * setting.pi[token])


@_formula(
    r"\kappa", "growth rate of W_Q and W_K on the first plateau", "small W_Q, W_K, gradient flow", "1/time"
)
def focus_rate(setting: Setting) -> float:
    """|κ|, of the combination of W_Q and W_K that grows: their sum, or with κ < 0 their difference."""
    scale = embedding_scale(setting)
    return abs(setting.score_scale * scale**2 * closed_forms.coupling(setting.pi, setting.transition))


@_formula("L", "loss at the origin", "any optimizer; small initial weights", "nats")
def loss_origin(setting: Setting) -> float:
    """log d: all tokens are predicted alike."""
    return float(np.log(setting.d_vocab))


@_formula("L", "loss on the first plateau", "initial scale → 0, gradient flow", "nats")
def loss_plateau(setting: Setting) -> float:
    """Without a residual the entropy of π, which is what the model predicts."""
    _only_pure(setting)
    return closed_forms.entropy(setting.pi)


@_formula("L", "least possible loss: the entropy rate of the chain", "any model; a bound", "nats")
def loss_floor(setting: Setting) -> float:
    """Mean entropy of the rows of P."""
    return closed_forms.entropy_rate(setting.pi, setting.transition)


def _only_pure(setting: Setting) -> None:
    if setting.residual:
        raise OutOfReach("with a residual there is no closed form for this yet")
