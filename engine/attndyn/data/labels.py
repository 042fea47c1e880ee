"""Labels that stand for more than one token."""

REST = "<rest>"
"""All tokens that a probe does not show by themselves; no token may be called so."""

OTHERS = "<others>"
"""All tokens that a smaller chain made of a larger one has as one token: a label like any other."""

UNKNOWN = "<unk>"
"""What is outside a text's vocabulary; it is a token of its own."""
