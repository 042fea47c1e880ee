"""The rates at which new directions open in a spec's first seed, beside the theory's, as Markdown table rows.

python benchmarks/theory_bifurcation.py specs/paper/theory-bifurcation.yaml
"""

import sys
import tempfile

import numpy as np

import attndyn
from attndyn.spec import load_spec
from attndyn.theory.exponents import fit_exponent
from attndyn.theory.manifold import Manifold
from attndyn.theory.opening import opening
from attndyn.theory.setting import Setting


def rows(path):
    """One row for each replica, then the fitted exponent of those whose rate was measured."""
    fitted = []
    with tempfile.TemporaryDirectory() as out:
        run = attndyn.run(load_spec(path, ["replicas.seeds=1"]), out)
        records = run.trajectory["parameters"].to_dataset()
        for r, spec in enumerate(run.spec.replicas_expanded().specs):
            manifold = Manifold(Setting.of(spec))
            one = records.isel(replica=r)
            theta = manifold.descend()
            delta, rate = spec.data.stationary.delta, np.linalg.norm(manifold.transverse(theta), 2)
            seen = opening(manifold, theta, one["time"].values.ravel(), one["W_0"].values, one["W_1"].values)
            if delta:
                fitted.append((delta, rate, seen.rate))
            yield f"| {delta:g} | {rate:.6f} | {seen.rate:.6f} | {seen.records} | {seen.distance:.1e} |"
        run.close()
    deltas, told, seen = np.array(fitted).T
    for name, rates in (("predicted", told), ("measured", seen)):
        exponent = fit_exponent(deltas, rates)
        yield f"{name}: exponent {exponent.value:.3f} ({exponent.low:.3f} to {exponent.high:.3f})"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for row in rows(sys.argv[1]):
        print(row, flush=True)
