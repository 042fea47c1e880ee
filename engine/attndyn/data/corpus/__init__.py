"""Contexts from text: where it comes from, how it becomes tokens, and which windows of it are contexts."""
