"""What the asserted steps speak of, by name: passages of the plateau, falls, derivatives, laws.

See docs/theory-asserted-steps.md; each is a small function of a setting, of pure attention on a sticky chain.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from attndyn.theory.asserted import attention_block
from attndyn.theory.asserted.conservation import law_errors
from attndyn.theory.asserted.degenerate import Reduction
from attndyn.theory.asserted.exact import Exact
from attndyn.theory.asserted.monotone import Falls, falls
from attndyn.theory.asserted.monotone import onset_slope as slope_at_onset
from attndyn.theory.asserted.passage import Passage, closest_exponent, passage
from attndyn.theory.asserted.symmetric import Symmetric, flow
from attndyn.theory.computed import OF_GROUP, POSITIVE, group_of, plain_lam
from attndyn.theory.formulas import Formula, focus_rate, registering
from attndyn.theory.setting import OutOfReach, Setting

ASSERTED: dict[str, Formula] = {}
_asserted = registering(ASSERTED)

STICKY = "sticky chain, pure attention without W_V"
PASSING = f"{STICKY}, normal weights of standard deviation ε, gradient flow"
#: widest model whose exact flow is followed
MOST_WIDTH = 32
#: attention amplitude with which the flow leaves the plateau, and how long it is followed
FIRST_Z, HORIZON = 1e-4, 20_000.0
#: width of the model at whose degenerate point derivatives are taken: more is more of the same directions
DERIVATIVE_WIDTH = 2


def _lam(setting: Setting) -> float:
    """λ, of a setting that the functions here can follow."""
    if setting.d_model > MOST_WIDTH:
        raise OutOfReach(f"d_model {setting.d_model}: the exact flow is followed for {MOST_WIDTH} at most")
    return plain_lam(setting)


def _growing(setting: Setting) -> float:
    """The same where there is a first plateau and attention grows on it."""
    lam = _lam(setting)
    if focus_rate(setting) == 0:
        raise OutOfReach("attention does not grow on the first plateau: κ = 0")
    return lam


def _seed(setting: Setting) -> tuple[float, int]:
    """ε and the seed of normal weights."""
    if not setting.std or setting.seed is None:
        raise OutOfReach("what is followed begins at normal weights of one ε > 0 and a seed")
    return setting.std, setting.seed


# -- arrival, escape, and how close to the plateau ---------------------------------------------------------


@lru_cache(maxsize=64)
def _passage(setting: Setting, times: float = 1.0) -> Passage:
    std, seed = _seed(setting)
    return passage(setting.pi, _growing(setting), setting.d_model, times * std, seed)


@_asserted(r"T_1/T_p", "time of escape over time of arrival on the plateau", PASSING, bounds=POSITIVE)
def escape_over_arrival(setting: Setting) -> float:
    """Zero where the run never arrives within 5 %."""
    seen = _passage(setting)
    if seen.arrival == 0:
        raise OutOfReach("the run begins on the plateau")
    return seen.escape / seen.arrival if np.isfinite(seen.arrival) else 0.0


@_asserted("n", "power of ε in the closest approach to the plateau", PASSING)
def plateau_power(setting: Setting) -> float:
    """From two passages of one seed, at ε and at ε/10."""
    near, nearer = (_passage(setting, times).closest for times in (1.0, 0.1))
    return float(np.log10(near / nearer))


@_asserted(r"\min(1, 2\mu/(\mu + 2\kappa))", "power of ε in the closest approach, predicted", PASSING)
def plateau_power_predicted(setting: Setting) -> float:
    """See `closest_exponent`."""
    return closest_exponent(setting.pi, _growing(setting), setting.d_model)


@_asserted("n", "power of ε in the second singular value of W_0 nearest to the plateau", PASSING)
def off_rank_power(setting: Setting) -> float:
    """From two passages of one seed, at ε and at ε/10."""
    if setting.d_model == 1:
        raise OutOfReach("d_model 1: W_0 has one singular value only")
    near, nearer = (_passage(setting, times).off_rank for times in (1.0, 0.1))
    return float(np.log10(near / nearer))


# -- the block of attention --------------------------------------------------------------------------------


@_asserted(
    r"\delta J_{\mathrm{att}}",
    "largest entry of J_att less [[0, C], [C, 0]] with C = κ ŵ ŵᵀ, over |κ|",
    STICKY,
    bounds=POSITIVE,
)
def attention_block_error(setting: Setting) -> float:
    """With the Jacobian by complex steps, and ŵ along the first axis."""
    network = Exact.sticky(setting.pi, _growing(setting), setting.d_model)
    direction = np.eye(setting.d_model)[0]
    block, _ = attention_block.linearisation(network, attention_block.critical_point(network, direction))
    kappa = abs(attention_block.coupling_rate(network))
    return float(np.abs(block - attention_block.predicted_block(network, direction)).max() / kappa)


# -- monotonicity on the rank-one manifold -----------------------------------------------------------------


def _symmetric(setting: Setting) -> Symmetric:
    group = group_of(setting)
    return Symmetric(group.p, group.d_vocab, group.lam, setting.score_scale)


@lru_cache(maxsize=64)
def _falls(setting: Setting) -> Falls:
    of = _symmetric(setting)
    start = of.plateau()
    start[3] = FIRST_Z
    return falls(of, flow(of, start, HORIZON, ends=1e-6))


@_asserted(
    r"\Delta \log z", "largest fall of log z on the way to the degenerate point", OF_GROUP, bounds=POSITIVE
)
def amplitude_fall(setting: Setting) -> float:
    """From the plateau with z = 1e-4."""
    return float(_falls(setting).amplitude)


@_asserted(
    r"\Delta (\|a\|^2 + \|b\|^2)",
    "largest fall of ‖a‖² + ‖b‖² on the way to the degenerate point, over its size on the plateau",
    OF_GROUP,
    bounds=POSITIVE,
)
def size_fall(setting: Setting) -> float:
    """From the plateau with z = 1e-4."""
    of = _symmetric(setting)
    return float(_falls(setting).size / of.size(of.plateau()))


@_asserted(
    r"\Delta (\|a - a_*\|^2 + \|b - b_*\|^2)",
    "largest fall of the squared distance of (a, b) from the plateau, over their size there",
    OF_GROUP,
    bounds=POSITIVE,
)
def deviation_fall(setting: Setting) -> float:
    """From the plateau with z = 1e-4."""
    of = _symmetric(setting)
    return float(_falls(setting).deviation / of.size(of.plateau()))


@_asserted(r"d(\|a\|^2 + \|b\|^2)/dz", "slope of ‖a‖² + ‖b‖² in z as attention begins to grow", OF_GROUP)
def onset_slope(setting: Setting) -> float:
    """See `monotone.onset_slope`."""
    return slope_at_onset(_symmetric(setting))


# -- derivatives at the degenerate point -------------------------------------------------------------------


@lru_cache(maxsize=16)
def _reduction(p: float, d: int, lam: float) -> Reduction:
    return Reduction.of(p, d, lam, DERIVATIVE_WIDTH)


@lru_cache(maxsize=16)
def _derivatives(p: float, d: int, lam: float) -> dict[str, float]:
    return _reduction(p, d, lam).derivatives()


def _key(setting: Setting) -> tuple[float, int, float]:
    group = group_of(setting)
    return group.p, group.d_vocab, group.lam


@_asserted(
    r"\partial g, \partial^2 g",
    "largest of the derivatives of the reduced map but ∂²g/∂x∂δ at the degenerate point",
    f"{OF_GROUP}; m = {DERIVATIVE_WIDTH}",
    bounds=POSITIVE,
)
def reduced_map_derivatives(setting: Setting) -> float:
    """Of first and second order; on circles in the complex plane."""
    found = _derivatives(*_key(setting))
    return max(value for name, value in found.items() if name.startswith("g_") and name != "g_x xd")


@_asserted(
    r"\partial^2 g/\partial x \partial \delta",
    "the derivative of the reduced map that is the transverse instability",
    f"{OF_GROUP}; m = {DERIVATIVE_WIDTH}",
    bounds=POSITIVE,
)
def reduced_map_instability(setting: Setting) -> float:
    """Its largest entry."""
    return _derivatives(*_key(setting))["g_x xd"]


@_asserted(
    r"\partial^2 \eta",
    "largest of the second derivatives of η, the part of the solution in the range",
    f"{OF_GROUP}; m = {DERIVATIVE_WIDTH}",
    bounds=POSITIVE,
)
def range_map_derivatives(setting: Setting) -> float:
    """At the degenerate point."""
    found = _derivatives(*_key(setting))
    return max(value for name, value in found.items() if name.startswith("eta ") and name != "eta d")


@_asserted(
    r"\partial^2 G/\partial \delta^2",
    "largest entry of ∂²G/∂δ² at the degenerate point",
    f"{OF_GROUP}; m = {DERIVATIVE_WIDTH}",
    bounds=POSITIVE,
)
def transverse_second_derivative(setting: Setting) -> float:
    """Of the half that is even in the exchange of the two tilted tokens, and of the odd one."""
    found = _reduction(*_key(setting)).transverse_orders()
    return max(found["second even"], found["second odd"])


@_asserted(
    r"\partial^2 G_-/\partial \delta^2",
    "largest entry of ∂²/∂δ² of the half of G that is odd in the exchange of the tilted tokens",
    f"{OF_GROUP}; m = {DERIVATIVE_WIDTH}",
    bounds=POSITIVE,
)
def transverse_second_derivative_odd(setting: Setting) -> float:
    """Zero by symmetry."""
    return _reduction(*_key(setting)).transverse_orders()["second odd"]


# -- the approximate conservation law ----------------------------------------------------------------------


@lru_cache(maxsize=16)
def _law(setting: Setting) -> dict[str, float]:
    network = Exact.sticky(setting.pi, _lam(setting), setting.d_model)
    return law_errors(network, network.initial(*_seed(setting)), horizon=600).at()


@_asserted("", "drift of the exact law over a cycle, over ‖W_0‖² + ‖W_1‖²", PASSING, bounds=POSITIVE)
def law_error(setting: Setting) -> float:
    """After the time 600; what the integrator makes."""
    return _law(setting)["exact"]


@_asserted("", "error of the law without its constant, over ‖W_0‖² + ‖W_1‖²", PASSING, bounds=POSITIVE)
def law_error_without_constant(setting: Setting) -> float:
    """‖W_0‖² − ‖W_1‖² = ‖W_Q‖² + ‖W_K‖², after the time 600."""
    return _law(setting)["without_constant"]


@_asserted("", "error of ‖W_0‖² = ‖W_1‖², over ‖W_0‖² + ‖W_1‖²", PASSING, bounds=POSITIVE)
def law_error_without_attention(setting: Setting) -> float:
    """After the time 600."""
    return _law(setting)["without_attention"]
