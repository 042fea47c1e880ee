"""A conservation law: a quantity of the parameters that gradient flow leaves as it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from attndyn.backend import Array


@dataclass(frozen=True)
class Law:
    """One conserved quantity of an architecture: constant under dθ/dt = −∇L for any data and any start.

    Attributes:
        name: its label in trajectories, unique in an architecture.
        long_name: what is conserved, in a few words.
        symbol: the quantity in LaTeX.
        evaluate: the quantity `(R, ...)` from the parameters of all replicas `(R, *shape)`, on the device.
    """

    name: str
    long_name: str
    symbol: str
    evaluate: Callable[[Mapping[str, Array]], Array]
