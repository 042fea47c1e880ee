"""Gradient descent against flow, what Adam changes, recurrence: the tables that the documents quote."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import attndyn
from attndyn.theory.discrete import against_flow
from attndyn.theory.exponents import fit_exponent
from attndyn.theory.recurrence import openings

SPECS = Path(__file__).parents[1] / "specs"
GRADIENT_DESCENT = SPECS / "controls" / "population-gd.yaml"
RATES = (0.2, 0.1, 0.05, 0.025)
QUIET = ["expect=[]", "replicas.seeds=4", "analyzers=[stages]"]
SPARSE = [
    "probes={loss: {every: 100}, attention: {every: 20}, parameters: {every: 20}, invariants: {every: 100}}"
]
REGIMES = {
    "Adam, sampled": [],
    "Adam, population": ["data.regime=population"],
    "gd, population": ["data.regime=population", "optimizer={kind: gd, lr: 0.1}", "training.steps=20000"],
}


def discrete(time: float) -> None:
    """Order of convergence at one time."""
    found = against_flow(
        attndyn.load_spec(SPECS / "controls" / "population-gd.yaml", ["replicas.seeds=1"]), RATES, time
    )
    rows = {"distance of parameters": found.distance, "loss": np.abs(found.loss)}
    rows |= {f"drift of {name}": drift for name, drift in found.drift.items()}
    print(f"\ntime {time:g} | " + " | ".join(f"lr {rate}" for rate in RATES) + " | exponent")
    for name, errors in rows.items():
        order = fit_exponent(found.rates, errors)
        shown = " | ".join(f"{error:.2e}" for error in errors)
        print(f"{name} | {shown} | {order.value:.3f} ({order.low:.3f} to {order.high:.3f})")
    print("drift under flow:", {name: f"{drift:.1e}" for name, drift in found.flow_drift.items()})


def regimes() -> None:
    """Which stages survive an optimizer, with and without sampling; what is conserved of the laws."""
    for name, changes in REGIMES.items():
        spec = attndyn.load_spec(SPECS / "paper" / "figure2.yaml", [*QUIET, *SPARSE, *changes])
        with TemporaryDirectory() as folder:
            run = attndyn.run(spec, folder)
            stages = run.analyze()["stages"]
            share = stages["boundary_share"].squeeze(drop=True).to_series()
            norms = np.linalg.norm(run.trajectory["parameters"]["W_0"].isel(replica=0), axis=-1)[20]
            drift = run.trajectory["invariants"]["drift"].isel(step=-1).max("replica").to_series()
            run.close()
        print(f"\n{name}: row norms of W_0 at step 400 {norms.round(2)}")
        print("  present in all seeds:", ", ".join(share[share == 1].index))
        print("  tokens part at:", stages["direction_step"].values.round().tolist())
        print("  drift at the end:", {law: f"{value:.1e}" for law, value in drift.items()})


def recurrence() -> None:
    """The openings of the second and third direction under gradient descent."""
    changes = ["optimizer.lr=0.2", "training.steps=9500", "probes={parameters: {every: 25}}", "analyzers=[]"]
    spec = attndyn.load_spec(
        SPECS / "controls" / "population-gd.yaml", ["expect=[]", "replicas.seeds=1", *changes]
    )
    with TemporaryDirectory() as folder:
        run = attndyn.run(spec, folder)
        group = run.trajectory["parameters"].isel(replica=0).squeeze(["layer", "head"]).load()
        weights = {name: group[name].values for name in ("W_0", "W_1", "W_Q", "W_K")}
        pi, transition = (run.trajectory[name].values[0] for name in ("pi", "transition"))
        run.close()
    print()
    for opening in openings(group["time"].values, weights, pi, transition):
        print(opening)


if __name__ == "__main__":
    discrete(100.0)
    discrete(400.0)
    regimes()
    recurrence()
