"""The suite `core`: what must hold of any spec's run, whatever the spec is about."""

from __future__ import annotations

import inspect
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from attndyn import registry
from attndyn.conformance import spec_files, spec_invariants, spec_numbers
from attndyn.conformance.faults import Check, Report, run_checks
from attndyn.conformance.trial import Trial, shortened
from attndyn.spec import Spec

CHECKS: dict[str, Check] = {
    "runs to its end": spec_numbers.it_runs,
    "gradients": spec_numbers.gradients,
    "same spec, same bits": spec_numbers.deterministic,
    "replicas are independent": spec_numbers.replicas,
    "exact representations agree": spec_numbers.representations,
    "probabilities sum to 1": spec_invariants.probabilities,
    "softmax and cross-entropy": spec_invariants.unembedding,
    "only W_Q W_Kᵀ matters": spec_invariants.scores,
    "conservation laws": spec_invariants.conserved,
    "trajectory as documented": spec_files.layout,
    "spec.yaml and status.json": spec_files.beside,
    "resumed as uninterrupted": spec_files.resumed,
    "analyses": spec_files.analyses,
}


def check_spec(spec: Spec) -> Report:
    """Every check of the suite `core`, on a spec cut down to a few steps, contexts and replicas.

    What the spec expects of its results is not looked at, nor does it run on anything but NumPy.

    Raises:
        SpecError: the spec cannot be run, or cannot be cut down.
    """
    short = shortened(spec)
    architecture = registry.get("architecture", spec.model.architecture)
    source = inspect.getsourcefile(architecture) or ""
    with TemporaryDirectory() as folder:
        trial = Trial(short, Path(folder))
        case = f"{short.training.steps} steps, batch {short.data.batch}, n_ctx {short.data.n_ctx}"
        # infinities and NaN are what checks look for
        with np.errstate(all="ignore"):
            results = run_checks(CHECKS, [(case, trial)], source)
        if "run" in trial.__dict__:
            trial.run.close()
    return Report("spec", spec.name, f"{spec.model.architecture}, shortened", results)
