"""`--set path=value`: a value of the spec replaced from the command line, read by the rules of the file."""

from __future__ import annotations

import re
from collections.abc import Sequence

from attndyn.spec.base import Path
from attndyn.spec.source import Findings, Node, Origin, read_value
from attndyn.spec.words import describe, printable, spell

AFTER_THE_FILE = 10**9
WHOLE = re.compile(r"[\w-]{1,100}(\.[\w-]{1,100}|\[[0-9]{1,9}\])*", re.ASCII)
STEP = re.compile(r"([\w-]+)|\[([0-9]+)\]", re.ASCII)
VARY = "replicas.vary."


def apply_overrides(root: Node, overrides: Sequence[str], findings: Findings) -> Node:
    """`root` with each override put in its place, in the order given; what is wrong goes to `findings`."""
    for number, text in enumerate(overrides):
        origin = Origin(f"--set {printable(text)}", (AFTER_THE_FILE, number))
        left, equals, right = text.partition("=")
        path = parse_path(left.strip())
        if not equals or not path:
            findings.add(origin, (), "an override is path=value, such as optimizer.lr=0.01")
            continue
        value = read_value(right, origin, path, findings)
        if value is not None:
            root = _put(root, path, value, 0, findings)
    return root


def parse_path(text: str) -> Path | None:
    """`a.b.0.c` or `a.b[0].c` as steps; None if it is neither.

    What follows `replicas.vary.` is one step, because its keys are paths themselves.
    """
    if text.startswith(VARY) and len(text) > len(VARY):
        return ("replicas", "vary", text.removeprefix(VARY))
    if not WHOLE.fullmatch(text):
        return None
    return tuple(int(index) if index else key for key, index in STEP.findall(text))


def _put(node: Node, path: Path, value: Node, depth: int, findings: Findings) -> Node:
    """A copy of `node` with the value at `path[depth:]` replaced; missing mappings on the way are made."""
    if depth == len(path):
        return value
    step, here = path[depth], path[:depth]
    if isinstance(node.value, dict) and isinstance(step, str):
        inner = node.value.get(step, Node({}, value.origin))
        values = {**node.value, step: _put(inner, path, value, depth + 1, findings)}
        return Node(values, node.origin, {**node.keys, step: value.origin})
    if isinstance(node.value, list) and str(step).isdigit():
        index = int(step)
        if index < len(node.value):
            items = list(node.value)
            items[index] = _put(items[index], path, value, depth + 1, findings)
            return Node(items, node.origin)
    findings.add(
        value.origin, path, f"leads nowhere: {spell(here) or 'the spec'} is {describe(node.plain())}"
    )
    return node
