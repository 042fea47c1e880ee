"""The project's own rules: floors, sizes, forbidden calls, and a lock that fits pyproject.toml."""

import ast
import re
import tomllib
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import attndyn
from attndyn import registry

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))

# ground floor first; what is on one floor may import from it and from those before it
FLOORS = (
    ("errors", "files", "interrupt", "provenance"),
    ("registry",),
    ("spec",),
    ("backend",),
    ("data",),
    ("layers",),
    ("optim",),
    ("simulation",),
    ("trajectory",),
    ("analysis",),
    ("theory",),
    ("runs",),
    ("conformance",),
    ("sweep",),
    ("report",),
    ("scaffold",),
    ("cli",),
)
FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}

MAX_LINES = 400
#: files that may be longer, each with the reason
LONGER: dict[str, str] = {}

FORBIDDEN_MODULES = {"pickle", "dill", "shelve", "marshal", "matplotlib.pyplot", "pylab"}
FORBIDDEN_CALLS = {"eval", "exec", "yaml.load", "yaml.unsafe_load", "yaml.full_load"}


def modules(source_root: str) -> dict[str, ast.Module]:
    """Every module under a source root by its dotted name, parsed."""
    root = ROOT / source_root
    return {
        ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): ast.parse(
            path.read_text("utf-8"), str(path)
        )
        for path in sorted(root.rglob("*.py"))
    }


ENGINE, PLUGINS = modules("engine"), modules("plugins")


def imports(tree: ast.AST, known: set[str], deferred: bool = True) -> Iterator[str]:
    """The modules that a module imports when it runs; `deferred`: also those its functions import."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "imports are absolute"
            full = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in known else str(node.module) for name in full)
        elif deferred or not isinstance(node, ast.FunctionDef):
            yield from imports(node, known, deferred)


def upward(module: str, tree: ast.AST, known: set[str]) -> list[str]:
    """The engine's imports that climb to a higher floor, or leave the house."""
    floor = FLOOR[module.split(".")[1]]
    found = []
    for name in imports(tree, known):
        if name.split(".")[0] == "attndyn_plugins" or (
            name.startswith("attndyn.") and FLOOR[name.split(".")[1]] > floor
        ):
            found.append(name)
    return found


def forbidden(tree: ast.AST) -> list[str]:
    """Calls and modules that have no place here: they run code from data, or keep global drawing state."""
    calls = [ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)]
    unsafe = [
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.keyword) and node.arg == "allow_pickle" and ast.unparse(node.value) != "False"
    ]
    return [
        *(name for name in imports(tree, FORBIDDEN_MODULES) if name in FORBIDDEN_MODULES),
        *(call for call in calls if call in FORBIDDEN_CALLS),
        *unsafe,
    ]


def test_engine_imports_only_downward():
    rooms = {name: tree for name, tree in ENGINE.items() if name != "attndyn"}
    found = {name: upward(name, tree, set(ENGINE)) for name, tree in rooms.items()}
    assert {name: names for name, names in found.items() if names} == {}


def test_plugins_leave_the_command_line_alone():
    found = {module: set(imports(tree, set(ENGINE))) for module, tree in PLUGINS.items()}
    climbing = {module for module, names in found.items() if any(n.startswith("attndyn.cli") for n in names)}
    assert climbing == set()


def test_no_circles():
    known = set(ENGINE)
    graph = {name: set(imports(tree, known, deferred=False)) & known for name, tree in ENGINE.items()}
    TopologicalSorter(graph).prepare()


def test_circles_and_upward_imports_are_noticed():
    known = {"attndyn.spec", "attndyn.report", "attndyn.report.style"}
    source = """
def f():
    from attndyn.report import style
if TYPE_CHECKING:
    import attndyn.cli.main
"""
    assert upward("attndyn.spec", ast.parse(source), known) == ["attndyn.report.style"]
    assert upward("attndyn.cli", ast.parse(source), known) == []
    assert upward("attndyn.cli", ast.parse("from attndyn_plugins import x"), known) == ["attndyn_plugins"]
    assert list(imports(ast.parse(source), known, deferred=False)) == []
    with pytest.raises(CycleError):
        TopologicalSorter({"a": {"b"}, "b": {"a"}}).prepare()


def test_nothing_forbidden():
    found = {name: forbidden(tree) for name, tree in (ENGINE | PLUGINS).items()}
    assert {name: things for name, things in found.items() if things} == {}


@pytest.mark.parametrize(
    "source",
    [
        "eval('1')",
        "import pickle",
        "from matplotlib import pyplot as plt",
        "def f():\n    import matplotlib.pyplot as plt",
        "x = yaml.load(text)",
        "np.load(path, allow_pickle=True)",
    ],
)
def test_forbidden_things_are_noticed(source):
    assert forbidden(ast.parse(source))


def test_files_are_short():
    paths = [path for top in ("engine", "plugins", "tests") for path in (ROOT / top).rglob("*.py")]
    lines = {str(path.relative_to(ROOT)): len(path.read_text("utf-8").splitlines()) for path in paths}
    assert {path: n for path, n in lines.items() if n > MAX_LINES and path not in LONGER} == {}
    assert [path for path in LONGER if lines.get(path, 0) <= MAX_LINES] == [], "no reason is needed any more"


def test_every_room_has_a_floor():
    rooms = {name.split(".")[1] for name in ENGINE if "." in name}
    assert rooms <= set(FLOOR)


def test_every_plugin_file_is_announced_and_registers():
    groups = PYPROJECT["project"]["entry-points"]
    announced = {value.split(":")[0] for group in groups.values() for value in group.values()}
    packages = {name for name in PLUGINS if any(other.startswith(name + ".") for other in PLUGINS)}
    assert set(PLUGINS) - packages <= announced
    assert {group.removeprefix("attndyn.") for group in groups} <= set(registry.KINDS)
    for group, entries in groups.items():
        for name, value in entries.items():
            cls = registry.get(group.removeprefix("attndyn."), name)
            assert f"{cls.__module__}:{cls.__qualname__}" == value


def test_one_version():
    assert PYPROJECT["project"]["version"] == attndyn.__version__ == version("attndyn")
    assert f"[{attndyn.__version__}]" in (ROOT / "CHANGELOG.md").read_text("utf-8")


# -- the lock ---------------------------------------------------------------------------------------------


def lock() -> dict[str, Requirement]:
    """The lock's lines by normalized name."""
    lines = (ROOT / "requirements.lock").read_text("utf-8").splitlines()
    found = [Requirement(line) for line in lines if line and not line.startswith("#")]
    names = [canonicalize_name(requirement.name) for requirement in found]
    assert len(set(names)) == len(names)
    return dict(zip(names, found, strict=True))


def test_lock_names_exact_versions_and_no_place():
    for line in (ROOT / "requirements.lock").read_text("utf-8").splitlines():
        assert line.startswith("#") or re.fullmatch(r"[\w.-]+==[\w.]+(; platform_system != 'Darwin')?", line)


def test_lock_satisfies_every_direct_dependency():
    project = PYPROJECT["project"]
    locked = lock()
    for text in [*project["dependencies"], *project["optional-dependencies"]["dev"]]:
        wanted = Requirement(text)
        pinned = locked[canonicalize_name(wanted.name)]
        (specifier,) = pinned.specifier
        assert wanted.specifier.contains(specifier.version), text
        assert str(pinned.marker) == str(wanted.marker), text
