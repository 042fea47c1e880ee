"""The run loop, replicas, probes, checkpoints and divergence; files are not known here."""

from attndyn.simulation.simulation import Outcome, Simulation
from attndyn.simulation.sink import Onlooker, Sink

__all__ = ["Onlooker", "Outcome", "Simulation", "Sink"]
