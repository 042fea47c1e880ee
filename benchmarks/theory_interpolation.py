"""From the symmetric group to the geometric distribution: predictions against trajectories.

python benchmarks/theory_interpolation.py
"""

import tempfile

import numpy as np
from scipy.special import softmax

import attndyn
from attndyn.spec import parse_spec
from attndyn.theory.interpolation import linear_slope, outlook, path
from attndyn.theory.manifold import Manifold
from attndyn.theory.opening import opening
from attndyn.theory.setting import Setting

TAUS = (0, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1)
RATIO, LAM, WIDTH = 0.25, 0.5, 32
LR, TIME = 0.25, 12000

SPEC = """
name: interpolation
data:
  kind: markov
  stationary: {{kind: explicit, pi: {first}}}
  transition: {{kind: sticky, lam: 0.5}}
  regime: population
model: {{architecture: pure_attention, d_model: 32, init: {{kind: normal, std: {std}}}}}
optimizer: {optimizer}
training: {training}
replicas: {{vary: {{data.stationary.pi: {pis}}}}}
probes: {{attention: {{every: {every}}}, parameters: {{every: {every}}}}}
analyzers: [stages]
"""


def simulate(d, out, **changes):
    """A run with one replica for each τ."""
    pis = [[float(x) for x in path(d, RATIO, tau)] for tau in TAUS]
    return attndyn.run(parse_spec(SPEC.format(first=pis[0], pis=pis, **changes)), out)


def records(run):
    """Times `(record,)` and, by name, the matrices of all replicas `(replica, record, …)`."""
    found = run.trajectory["parameters"].to_dataset()
    names = ("W_0", "W_1", "W_Q", "W_K")
    matrices = {n: found[n].transpose("replica", "step", ...).values for n in names}
    time = found["time"].values if "time" in found.coords else found["step"].values * LR
    return np.atleast_2d(time)[0], {n: m.reshape(*m.shape[:2], *m.shape[-2:]) for n, m in matrices.items()}


def slope(time, amplitude, among):
    """The growth rate of an amplitude over some records."""
    return np.polyfit(time[among], np.log(amplitude[among]), 1)[0] if among.sum() > 4 else np.nan


def sigma(time, w_0, w_1, pi):
    """Of the combination of W_0 and W_1 that grows at the origin, while small."""
    back = pi - 1 / len(pi)
    grown = np.einsum("i,tim->tm", pi / np.linalg.norm(pi), w_0) + w_1 @ (back / np.linalg.norm(back))
    size = np.linalg.norm(grown, axis=1)
    return slope(time, size, size < 1e-2)


def kappa(time, w_0, w_q, w_k):
    """Of W_Q + W_K along the embedding's direction, once the plateau is reached and while they are small."""
    w = np.linalg.svd(w_0)[2][:, 0]
    size = np.linalg.norm(np.einsum("tm,tmn->tn", w, w_q + w_k), axis=1)
    return slope(time, size, (time > 60) & (size < 0.1))


def openings(time, w_0):
    """When each new direction of W_0 passes a tenth of the leading one for good."""
    strengths = np.linalg.svd(w_0, compute_uv=False)
    below = strengths[:, 1:] <= 0.1 * strengths[:, :1]
    return [time[np.flatnonzero(b)[-1]] for b in below.T if not b[-1]]


def on_the_way(time, weights, pi):
    """The mean of the largest singular value of G in the whole model, and the growth of W_0's second one.

    Over the records where that singular value of W_0 has doubled and is below a twentieth of the first.
    """
    w_0, w_1, inner = weights["W_0"], weights["W_1"], weights["W_Q"] @ weights["W_K"].swapaxes(1, 2)
    strengths = np.linalg.svd(w_0, compute_uv=False)
    least = strengths[time > 60, 1].min()
    there = (time > 60) & (strengths[:, 1] > 2 * least) & (strengths[:, 1] < 0.05 * strengths[:, 0])
    w_0, w_1, inner = w_0[there], w_1[there], inner[there]
    scores = w_0 @ inner @ w_0.swapaxes(1, 2) / np.sqrt(WIDTH)
    attention = softmax(scores + np.log(pi), axis=2)
    transition = Setting.sticky(pi, LAM, WIDTH).transition
    d_logits = pi[:, None] * (softmax(attention @ w_0 @ w_1, axis=2) - transition)
    law = np.linalg.norm(attention.swapaxes(1, 2) @ d_logits, 2, axis=(1, 2))
    return law.mean() if len(law) else np.nan, slope(time, strengths[:, 1], there)


def rows(d):
    """The table's rows for a vocabulary of d tokens."""
    with tempfile.TemporaryDirectory() as out:
        flow = "{kind: flow, rtol: 1e-9, atol: 1e-14}"
        short = simulate(d, out, std=1e-6, optimizer=flow, training="{steps: 56, time: 14}", every=1)
        early_time, early = records(short)
        short.close()
        steps = int(TIME / LR)
        gd = f"{{kind: gd, lr: {LR}}}"
        run = simulate(d, out, std=1e-4, optimizer=gd, training=f"{{steps: {steps}}}", every=20)
        time, late = records(run)
        stages = run.analyze(["stages"])["stages"].isel(layer=0, head=0)
        run.close()
    for r, tau in enumerate(TAUS):
        pi = path(d, RATIO, tau)
        told = outlook(pi, LAM, WIDTH)
        seen = opening(
            Manifold(Setting.sticky(pi, LAM, WIDTH)), told.theta, time, late["W_0"][r], late["W_1"][r]
        )
        one = stages.isel(replica=r)
        directions = one["direction_step"].values[1:] * LR
        opened = [f"{t:.0f}" for t in openings(time, late["W_0"][r])]
        focus = one["boundary_step"].sel(boundary=["focus_peak", "dilution_end"]).values * LR
        cells = [
            f"{tau:g}",
            f"{told.sigma:.4f} / {sigma(early_time, early['W_0'][r], early['W_1'][r], pi):.4f}",
            f"{told.kappa:.5f} / {kappa(time, late['W_0'][r], late['W_Q'][r], late['W_K'][r]):.5f}",
            f"{tau * linear_slope(d, RATIO, LAM, WIDTH):.5f}",
            f"{told.transverse[0]:.5f} / {seen.rate:.5f}",
            f"{told.settling:.4f}",
            f"{seen.distance:.1e}",
            " → ".join(f"{t:.0f}" for t in focus),
            " ".join(map(str, told.order)) or "none",
            " / ".join(f"{rate:.5f}" for rate in on_the_way(time, {n: m[r] for n, m in late.items()}, pi)),
            ", ".join(opened) or "none",
            ", ".join("–" if np.isnan(t) else f"{t:.0f}" for t in directions),
            f"{int(one['token_dilutes'].sum())}",
        ]
        yield f"| {' | '.join(cells)} |"


HEADER = (
    "τ",
    "σ",
    "κ",
    "transverse, linear in τ",
    "transverse",
    "settling",
    "distance",
    "focus peak → dilution end",
    "order",
    "on the way",
    "directions open at",
    "token k apart at",
    "cycles",
)

if __name__ == "__main__":
    for d in (4, 5):
        print(f"\nd = {d}\n\n| {' | '.join(HEADER)} |\n|{'---|' * len(HEADER)}")
        for row in rows(d):
            print(row, flush=True)
