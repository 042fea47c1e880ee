"""The run loop, replicas, probes, checkpoints and divergence; files are not known here."""

from attndyn.simulation.simulation import Outcome, Simulation
from attndyn.simulation.sink import Sink

__all__ = ["Outcome", "Simulation", "Sink"]
