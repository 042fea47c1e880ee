"""Steps of the paper's argument that are asserted there: each computed here, with the range where it holds.

What each one says, how it is read and what was found: docs/theory-asserted-steps.md.
"""
