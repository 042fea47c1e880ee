"""What the registry refuses to register, and what it says of installed packages that do not load."""

from importlib.metadata import EntryPoint
from typing import Literal

import pytest

from attndyn import registry
from attndyn.analysis.analyzer import Analyzer
from attndyn.errors import PluginError
from attndyn.registry import classes
from attndyn.simulation.probe import Probe
from attndyn.spec.base import AnalyzerOptions, ProbeOptions
from attndyn_plugins.analyzers.norms import Norms


@pytest.fixture(autouse=True)
def _isolated():
    with registry.isolated():
        yield


class Good(Analyzer):
    class Options(AnalyzerOptions):
        kind: Literal["good"] = "good"

    title = "good"

    def analyze(self, trajectory): ...

    def draw(self, result, trajectory, figure): ...


class Unfinished(Analyzer):
    Options = Good.Options
    title = "unfinished"

    def draw(self, result, trajectory, figure): ...


class NoOptions(Good):
    Options = dict


class Untitled(Analyzer):
    analyze = draw = Good.analyze


def test_a_good_class_is_registered_and_named():
    assert registry.analyzer("good")(Good) is Good
    assert registry.get("analyzer", "good") is Good
    assert Good.name == "good"
    assert "good" in registry.names("analyzer")
    assert registry.origin("analyzer", "good").endswith("test_registering:Good")


def test_options_of_probes_and_analyzers_may_be_those_of_all():
    class Other(Good):
        Options = AnalyzerOptions

    class Quiet(Probe):
        Options = ProbeOptions

        def declare(self): ...

        def measure(self, state): ...

    registry.analyzer("any_name")(Other)
    registry.probe("quiet")(Quiet)


@pytest.mark.parametrize(
    ("kind", "name", "cls", "message"),
    [
        ("analyser", "good", Good, "there is no kind of plugin 'analyser'; allowed: data, architecture"),
        ("analyzer", "no good", Good, "'no good' is no name for a plugin"),
        ("analyzer", "a/b", Good, "'a/b' is no name"),
        ("analyzer", None, Good, "None is no name"),
        ("analyzer", "plain", object, "object does not inherit from attndyn.analysis.analyzer.Analyzer"),
        ("architecture", "good", Good, "Good does not inherit from attndyn.layers.architecture.Architecture"),
        ("analyzer", "good", Unfinished, "Unfinished lacks analyze; see attndyn.analysis.analyzer.Analyzer"),
        ("analyzer", "good", Untitled, "Untitled lacks title, Options; see"),
        ("analyzer", "good", NoOptions, "NoOptions.Options does not inherit from attndyn.spec.base.Analyzer"),
        ("analyzer", "better", Good, "Good.Options.kind allows 'good', not the name 'better'"),
    ],
)
def test_what_is_refused(kind, name, cls, message):
    with pytest.raises(PluginError, match=message):
        registry.register(kind, name)(cls)
    assert "good" not in registry.names("analyzer")


def test_a_name_is_registered_once():
    class Other(Good):
        pass

    registry.analyzer("good")(Good)
    registry.analyzer("good")(Good)  # a module that is imported again
    with pytest.raises(PluginError, match=r"analyzer 'good' is registered twice: by .*:Good and .*Other"):
        registry.analyzer("good")(Other)
    assert registry.get("analyzer", "good") is Good


def test_a_name_that_a_package_announces_is_taken():
    class Mine(Good):
        Options = AnalyzerOptions

    with pytest.raises(PluginError, match=r"'norms' is taken: attndyn [0-9.]+ \(attndyn_plugins.*:Norms\)"):
        registry.analyzer("norms")(Mine)
    assert registry.get("analyzer", "norms") is Norms


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import attndyn\n\nimport no_such_module\n", r"__init__.py:3: ModuleNotFoundError: No module named"),
        ("def f(:\n", r"__init__.py:1: SyntaxError: "),
        (
            "import json\njson.loads('{')\n",
            r"__init__.py:2: JSONDecodeError: ",
        ),  # raised elsewhere, asked for here
        ("import sys\n\nsys.exit('no')\n", r"__init__.py:3: SystemExit: no"),
        ("Broken = 1\n", r"\(broken_package:Broken\) does not register the analyzer 'broken' it announces"),
    ],
)
def test_a_package_that_does_not_load_is_named_with_the_line(tmp_path, monkeypatch, text, message):
    (tmp_path / "broken_package").mkdir()
    (tmp_path / "broken_package" / "__init__.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "broken_package", raising=False)
    announce(monkeypatch, EntryPoint("broken", "broken_package:Broken", "attndyn.analyzer"))
    with pytest.raises(PluginError, match=message) as caught:
        registry.get("analyzer", "broken")
    assert "\n" not in str(caught.value)


def test_two_packages_of_one_name_are_both_named(monkeypatch):
    entries = [EntryPoint("twin", f"{package}:Twin", "attndyn.analyzer") for package in ("castor", "pollux")]
    announce(monkeypatch, *entries)
    with pytest.raises(PluginError, match=r"announced by more than one package: .*castor.* and .*pollux"):
        registry.get("analyzer", "twin")


def announce(monkeypatch, *entries):
    announced = classes._announced
    found = {entry.name: list(entries) for entry in entries}
    monkeypatch.setattr(classes, "_announced", lambda kind: announced(kind) | found)
