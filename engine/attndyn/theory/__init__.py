"""Closed forms of the theory, to be held against measured trajectories."""
