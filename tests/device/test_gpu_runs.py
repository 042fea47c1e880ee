"""On a GPU: whole short runs on CuPy equal those on NumPy, to rounding."""

import numpy as np
import pytest

from attndyn.backend.base import Backend
from attndyn.backend.cupy_backend import CupyBackend, unusable
from device.short_runs import CASES, RUNS, assert_same_run

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(bool(unusable()), reason=f"no GPU: {unusable()}")]

# sums are taken in another order on a GPU; a few steps let the difference grow, the integrator's choice of
# step sizes more so
TOLERANCE = {"float64": 1e-9, "float32": 1e-3}
FLOW_TOLERANCE = 1e-5


@pytest.mark.parametrize(("case", "dtype"), RUNS)
def test_run_equals_numpy(small, case, dtype):
    spec = small(*CASES[case], f"training.dtype={dtype}")
    tolerance = FLOW_TOLERANCE if case == "flow" else TOLERANCE[dtype]
    assert_same_run(spec, CupyBackend(dtype), Backend(np, dtype), tolerance)
