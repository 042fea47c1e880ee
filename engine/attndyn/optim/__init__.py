"""Optimizers, one a file: they see flat parameters and gradients, never models or data."""
