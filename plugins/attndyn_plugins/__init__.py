"""The architectures and analyzers that ship with attndyn, one plugin a file."""
