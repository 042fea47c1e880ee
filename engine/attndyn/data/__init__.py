"""Stationary distributions, chains and the weighted contexts drawn from them."""
