"""Checks that code keeps the engine's promises."""
