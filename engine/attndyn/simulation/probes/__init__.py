"""The probes that come with the engine, one a file."""
