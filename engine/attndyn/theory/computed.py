"""Numbers of the theory that are found by computing: spectra, critical points, exponents, by name.

They are what closed forms and statements are compared with (`conformance`, kind `formula`). Each is a small
function of a setting and takes a second at most.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from attndyn.theory import critical, spectrum
from attndyn.theory.bifurcation import Continued, DegeneratePoint, SymmetricGroup
from attndyn.theory.exponents import fit_exponent
from attndyn.theory.formulas import Formula, registering
from attndyn.theory.interpolation import outlook
from attndyn.theory.problem import Problem
from attndyn.theory.setting import OutOfReach, Setting
from attndyn.theory.spectrum import Classification, Spectrum

COMPUTED: dict[str, Formula] = {}
_computed = registering(COMPUTED)

POSITIVE, SHARE = (0.0, math.inf), (0.0, 1.0)
#: with more coordinates all modes take more than a second or two
MOST_COORDINATES = 700
#: three decades of δ, over which exponents are fitted
DELTAS = np.logspace(-5, -2, 13)
AT_ORIGIN, AT_FIRST = "W = 0", "the first critical point"
OF_GROUP = "π with a symmetric group, sticky chain, pure attention without W_V"


# -- sizes ------------------------------------------------------------------------------------------------


@_computed("m", "width of the model", "any", bounds=POSITIVE)
def d_model(setting: Setting) -> float:
    """The width m."""
    return float(setting.d_model)


@_computed("d", "number of tokens", "any", bounds=POSITIVE)
def d_vocab(setting: Setting) -> float:
    """The number of tokens d."""
    return float(setting.d_vocab)


# -- the origin and the first critical point --------------------------------------------------------------


@lru_cache(maxsize=16)
def _problem(setting: Setting) -> Problem:
    problem = Problem.of_setting(setting)
    if problem.size > MOST_COORDINATES:
        raise OutOfReach(f"{problem.size} parameters: all modes are found for {MOST_COORDINATES} at most")
    return problem


@lru_cache(maxsize=16)
def _origin(setting: Setting) -> Spectrum:
    problem = _problem(setting)
    return spectrum.full(problem, critical.origin(problem).flat)


@lru_cache(maxsize=16)
def _first(setting: Setting) -> critical.CriticalPoint:
    return critical.first(_problem(setting))


@lru_cache(maxsize=16)
def _modes(setting: Setting) -> Spectrum:
    return spectrum.full(_problem(setting), _first(setting).flat)


@lru_cache(maxsize=16)
def _kinds(setting: Setting) -> Classification:
    return spectrum.classify(_modes(setting))


@_computed(r"\lambda_1(0)", "largest rate of the linearised flow at the origin", AT_ORIGIN, "1/time")
def origin_rate(setting: Setting) -> float:
    """From all modes of the exact Hessian."""
    return float(_origin(setting).rates[0])


@_computed(r"n_+(0)", "number of growing modes at the origin", AT_ORIGIN, bounds=POSITIVE)
def origin_unstable(setting: Setting) -> float:
    """How many of the modes grow."""
    return float(_origin(setting).unstable.sum())


@_computed(r"\|\nabla L\|", "norm of the gradient at θ_c¹", AT_FIRST, bounds=POSITIVE)
def first_residual(setting: Setting) -> float:
    """Of the whole gradient."""
    return _first(setting).residual


@_computed("L", "loss at θ_c¹", AT_FIRST, "nats", bounds=POSITIVE)
def first_loss(setting: Setting) -> float:
    """By the model itself, at the point that the solver found."""
    return _first(setting).loss


@_computed(r"\lambda_1", "largest rate of the linearised flow at θ_c¹", AT_FIRST, "1/time")
def first_rate(setting: Setting) -> float:
    """From all modes of the exact Hessian."""
    return float(_modes(setting).rates[0])


@_computed(r"\lambda_m", "smallest rate among the m fastest modes at θ_c¹", AT_FIRST, "1/time")
def first_rate_last(setting: Setting) -> float:
    """The m-th largest of all rates."""
    return float(_modes(setting).rates[setting.d_model - 1])


@_computed(r"n_+", "number of growing modes at θ_c¹", AT_FIRST, bounds=POSITIVE)
def first_unstable(setting: Setting) -> float:
    """How many of the modes grow."""
    return float(_kinds(setting).unstable)


@_computed(r"n_-", "number of contracting modes at θ_c¹ beside those of attention", AT_FIRST, bounds=POSITIVE)
def first_contracting_outer(setting: Setting) -> float:
    """How many dimensions of the decaying modes are those of W_0, W_V and W_1.

    Attention does not couple to them there, so that the decaying modes' squared parts add up to a number.
    """
    modes = _modes(setting)
    parts = modes.problem.unpack(modes.modes[modes.contracting])
    return float(np.rint(sum(np.sum(parts[name] ** 2) for name in spectrum.OUTER if name in parts)))


@_computed(
    r"n_0",
    "number of modes at θ_c¹ that neither grow nor decay and that no symmetry explains",
    AT_FIRST,
    bounds=POSITIVE,
)
def first_unexplained(setting: Setting) -> float:
    """Neutral modes without a reason of `symmetry.spaces`."""
    return float(_kinds(setting).unexplained)


@_computed(
    r"\cos",
    "least length that a growing mode at θ_c¹ keeps in the predicted space W_Q = ± W_K = ŵ uᵀ",
    AT_FIRST,
    bounds=SHARE,
)
def first_overlap(setting: Setting) -> float:
    """1 if every growing mode is of the predicted form; ± is the sign of κ."""
    if setting.residual or setting.value_projection:
        raise OutOfReach("the growing modes are predicted for pure attention without W_V only")
    modes = _modes(setting)
    parts = modes.problem.unpack(modes.modes[modes.unstable])
    if not len(parts["W_Q"]):
        raise OutOfReach("no mode grows at the first critical point")
    w = np.linalg.svd(_first(setting).matrices["W_0"])[2][0]
    sign = np.sign(np.sum(parts["W_Q"][0] * parts["W_K"][0]))
    along = np.einsum("m,nmh->nh", w, parts["W_Q"] + sign * parts["W_K"]) / np.sqrt(2)
    return min(1.0, float(np.linalg.norm(along, axis=1).min()))  # beyond it by rounding


@_computed(
    r"\mathrm{cond}", "largest entry of the Hessian between attention and the rest", AT_FIRST, bounds=POSITIVE
)
def first_coupling(setting: Setting) -> float:
    """As a share of the largest entry of the block of attention."""
    entries = spectrum.blocks(_problem(setting), _first(setting).flat)
    return entries["outer", "attention"] / entries["attention", "attention"]


@_computed(
    r"\|\partial_{A}\|",
    "largest entry of the block of attention over that of the rest at θ_c¹",
    AT_FIRST,
    bounds=POSITIVE,
)
def first_attention_block(setting: Setting) -> float:
    """Zero where attention has no linear growth at all."""
    entries = spectrum.blocks(_problem(setting), _first(setting).flat)
    return entries["attention", "attention"] / entries["outer", "outer"]


# -- the degenerate point of a symmetric group, and δ ------------------------------------------------------


def plain_lam(setting: Setting) -> float:
    """λ of a sticky chain under the plainest model.

    Raises:
        OutOfReach: the chain is another, or the model has a residual, a W_V or unscaled scores.
    """
    if setting.lam is None or setting.residual or setting.value_projection:
        raise OutOfReach("known for pure attention without W_V on a sticky chain only")
    if setting.score_scale != setting.d_model**-0.5:
        raise OutOfReach("known for scores over √m only")
    return setting.lam


def group_of(setting: Setting) -> SymmetricGroup:
    """The symmetric group that a setting's π has.

    Raises:
        OutOfReach: tokens but the first differ, or the model is another.
    """
    lam = plain_lam(setting)
    if np.ptp(setting.pi[1:]) > 1e-12:
        raise OutOfReach("π has no symmetric group: tokens but the first differ")
    return SymmetricGroup(float(setting.pi[0]), lam, setting.d_vocab, setting.d_model)


@lru_cache(maxsize=16)
def _degenerate(setting: Setting) -> DegeneratePoint:
    return group_of(setting).degenerate_point()


@lru_cache(maxsize=16)
def _continued(setting: Setting) -> tuple[Continued, ...]:
    return tuple(_degenerate(setting).continued(DELTAS))


@_computed(
    r"\|\nabla L\|", "largest entry of the gradient at the degenerate point", OF_GROUP, bounds=POSITIVE
)
def degenerate_residual(setting: Setting) -> float:
    """On the rank-one manifold, to which it is tangent."""
    return _degenerate(setting).residual


@_computed(r"\|G\|", "rate of new directions at the degenerate point", OF_GROUP, "1/time", bounds=POSITIVE)
def degenerate_transverse(setting: Setting) -> float:
    """The largest singular value of G at δ = 0."""
    point = _degenerate(setting)
    return float(np.linalg.norm(point.manifold.transverse(point.theta), 2))


@_computed("", "stability of the degenerate point within the manifold", OF_GROUP)
def degenerate_margin(setting: Setting) -> float:
    """See `SymmetricGroup.margin`: negative where tokens part at a rate that does not vanish with δ."""
    return group_of(setting).margin


@_computed("n", "exponent of the rate of the first new direction in δ", OF_GROUP)
def transverse_exponent(setting: Setting) -> float:
    """Fitted to 13 values of δ from 1e-5 to 1e-2."""
    return fit_exponent(DELTAS, np.array([c.transverse[0] for c in _continued(setting)])).value


@_computed("n_2", "exponent of the rate of the second new direction in δ", f"{OF_GROUP}; d > 3")
def second_transverse_exponent(setting: Setting) -> float:
    """Fitted to the same δ."""
    if setting.d_vocab < 4:
        raise OutOfReach("with three tokens no second direction opens")
    return fit_exponent(DELTAS, np.array([c.transverse[1] for c in _continued(setting)])).value


@_computed(
    r"\partial_\delta \|G\|", "rate of the first new direction per δ", OF_GROUP, "1/time", bounds=POSITIVE
)
def transverse_slope(setting: Setting) -> float:
    """From the critical point continued to δ = 1e-5, the least of `DELTAS`."""
    least = _continued(setting)[0]
    return float(least.transverse[0] / least.delta)


@_computed(
    r"|g||s|", "rate of the first new direction per δ, in closed form", OF_GROUP, "1/time", bounds=POSITIVE
)
def transverse_slope_predicted(setting: Setting) -> float:
    """See `DegeneratePoint.slope`."""
    return _degenerate(setting).slope


@_computed(
    r"\lambda_\parallel",
    "largest rate along the three neutral directions of the manifold, over all δ",
    OF_GROUP,
    "1/time",
    bounds=POSITIVE,
)
def tangential_rate(setting: Setting) -> float:
    """Its absolute value, at the continued critical points."""
    return max(c.tangential for c in _continued(setting))


@_computed("Q", "curvature that ends the growth of the new direction", OF_GROUP)
def opening_quartic(setting: Setting) -> float:
    """See `DegeneratePoint.quartic`: negative where growth does not end near the point."""
    return _degenerate(setting).quartic


# -- where the rank-one flow ends, for any π ----------------------------------------------------------------


@_computed(
    "", "the token that the first new direction turns most", "sticky chain, pure attention", bounds=POSITIVE
)
def next_token(setting: Setting) -> float:
    """Its position, at the end of the flow on the rank-one manifold."""
    order = outlook(setting.pi, plain_lam(setting), setting.d_model).order
    if not order:
        raise OutOfReach("no new direction opens: G = 0 exactly")
    return float(order[0])
