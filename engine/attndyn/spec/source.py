"""YAML text to plain values that remember where they stand; nothing is evaluated and nothing constructed.

Only what a spec needs is read: one document of mappings with string keys, lists and scalars by the core
schema of YAML 1.2 (`1e-3` is a number, `no` is a string). Tags and merge keys are refused; aliases are
followed, up to a bound.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any, NoReturn

import yaml

from attndyn.errors import Problem, SpecError
from attndyn.spec.base import Path
from attndyn.spec.words import describe, printable, quote, spell

MAX_BYTES = 2**20
MAX_DEPTH = 32
MAX_NODES = 200_000
MAX_DIGITS = 64
MAX_LISTED = 100

Scalar = str | int | float | bool | None

UNPRINTABLE = yaml.reader.Reader.NON_PRINTABLE
INTEGER = re.compile(r"[-+]?[0-9]+\Z|0o[0-7]+\Z|0x[0-9a-fA-F]+\Z")
REAL = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)\Z|\.(nan|NaN|NAN)\Z")
CONSTANTS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


@dataclass(frozen=True)
class Origin:
    """Where a value comes from: `where` as shown to the user, `order` to sort by."""

    where: str
    order: tuple[int, int]


@dataclass(frozen=True)
class Node:
    """A value and where it stands; a mapping also knows where its keys stand."""

    value: Scalar | list[Node] | dict[str, Node]
    origin: Origin
    keys: dict[str, Origin] = field(default_factory=dict)

    def plain(self) -> Any:
        """The value without its places."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value

    def child(self, step: str | int) -> Node | None:
        """The value under a key or at an index, None if there is none."""
        if isinstance(self.value, dict) and isinstance(step, str):
            return self.value.get(step)
        if isinstance(self.value, list) and isinstance(step, int) and 0 <= step < len(self.value):
            return self.value[step]
        return None

    def origin_of(self, path: Path, at_key: bool = False) -> Origin:
        """Where the value at `path`, or its key, stands; the nearest mapping or list around it if absent."""
        node = self
        for depth, step in enumerate(path):
            if at_key and depth == len(path) - 1 and step in node.keys:
                return node.keys[str(step)]
            inner = node.child(step)
            if inner is None:
                break
            node = inner
        return node.origin


class Findings:
    """Collects problems and hands them out in the order of the file."""

    def __init__(self) -> None:
        self._found: dict[Problem, tuple[int, int]] = {}

    def __bool__(self) -> bool:
        return bool(self._found)

    def add(self, origin: Origin, path: Path, message: str) -> None:
        """Note a problem, once."""
        self._found.setdefault(Problem(origin.where, spell(path), message), origin.order)

    def error(self) -> SpecError:
        """The error that lists the problems, up to a hundred of them."""
        problems = sorted(self._found, key=self._found.__getitem__)
        if len(problems) > MAX_LISTED:
            more = Problem(
                problems[MAX_LISTED].where, "", f"and {len(problems) - MAX_LISTED} more problems from here"
            )
            problems[MAX_LISTED:] = [more]
        return SpecError(problems)


class _Fatal(Exception):
    """Reading cannot go on; the problem is among the findings."""


def read_file(path: str | FilePath) -> str:
    """Text of a spec file.

    Raises:
        SpecError: missing, unreadable, too large, or not UTF-8.
    """
    name = printable(str(path))

    def refuse(message: str, where: str = name) -> SpecError:
        return SpecError([Problem(where, "", message)])

    try:
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise refuse("no such file") from None
    except IsADirectoryError:
        raise refuse("is a directory, not a spec file") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise refuse(f"cannot be read: {reason}") from None
    if len(data) > MAX_BYTES:
        raise refuse(f"the file is larger than {MAX_BYTES} bytes, the most a spec may have")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8-sig", "replace")
        where = f"{name}:{_line_and_column(before)}"
        raise refuse(f"not UTF-8: found the byte 0x{data[error.start]:02x}", where) from None


def read_yaml(text: str, source: str, findings: Findings) -> Node | None:
    """The one document in `text`; None if it cannot be read, with the reason in `findings`."""
    if len(text) > MAX_BYTES:
        findings.add(
            Origin(source, (0, 0)), (), f"larger than {MAX_BYTES} characters, the most a spec may have"
        )
        return None
    bad = UNPRINTABLE.search(text)
    if bad:
        before = text[: bad.start()]
        origin = Origin(f"{source}:{_line_and_column(before)}", (before.count("\n"), 0))
        findings.add(origin, (), f"the control character U+{ord(bad.group()):04X} is not allowed")
        return None
    try:
        return _Reader(text, source, findings).document()
    except _Fatal:
        return None


def read_value(text: str, origin: Origin, path: Path, findings: Findings) -> Node | None:
    """A value given on the command line, by the same rules; all of it stands at `origin`."""
    inner = Findings()
    node = Node(None, origin) if not text.strip() else read_yaml(text, "value", inner)
    if inner:
        for problem in inner.error().problems:
            findings.add(origin, path, problem.message)
        return None
    return _placed(node, origin) if node else None


def scalar(text: str) -> Scalar:
    """A plain (unquoted) scalar by the core schema of YAML 1.2.

    Raises:
        ValueError: an integer of more than 64 digits.
    """
    if text in CONSTANTS:
        return CONSTANTS[text]
    if INTEGER.match(text):
        if len(text) > MAX_DIGITS:
            raise ValueError(f"a whole number of {len(text)} digits; at most {MAX_DIGITS} are allowed")
        return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
    if REAL.match(text):
        return float(text)
    if NOT_FINITE.match(text):
        return float(text.replace(".", "", 1))
    return text


def _placed(node: Node, origin: Origin) -> Node:
    """The same value with every place replaced by one."""
    if isinstance(node.value, dict):
        values = {key: _placed(inner, origin) for key, inner in node.value.items()}
        return Node(values, origin, dict.fromkeys(values, origin))
    if isinstance(node.value, list):
        return Node([_placed(inner, origin) for inner in node.value], origin)
    return Node(node.value, origin)


def _line_and_column(before: str) -> str:
    return f"{before.count(chr(10)) + 1}:{len(before) - before.rfind(chr(10))}"


class _Reader:
    """One pass over the events of PyYAML's parser, whose scanner and parser do not recurse."""

    def __init__(self, text: str, source: str, findings: Findings):
        self.loader = yaml.SafeLoader(text)
        self.source = source
        self.findings = findings
        self.anchors: dict[str, tuple[Node, int, int] | None] = {}  # None: not complete yet
        self.nodes = 0
        self.deepest = 0

    def document(self) -> Node:
        """The only document; anything else is fatal."""
        self.next()  # start of the stream
        start = self.next()
        if isinstance(start, yaml.StreamEndEvent):
            self.fail(start, (), "the document is empty; a spec is a mapping")
        node = self.node(self.next(), (), 1)
        self.next()  # end of the document
        after = self.next()
        if not isinstance(after, yaml.StreamEndEvent):
            self.fail(after, (), "a second document begins here; a spec is one document")
        return node

    def next(self) -> Any:
        """The next event of the parser."""
        try:
            return self.loader.get_event()
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            said = ", ".join(part for part in (error.context, error.problem) if part)
            self.fail(mark, (), f"not YAML: {printable(said)}")
        except (ValueError, OverflowError):  # an escape beyond Unicode
            self.fail(self.loader.get_mark(), (), "not YAML: a character escape that is no character")

    def node(self, event: Any, path: Path, depth: int) -> Node:
        """The value that begins with `event`, inner values included."""
        self.count(event, path, 1, depth)
        if isinstance(event, yaml.AliasEvent):
            return self.alias(event, path, depth)
        if event.tag is not None:
            tag = event.tag.replace("tag:yaml.org,2002:", "!!")
            self.note(event, path, f"tags are not allowed, found {quote(tag)}")
        if event.anchor is not None:
            self.anchors[event.anchor] = None
        before, outer, self.deepest = self.nodes, self.deepest, depth
        if isinstance(event, yaml.MappingStartEvent):
            node = self.mapping(event, path, depth)
        elif isinstance(event, yaml.SequenceStartEvent):
            node = self.sequence(event, path, depth)
        else:
            node = Node(self.scalar(event, path), self.origin(event))
        if event.anchor is not None:
            self.anchors[event.anchor] = (node, self.nodes - before + 1, self.deepest - depth)
        self.deepest = max(outer, self.deepest)
        return node

    def alias(self, event: Any, path: Path, depth: int) -> Node:
        """The anchored value again; its size and depth count as if it were written out."""
        if event.anchor not in self.anchors:
            self.fail(event, path, f"the alias *{event.anchor} has no anchor before it")
        target = self.anchors[event.anchor]
        if target is None:
            self.fail(event, path, f"the alias *{event.anchor} stands inside its own anchor")
        node, size, height = target
        self.count(event, path, size - 1, depth + height)
        return node

    def mapping(self, event: Any, path: Path, depth: int) -> Node:
        """A mapping up to its end; a wrong or repeated key is a finding and its value is skipped."""
        values: dict[str, Node] = {}
        keys: dict[str, Origin] = {}
        for key_event in self.until(yaml.MappingEndEvent):
            key = self.node(key_event, path, depth + 1)
            name = key.value
            if not isinstance(name, str):
                self.note(key_event, path, f"keys must be strings, found {describe(key.plain())}")
                self.node(self.next(), path, depth + 1)
                continue
            value = self.node(self.next(), (*path, name), depth + 1)
            if name == "<<" and getattr(key_event, "style", "") is None:
                self.note(key_event, path, "merge keys (<<) are not supported; write the keys out")
            elif name in keys:
                first = keys[name].where.rsplit(":", 2)[-2]
                self.note(key_event, (*path, name), f"the key is given twice; first in line {first}")
            else:
                values[name], keys[name] = value, self.origin(key_event)
        return Node(values, self.origin(event), keys)

    def sequence(self, event: Any, path: Path, depth: int) -> Node:
        """A list up to its end."""
        values: list[Node] = []
        for item in self.until(yaml.SequenceEndEvent):
            values.append(self.node(item, (*path, len(values)), depth + 1))
        return Node(values, self.origin(event))

    def scalar(self, event: Any, path: Path) -> Scalar:
        """A scalar: a string if quoted, else by the core schema."""
        if UNPRINTABLE.search(event.value):
            self.fail(event, path, "a string holds a control character, which is not allowed")
        if event.style is not None:
            return str(event.value)
        try:
            return scalar(event.value)
        except ValueError as error:
            self.fail(event, path, str(error))

    def until(self, end: type) -> Iterator[Any]:
        """Events that begin a value, up to the end of the collection."""
        event = self.next()
        while not isinstance(event, end):
            yield event
            event = self.next()

    def count(self, event: Any, path: Path, nodes: int, depth: int) -> None:
        """Hold the size and the depth of the document to their bounds."""
        self.nodes += nodes
        self.deepest = max(self.deepest, depth)
        if depth > MAX_DEPTH:
            self.fail(event, (), f"nested deeper than {MAX_DEPTH} levels, the most a spec may have")
        if self.nodes > MAX_NODES:
            self.fail(event, path, f"more than {MAX_NODES} values with all aliases expanded")

    def origin(self, at: Any) -> Origin:
        """Place of an event or a mark."""
        mark = getattr(at, "start_mark", at)
        return Origin(f"{self.source}:{mark.line + 1}:{mark.column + 1}", (mark.line, mark.column))

    def note(self, at: Any, path: Path, message: str) -> None:
        """Add a problem and go on."""
        self.findings.add(self.origin(at), path, message)

    def fail(self, at: Any, path: Path, message: str) -> NoReturn:
        """Add a problem and stop."""
        self.note(at, path, message)
        raise _Fatal
