"""The scalar predictions of the theory by name: what expectations, tables and figures call them.

`evaluate(name, setting)` gives the number; those of a single token take its position as `token=`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from attndyn.registry import nearest
from attndyn.theory import closed_forms
from attndyn.theory.manifold import CLOSED, Manifold, end_of_flow
from attndyn.theory.onsets import MOST_SHARE, onsets
from attndyn.theory.plateau import first_plateau, is_uniform, leading_mode, transverse_rate
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
        of_flow: whether it is about population gradient flow, and not any training of the chain.
        bounds: what it cannot be below or above in any setting.
    """

    name: str
    symbol: str
    units: str
    long_name: str
    valid: str
    evaluate: Callable[..., float]
    per_token: bool = False
    of_flow: bool = True
    bounds: tuple[float, float] = (-math.inf, math.inf)


Function = Callable[..., float]

FORMULAS: dict[str, Formula] = {}


def evaluate(
    name: str, setting: Setting, token: int | None = None, table: Mapping[str, Formula] = FORMULAS
) -> float:
    """The value of a formula.

    Args:
        name: one of `table`.
        setting: what it depends on.
        token: position of the token, for a formula with one value a token.
        table: formulas by name.

    Raises:
        OutOfReach: the setting has none, there is no such formula, or the token is missing or misplaced.
    """
    formula = table.get(name)
    if formula is None:
        raise OutOfReach(f"unknown formula '{name}'; {nearest(name, list(table))}")
    if formula.per_token != (token is not None):
        wants = "has one value a token: give its position" if formula.per_token else "is not of a token"
        raise OutOfReach(f"formula '{name}' {wants}")
    if token is None:
        return formula.evaluate(setting)
    if not 0 <= token < setting.d_vocab:
        raise OutOfReach(f"formula '{name}': found token {token}; allowed: 0 to {setting.d_vocab - 1}")
    return formula.evaluate(setting, token)


def registering(table: dict[str, Formula]) -> Callable[..., Callable[[Function], Function]]:
    """A decorator that enters a function in a table under its own name; its arguments are `Formula`'s."""

    def described(
        symbol: str, long_name: str, valid: str, units: str = "1", **more: Any
    ) -> Callable[[Function], Function]:
        def register(function: Function) -> Function:
            name = function.__name__
            table[name] = Formula(name, symbol, units, long_name, valid, function, **more)
            return function

        return register

    return described


_formula = registering(FORMULAS)

FLOW = "gradient flow of the population"
#: with more, following the rank-one flow to its end takes minutes
MOST_TOKENS = 32
#: bounds of what is nonnegative by construction: norms, sizes of rates, times, losses
POSITIVE = (0.0, math.inf)
LIMIT = f"ε → 0, {FLOW}"
FROM_SMALL = f"W_0 begins at {MOST_SHARE} of its plateau at most, {FLOW}"


@_formula(
    r"\sigma", "growth rate of W_0 and W_1 at the origin", f"small weights, {FLOW}", "1/time", bounds=POSITIVE
)
def condensation_rate(setting: Setting) -> float:
    """σ, the leading singular value of minus the gradient in M = W_0 W_1 at the origin."""
    return leading_mode(setting)[0]


@_formula("|w|", "scale of the embedding on the first plateau", LIMIT, bounds=POSITIVE)
def embedding_scale(setting: Setting) -> float:
    """|w| where W_0 = π wᵀ, which it is without a residual."""
    if setting.residual:
        raise OutOfReach("with a residual W_0 is not proportional to π: its rows' norms stand for |w| π")
    scale = closed_forms.value_embedding_scale if setting.value_projection else closed_forms.embedding_scale
    return 0.0 if is_uniform(setting.pi) else scale(setting.pi)


@_formula(r"\|W_0\|", "norm of the embedding on the first plateau", LIMIT, bounds=POSITIVE)
def plateau_norm(setting: Setting) -> float:
    """Frobenius norm of W_0 there."""
    return first_plateau(setting).norm


@_formula(
    r"|W_0[i,:]|", "norm of a token's embedding on the first plateau", LIMIT, per_token=True, bounds=POSITIVE
)
def plateau_row_norm(setting: Setting, token: int) -> float:
    """Norm of one row of W_0 there."""
    return float(abs(first_plateau(setting).u[token]))


@_formula(
    r"\kappa",
    "growth rate of W_Q and W_K on the first plateau",
    f"small W_Q, W_K, {FLOW}",
    "1/time",
    bounds=POSITIVE,
)
def focus_rate(setting: Setting) -> float:
    """|κ|, of the combination of W_Q and W_K that grows: their sum, or with κ < 0 their difference."""
    if setting.residual:
        raise OutOfReach("with a residual attention has no gradient on the first plateau: κ = 0 exactly")
    if is_uniform(setting.pi):
        raise OutOfReach("π is uniform: there is no first plateau apart from the origin")
    return abs(first_plateau(setting).kappa)


@_formula(
    r"\|G\|", "growth rate of a second direction on the first plateau", LIMIT, "1/time", bounds=POSITIVE
)
def second_direction_rate(setting: Setting) -> float:
    """The leading singular value of the gradient that new directions of W_0 and W_1 see there."""
    if not setting.residual:
        raise OutOfReach("without a residual no second direction grows before attention does: G = 0 exactly")
    return transverse_rate(setting)


@_formula(
    r"\|G_*\|",
    "growth rate of the first new direction after dilution",
    f"near the critical point where the rank-one flow ends, {FLOW}",
    "1/time",
    bounds=POSITIVE,
)
def opening_rate(setting: Setting) -> float:
    """The leading singular value of G there."""
    if setting.d_vocab > MOST_TOKENS:
        raise OutOfReach(
            f"{setting.d_vocab} tokens: the critical point is looked for with {MOST_TOKENS} at most"
        )
    rate = float(np.linalg.norm(Manifold(setting).transverse(end_of_flow(setting)), 2))
    if rate < CLOSED:
        raise OutOfReach(f"no new direction opens where the rank-one flow ends: G = 0 there, to {CLOSED:g}")
    return rate


@_formula(
    "L_0",
    "loss at the origin: all tokens predicted alike",
    "any optimizer; small weights",
    "nats",
    of_flow=False,
    bounds=POSITIVE,
)
def loss_origin(setting: Setting) -> float:
    """log d."""
    return float(np.log(setting.d_vocab))


@_formula("L_1", "loss on the first plateau", LIMIT, "nats", bounds=POSITIVE)
def loss_plateau(setting: Setting) -> float:
    """Without a residual the entropy of π, which is what the model predicts."""
    return first_plateau(setting).loss


@_formula(
    "H(P)",
    "least possible loss: the entropy rate of the chain",
    "any model; a bound",
    "nats",
    of_flow=False,
    bounds=POSITIVE,
)
def loss_floor(setting: Setting) -> float:
    """Mean entropy of the rows of P."""
    return closed_forms.entropy_rate(setting.pi, setting.transition)


@_formula(
    r"T_{\mathrm{I}}",
    "onset of condensation: W_0 at half of its plateau",
    FROM_SMALL,
    "time",
    bounds=POSITIVE,
)
def onset_condensation(setting: Setting) -> float:
    """See `onsets`; from the initial parameters of the setting's seed, or the typical ones without it."""
    return _onset(setting, "condensation")


@_formula(
    r"T_{\mathrm{II}}", "onset of focus: scores of attention at 0.01", FROM_SMALL, "time", bounds=POSITIVE
)
def onset_focus(setting: Setting) -> float:
    """See `onsets`."""
    focus_rate(setting)
    return _onset(setting, "focus")


@_formula(
    r"T_{\mathrm{III}}",
    "onset of dilution: second token's embedding at half again",
    FROM_SMALL,
    "time",
    bounds=POSITIVE,
)
def onset_dilution(setting: Setting) -> float:
    """See `onsets`."""
    focus_rate(setting)
    return _onset(setting, "dilution")


def _onset(setting: Setting, stage: str) -> float:
    time = onsets(setting)[stage]
    if not np.isnan(time):
        return time
    if stage == "condensation":
        raise OutOfReach("condensation does not set in: W_0 does not come to half of its plateau")
    raise OutOfReach(f"{stage} does not set in: attention has no gradient, or no embedding retracts")
