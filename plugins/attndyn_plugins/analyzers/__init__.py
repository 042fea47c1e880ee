"""Analyzers."""
