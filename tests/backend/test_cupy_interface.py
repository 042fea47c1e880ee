"""Every array-module function, keyword and array method that the engine uses exists in CuPy.

Two looks that make up for each other: what short runs really call, as the strict stand-in notes it (methods
and operators too), and what the source says, which also finds what no run reaches. CuPy imports without a
GPU.
"""

import ast
import inspect
import re
from pathlib import Path

import pytest

from attndyn.conformance.strict import Call, StrictBackend
from device.short_runs import CASES, run

cupy = pytest.importorskip("cupy", reason="CuPy is not installed: its interface cannot be compared")

ROOT = Path(__file__).parents[2]
SOURCES = sorted([*(ROOT / "engine").rglob("*.py"), *(ROOT / "plugins").rglob("*.py")])
UFUNC_KEYWORDS = {"out", "dtype", "casting"}


def complaint(call):
    """What CuPy lacks for a call; empty if nothing."""
    owner = cupy.ndarray if call.name.startswith((".", "__")) else cupy
    found = owner
    for part in call.name.strip(".").split("."):
        found = getattr(found, part, None)
        if found is None:
            return f"cupy has no {call.name}"
    unknown = call.keywords - keywords(found, call.n_positional)
    return f"cupy's {call.name} has no argument {', '.join(sorted(unknown))}" if unknown else ""


def keywords(function, n_positional):
    """Names that a function of CuPy's takes as keywords beside `n_positional` positional arguments."""
    if isinstance(function, cupy.ufunc):
        return UFUNC_KEYWORDS
    try:
        parameters = inspect.signature(function).parameters
    except (ValueError, TypeError):
        # compiled: the first line of the text is the signature, `_ndarray_base.sum(self, axis=None, ...)`
        arguments = re.match(r"[\w.]+\((?:self, )?(.*?)\)( ->.*)?$", (function.__doc__ or "").split("\n")[0])
        names = re.sub(r"=[^,]*", "", arguments[1]).split(", ") if arguments else []
        names = [name.split()[-1] for name in names if name]
    else:
        names = list(parameters)
    variadic = any(name.startswith("*") for name in names)
    return set(names if variadic else names[n_positional:])


def calls_of_runs(small):
    calls = set()
    for overrides in CASES.values():
        backend = StrictBackend()
        run(small(*overrides), backend)
        calls |= backend.xp.calls
    return calls


def calls_in(source):
    """Uses of the array module in a source text: anything of `xp` or `....xp`, called or not."""
    tree = ast.parse(source)
    called = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        name = name_in_module(node)
        # of `xp.add.at` only the whole is looked up
        if name and (id(node) not in inner):
            call = called.get(id(node))
            words = frozenset(k.arg for k in call.keywords if k.arg) if call else frozenset()
            yield Call(name, len(call.args) if call else 0, words)


def name_in_module(node):
    """`add.at` for a node that reads `xp.add.at` or `self.xp.add.at`; else nothing."""
    parts = []
    while isinstance(node, ast.Attribute) and node.attr != "xp":
        parts.append(node.attr)
        node = node.value
    is_module = getattr(node, "id", None) == "xp" or getattr(node, "attr", None) == "xp"
    return ".".join(reversed(parts)) if parts and is_module else ""


def test_what_runs_call_exists(small):
    calls = calls_of_runs(small)
    names = {call.name for call in calls}
    assert names >= {
        "exp",
        "sum",
        "add.at",
        "take_along_axis",
        ".transpose",
        ".astype",
        "__matmul__",
        "__isub__",
    }
    assert [c for c in map(complaint, sorted(calls, key=str)) if c] == []


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_what_the_source_says_exists(path):
    assert [c for c in map(complaint, calls_in(path.read_text("utf-8"))) if c] == []


def test_source_and_runs_agree(small):
    """Neither look is blind: all that the source says is reached by a run."""
    in_source = {call.name for path in SOURCES for call in calls_in(path.read_text("utf-8"))}
    assert len(in_source) >= 10
    assert in_source <= {call.name for call in calls_of_runs(small)}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("xp.vectorised_sum(a)", "cupy has no vectorised_sum"),
        ("self.xp.add.at_all(a)", "cupy has no add.at_all"),
        ("f = backend.xp.nothing", "cupy has no nothing"),
        ("xp.sum(a, axis=1, where=mask)", "cupy's sum has no argument where"),
        ("xp.exp(a, where=mask, out=b)", "cupy's exp has no argument where"),
        ("xp.put_along_axis(a, b, c, axis=1, clip=True)", "cupy's put_along_axis has no argument clip"),
        ("xp.sum(a, 1, axis=1)", "cupy's sum has no argument axis"),
        ("xp.sum(a, axis=1, keepdims=True)", ""),
        ("xp.add.at(a, i, b)", ""),
    ],
)
def test_finds_what_is_missing(line, expected):
    assert [complaint(call) for call in calls_in(line)] == [expected]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (Call(".partition_all", 1, frozenset()), "cupy has no .partition_all"),
        (Call(".sum", 0, frozenset({"initial"})), "cupy's .sum has no argument initial"),
        (Call(".astype", 1, frozenset({"copy"})), ""),
        (Call("__matmul__", 2, frozenset()), ""),
    ],
)
def test_finds_what_arrays_lack(call, expected):
    assert complaint(call) == expected


def test_keywords_of_ufuncs():
    """CuPy names the keywords that it does not know before it touches a device."""
    with pytest.raises(TypeError, match=r"Wrong arguments \{'nonsense': 1\}"):
        cupy.exp(1.0, nonsense=1, **dict.fromkeys(UFUNC_KEYWORDS))
