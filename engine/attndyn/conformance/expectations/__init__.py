"""The kinds of expectations that come with the engine."""
