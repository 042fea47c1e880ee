"""The netCDF schema of a run, the streaming writer, and the reader."""

from attndyn.trajectory.reader import open_trajectory, pairs
from attndyn.trajectory.writer import TrajectoryWriter

__all__ = ["TrajectoryWriter", "open_trajectory", "pairs"]
