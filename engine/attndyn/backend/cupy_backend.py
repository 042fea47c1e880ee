"""CuPy: the same operations on a CUDA device, in their reference form but for look-up."""

from __future__ import annotations

import numpy as np

from attndyn.backend.base import Array
from attndyn.backend.lookup import OneHotLookup
from attndyn.errors import BackendError


class CupyBackend(OneHotLookup):
    """Arrays on the current CUDA device.

    Raises:
        BackendError: CuPy is not installed, or there is no CUDA device it can use.
    """

    name = "cupy"
    check_every = 64

    def __init__(self, dtype: str = "float64"):
        reason = unusable()
        if reason:
            raise BackendError(f"backend 'cupy' cannot be used: {reason}; allowed here: numpy")
        import cupy

        super().__init__(cupy, dtype)

    def to_host(self, array: Array) -> np.ndarray:
        """A device array as a NumPy array; waits for the device."""
        return self.xp.asnumpy(array)


def unusable() -> str:
    """Why CuPy cannot be used here, in a few words; empty if it can."""
    try:
        import cupy
    except ImportError:
        return "CuPy is not installed (pip install 'attndyn[cuda12]' or 'attndyn[cuda13]')"
    try:
        if cupy.cuda.runtime.getDeviceCount() == 0:
            return "there is no CUDA device"
        # a device that is listed may still refuse work: an old driver, another's exclusive use; and the
        # libraries that compile kernels and multiply matrices are not part of CuPy
        ones = cupy.ones((2, 2))
        (ones @ ones).sum().item()
    except Exception as error:  # CuPy raises many types here
        return f"no usable CUDA device ({' '.join(str(error).split())[:120] or type(error).__name__})"
    return ""
