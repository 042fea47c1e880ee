"""`numpy` and `cupy` behind one small set of operations."""

from attndyn.backend.base import Array, Backend
from attndyn.backend.select import get_backend

__all__ = ["Array", "Backend", "get_backend"]
