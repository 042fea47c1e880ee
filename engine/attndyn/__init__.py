"""Specification-driven simulation of how attention learns."""

__version__ = "0.1.0"
