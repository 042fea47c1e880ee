#!/usr/bin/env bash
# What needs a GPU: the tests marked `gpu`, then step rates of both backends; under three minutes in all.
# Needs an environment with attndyn[cuda12] or attndyn[cuda13] and pytest, and no network:
#     benchmarks/gpu_check.sh
#     PYTHON=/path/to/python benchmarks/gpu_check.sh
# Exit codes: 0 all passed; 1 a test failed; 2 there is no GPU to check, or no environment.
set -uo pipefail
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-.venv/bin/python}

if ! reason=$("$PYTHON" -c 'from attndyn.backend.cupy_backend import unusable; print(unusable())'); then
    echo "gpu_check: $PYTHON cannot import attndyn; run make first, or set PYTHON" >&2
    exit 2
fi
if [ -n "$reason" ]; then
    echo "gpu_check: nothing was checked: $reason" >&2
    exit 2
fi

"$PYTHON" -c '
import cupy, numpy
device = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
print(f"{device}, CuPy {cupy.__version__}, NumPy {numpy.__version__}")'
# warnings of the CUDA set-up are shown; they are no failure of the engine
"$PYTHON" -m pytest -q -m gpu -W default tests/backend tests/device || exit 1
"$PYTHON" benchmarks/step_rates.py || exit 1
