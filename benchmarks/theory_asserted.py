"""Scans of the steps that the paper asserts, as the tables of benchmarks/theory.md. About two minutes.

OMP_NUM_THREADS=1 python benchmarks/theory_asserted.py [times] [monotone] [conservation] [block] [degenerate]
"""

import sys

import numpy as np

from attndyn.theory.asserted.attention_block import critical_point, linearisation, predicted_block
from attndyn.theory.asserted.conservation import law_errors
from attndyn.theory.asserted.degenerate import Reduction
from attndyn.theory.asserted.exact import Exact
from attndyn.theory.asserted.monotone import falls, onset_slope, starts
from attndyn.theory.asserted.passage import closest_exponent, contraction_rate, passage
from attndyn.theory.asserted.symmetric import Symmetric, flow
from attndyn.theory.bifurcation import SymmetricGroup
from attndyn.theory.closed_forms import condensation_rate, focus_rate
from attndyn.theory.exponents import fit_exponent

SYMMETRIC = np.array([0.6, 0.2, 0.2])
SEEDS = range(3)
# p, d, λ, m
POINTS = ((0.6, 3, 0.5, 2), (0.6, 3, 0.5, 3), (0.7, 4, 0.3, 2), (0.5, 5, 0.7, 2), (0.8, 8, 0.3, 2))


def geometric(d: int) -> np.ndarray:
    """π_k ∝ 4^−k."""
    weights = 0.25 ** np.arange(d)
    return weights / weights.sum()


# name, π, λ, m
SETTINGS = (
    ("symmetric d = 3", SYMMETRIC, 0.5, 16),
    ("geometric d = 4", geometric(4), 0.5, 16),
    ("geometric d = 5", geometric(5), 0.5, 16),
    ("geometric d = 5, strong", geometric(5), 0.9, 4),
    ("geometric d = 6", geometric(6), 0.5, 16),
)


def times() -> None:
    """Arrival, escape, and the powers of ε at the closest approach."""
    scales = 10.0 ** np.arange(-7.0, -0.9, 0.5)
    small = scales <= 1e-5
    print("| setting | σ | μ | κ | T_p at 1e-6 | T_1 at 1e-6 | in order up to ε = |", end="")
    print(" power of closest | predicted | of ‖W_Q W_Kᵀ‖ | of the rank defect |\n|" + "---|" * 11)
    for name, pi, lam, m in SETTINGS:
        seen = [[passage(pi, lam, m, std, seed) for std in scales] for seed in SEEDS]
        ordered = np.all([[p.in_order for p in row] for row in seen], axis=0)
        last = scales[np.argmin(ordered) - 1] if not ordered.all() else scales[-1]
        medians = [np.median([getattr(row[2], key) for row in seen]) for key in ("arrival", "escape")]
        powers = [
            fit_exponent(scales[small], np.array([[getattr(p, key) for p in row] for row in seen])[:, small])
            for key in ("closest", "amplitude", "off_rank")
        ]
        cells = [f"{p.value:.3f} ± {p.high - p.value:.3f}" for p in powers]
        cells.insert(1, f"{closest_exponent(pi, lam, m):.3f}")
        rates = condensation_rate(pi), contraction_rate(pi), focus_rate(pi, lam, m)
        columns = [f"{x:.4f}" for x in rates] + [f"{x:.0f}" for x in medians] + [f"{last:.0e}", *cells]
        print(f"| {name} | {' | '.join(columns)} |", flush=True)


def _grid() -> list[Symmetric]:
    scale = 32**-0.5
    return [
        Symmetric(p, d, lam, scale)
        for p in (0.3, 0.5, 0.7, 0.9)
        for d in (3, 4, 6, 8)
        for lam in (0.1, 0.3, 0.5, 0.7, 0.9)
        if p > 1 / d
    ]


def monotone() -> None:
    """Shares of a grid of settings in which quantities only grow, from the plateau and from around it."""
    grid, rng = _grid(), np.random.default_rng(0)
    plateau = np.stack([setting.plateau() for setting in grid], axis=1)
    columns = (np.array([getattr(s, key) for s in grid]) for key in ("p", "d", "lam", "scale"))
    many = Symmetric(*columns)
    print(
        f"| radius | z at the start | z | largest fall of log z | size | deviation | of {len(grid)} × draws |"
    )
    print("|" + "---|" * 7)
    for radius, draws in ((0.0, 1), (0.01, 4), (0.1, 4), (0.3, 4)):
        for z in (1e-6, 1e-3, 1e-1):
            seen = [falls(many, flow(many, starts(many, plateau, radius, z, rng), 6000.0, 1e-9))]
            for _ in range(draws - 1):
                seen.append(falls(many, flow(many, starts(many, plateau, radius, z, rng), 6000.0, 1e-9)))
            amplitude, size, deviation = (np.concatenate(values) for values in zip(*seen, strict=True))
            shares = [f"{np.mean(values < 1e-6):.0%}" for values in (amplitude, size, deviation)]
            shares.insert(1, f"{amplitude.max():.1e}")
            print(f"| {radius} | {z:.0e} | {' | '.join(shares)} | {draws} |", flush=True)
    growing = [setting for setting in grid if onset_slope(setting) > 0]
    print(f"\nonset slope positive in {len(growing)} of {len(grid)}:")
    for p in (0.3, 0.5, 0.7, 0.9):
        print(f"p = {p}:", ", ".join(f"d = {s.d}, λ = {s.lam}" for s in growing if s.p == p))


def conservation() -> None:
    """Errors of the law without its constant and without attention."""
    network = Exact.sticky(SYMMETRIC, 0.5, 8)
    rates = condensation_rate(SYMMETRIC), focus_rate(SYMMETRIC, 0.5, 8)
    print("| ε | form | attention moved 0.003 | 0.01 | 0.1 | end |\n|" + "---|" * 6)
    for std in (1e-1, 1e-2, 1e-3, 1e-4):
        horizon = 1.1 * np.log(1 / std) * sum(1 / rate for rate in rates) + 1500
        errors = law_errors(network, network.initial(std, 0), horizon)
        for form in ("exact", "without_constant", "without_attention"):
            cells = [f"{errors.at(moved)[form]:.1e}" for moved in (0.003, 0.01, 0.1, None)]
            print(f"| {std:.0e} | {form.replace('_', ' ')} | {' | '.join(cells)} |", flush=True)


def block() -> None:
    """The attention block against its closed form, over random chains."""
    rng, worst = np.random.default_rng(0), np.zeros(2)
    for _ in range(200):
        d, m = rng.integers(3, 9), int(rng.integers(2, 7))
        pi, direction = rng.dirichlet(np.ones(d)), rng.standard_normal(m)
        direction /= np.linalg.norm(direction)
        network = Exact.sticky(pi, rng.uniform(0, 1), m)
        found, coupling = linearisation(network, critical_point(network, direction))
        off = np.abs(found - predicted_block(network, direction)).max()
        worst = np.maximum(worst, [off, np.abs(coupling).max()])
    print(f"200 random (π, λ, d, m): block off by {worst[0]:.1e}, coupling to W_0, W_1 {worst[1]:.1e}")


def degenerate() -> None:
    """Derivatives at the degenerate point, and where its tokens can part within the manifold."""
    for p, d, lam, m in POINTS:
        reduction = Reduction.of(p, d, lam, m)
        found = reduction.derivatives() | reduction.transverse_orders()
        print(f"\np = {p}, d = {d}, λ = {lam}, m = {m}: opening rate {reduction.opening_rate():.4f} |δ|,")
        print("smallest curvature", f"{reduction.range_[0].min():.4f}")
        print(", ".join(f"{name} {value:.1e}" for name, value in found.items()), flush=True)
    print("\nlargest λ (of 0.01, 0.02, …) at which tokens of the group stay together within the manifold")
    lams, sizes = np.arange(0.01, 1, 0.01), (3, 4, 5, 6, 8)
    print("| p | " + " | ".join(f"d = {d}" for d in sizes) + " |\n|" + "---|" * 6)
    for p in (0.4, 0.5, 0.6, 0.75, 0.9):
        together = [[SymmetricGroup(p, lam, d, 1).margin > 0 for lam in lams] for d in sizes]
        cells = [f"{lams[np.argmin(row) - 1]:.2f}" if not all(row) and row[0] else "-" for row in together]
        print(f"| {p} | {' | '.join(cells)} |")


SECTIONS = {f.__name__: f for f in (times, monotone, conservation, block, degenerate)}

if __name__ == "__main__":
    for section in sys.argv[1:] or SECTIONS:
        if section not in SECTIONS:
            sys.exit(__doc__)
        print(f"\n## {section}\n")
        SECTIONS[section]()
