"""Choosing a backend by name."""

from __future__ import annotations

from attndyn.backend.base import Backend
from attndyn.backend.cupy_backend import CupyBackend, unusable
from attndyn.backend.numpy_backend import NumpyBackend
from attndyn.errors import BackendError

NAMES = ("auto", "numpy", "cupy")


def get_backend(name: str = "auto", dtype: str = "float64") -> Backend:
    """The backend of that name; `auto` is cupy where it can be used, numpy elsewhere.

    Raises:
        BackendError: the name is unknown, or the backend cannot be used here.
    """
    if name not in NAMES:
        raise BackendError(f"unknown backend '{name}'; allowed: {', '.join(NAMES)}")
    if name == "cupy" or (name == "auto" and not unusable()):
        return CupyBackend(dtype)
    return NumpyBackend(dtype)
