"""Architectures."""
