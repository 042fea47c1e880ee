"""`plugins:` in a spec: loaded from where the spec is, laid to its entries, the same wherever it is kept."""

import json
import signal

import pytest

from attndyn import registry, runs, scaffold
from attndyn.errors import RunError, SpecError
from attndyn.spec import json_schema, load_spec, parse_spec
from attndyn.trajectory import open_trajectory

SPEC = """
name: plugged
plugins: [plugins/ping.py, more]
data: {kind: markov, stationary: {kind: zipf, d_vocab: 3}, transition: {kind: sticky, lam: 0.5}, batch: 5}
model: {architecture: pure_attention, d_model: 4}
optimizer: {kind: gd, lr: 1}
training: {steps: 4}
probes: {loss: {every: 1}, ping: {every: 2}}
"""
PROBE = """
from attndyn import registry
from attndyn.simulation.probe import Declaration, Probe, Variable
from attndyn.spec.base import ProbeOptions

@registry.probe("{name}")
class Some(Probe):
    class Options(ProbeOptions):
        times: int = 2

    def declare(self):
        return Declaration({{"value": Variable((), (), "a multiple of the loss", "nats")}})

    def measure(self, state):
        return {{"value": state.loss * self.options.times}}
"""


@pytest.fixture(autouse=True)
def _isolated():
    with registry.isolated():
        yield


@pytest.fixture
def spec(tmp_path):
    """A spec's file, beside a file and a folder of plugins."""
    for path, name in (("plugins/ping.py", "ping"), ("more/pong.py", "pong")):
        (tmp_path / path).parent.mkdir()
        (tmp_path / path).write_text(PROBE.format(name=name))
    path = tmp_path / "spec.yaml"
    path.write_text(SPEC)
    return path


def problems(path, *arguments, **keywords):
    with pytest.raises(SpecError) as caught:
        load_spec(path, *arguments, **keywords)
    return [str(problem) for problem in caught.value.problems]


def test_paths_are_relative_to_the_spec(spec, tmp_path):
    loaded = load_spec(spec)
    assert loaded.plugins == [str(tmp_path / "plugins/ping.py"), str(tmp_path / "more")]
    assert loaded.probes["ping"].times == 2
    assert load_spec(spec, ["probes.pong={every: 1}"]).probes["pong"].every == 1


def test_the_canonical_text_means_the_same_anywhere(spec, tmp_path, monkeypatch):
    loaded = load_spec(spec)
    elsewhere = tmp_path / "else" / "where"
    elsewhere.mkdir(parents=True)
    monkeypatch.chdir(elsewhere)
    assert parse_spec(loaded.to_yaml()) == loaded
    assert parse_spec(loaded.to_yaml()).sha256 == loaded.sha256


def test_plugins_of_the_command_line_come_after_and_once(spec, tmp_path, monkeypatch):
    (tmp_path / "third.py").write_text(PROBE.format(name="third"))
    monkeypatch.chdir(tmp_path)
    loaded = load_spec(spec, ["probes.third={every: 1}"], plugins=["third.py", "more"])
    assert loaded.plugins[1:] == [str(tmp_path / "more"), str(tmp_path / "third.py")]


def test_a_plugin_that_does_not_load_is_laid_to_its_entry(spec, tmp_path):
    broken = tmp_path / "more" / "pong.py"
    broken.write_text("\nfoo\n")
    assert problems(spec) == [f"{spec}:3:28: plugins[1]: {broken}:2: NameError: name 'foo' is not defined"]
    override = "plugins=[none.py]"
    assert problems(spec, [override]) == [
        f"--set {override}: plugins[0]: {tmp_path}/none.py: no such file or folder"
    ]
    assert problems(spec, ["plugins=[]"], plugins=[broken]) == [
        f"--plugins {broken}: {broken}:2: NameError: name 'foo' is not defined"
    ]


def test_all_that_fail_are_listed_and_what_needs_them_is_not(spec):
    found = problems(spec, ["plugins=[one.py, two.py]"])
    assert [line.split(": ")[1] for line in found] == ["plugins[0]", "plugins[1]"]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("plugins/ping.py", "plugins: found the string 'plugins/ping.py'; a list is needed"),
        ("[3]", "plugins[0]: found the number 3; a string is needed"),
        ("['']", "plugins[0]: found the string ''; needs at least 1 characters"),
        ("[plugins/ping.py, null]", "plugins[1]: found nothing (null); a string is needed"),
    ],
)
def test_what_is_no_list_of_paths_is_not_loaded(spec, value, message):
    assert f"--set plugins={value}: {message}" in problems(spec, [f"plugins={value}"])
    assert "ping" not in registry.names("probe")


def test_messages_are_printable(spec, tmp_path):
    (tmp_path / "more" / "pong.py").write_text("raise ValueError('\\x1b[31m red')")
    (line,) = problems(spec)
    assert line.isprintable()


def test_the_schema_has_plugins_that_are_loaded(spec):
    load_spec(spec)
    assert "ping" in json_schema()["properties"]["probes"]["properties"]


# -- runs -------------------------------------------------------------------------------------------------


class CtrlC:
    """A sink that asks for an end after two steps."""

    def start(self, simulation): ...

    def record(self, probe, step, values): ...

    def advance(self, simulation):
        if simulation.step == 2:
            signal.raise_signal(signal.SIGINT)

    def finish(self, simulation, outcome): ...


def test_a_run_opens_from_anywhere_and_says_what_ran(spec, tmp_path, monkeypatch):
    run = runs.run(load_spec(spec), tmp_path / "out")
    monkeypatch.chdir("/")
    opened = runs.open_run(run.directory)
    assert opened.spec == load_spec(spec)
    assert opened.trajectory["ping"]["value"].sizes == {"replica": 1, "step": 3}
    recorded = json.loads(opened.trajectory.attrs["plugins"])
    opened.close()
    assert recorded == registry.digests(opened.spec.plugins)
    assert set(recorded) == {str(tmp_path / "plugins/ping.py"), str(tmp_path / "more/pong.py")}


def test_a_run_is_not_resumed_with_other_code(spec, tmp_path):
    with registry.isolated():
        run = runs.run(load_spec(spec), tmp_path / "out", sinks=[CtrlC()])
    assert run.status["state"] == "interrupted"
    plugin = tmp_path / "plugins/ping.py"
    text = plugin.read_text()
    plugin.write_text(text.replace("times: int = 2", "times: int = 3"))
    with (
        registry.isolated(),
        pytest.raises(RunError, match=f"was begun before {plugin} was changed; run it anew"),
    ):
        runs.run(runs.open_run(run.directory).spec, resume=run.directory)
    plugin.write_text(text)
    with registry.isolated():
        resumed = runs.run(runs.open_run(run.directory).spec, resume=run.directory)
    assert resumed.status["state"] == "complete"


def test_analyses_made_with_other_code_are_out_of_date(spec, tmp_path):
    with registry.isolated():
        run = runs.run(load_spec(spec, ["analyzers=[ratio]"], [analyzer(tmp_path)]), tmp_path / "out")
        run.analyze()
        run.close()
        assert set(run.analysis) == {"ratio"}
    (tmp_path / "ratio.py").write_text((tmp_path / "ratio.py").read_text() + "# changed\n")
    with registry.isolated():
        assert runs.open_run(run.directory).analysis == {}


def analyzer(folder):
    """The file of an analyzer, as `attndyn new-plugin` writes it."""
    return scaffold.write("analyzer", "ratio", folder)[0]


def test_without_plugins_nothing_is_recorded(small, tmp_path):
    run = runs.run(small(), tmp_path)
    with open_trajectory(run.directory / "trajectory.nc") as trajectory:
        assert trajectory.attrs["plugins"] == "{}"


OWN = {
    "data": ("kind", "attndyn.data.markov", "MarkovData"),
    "architecture": ("architecture", "attndyn_plugins.architectures.residual", "Residual"),
    "optimizer": ("kind", "attndyn.optim.gd", "GradientDescent"),
    "probe": ("", "attndyn.simulation.probes.loss", "LossProbe"),
    "analyzer": ("kind", "attndyn_plugins.analyzers.entropy", "Entropy"),
}
"""Of each kind a class that ships, to inherit from, and the option that holds its name."""


def test_all_kinds_of_plugins_in_files_of_ones_own(tmp_path):
    for kind, (tag, module, base) in OWN.items():
        options = f"class Options({base}.Options):\n        {tag or 'name'}: Literal['own'] = 'own'"
        (tmp_path / f"own_{kind}.py").write_text(
            f"from typing import Literal\nfrom attndyn import registry\nfrom {module} import {base}\n\n"
            f"@registry.{kind}('own')\nclass Own({base}):\n    {options}\n"
        )
    loaded = parse_spec(
        """
        name: own
        plugins: [.]
        data: {kind: own, stationary: {kind: zipf, d_vocab: 3}, transition: {kind: sticky, lam: 0.5}}
        model: {architecture: own, d_model: 4}
        optimizer: {kind: own, lr: 1}
        training: {steps: 4}
        probes: {own: {every: 1}, attention: {every: 1}}
        analyzers: [own]
        """,
        folder=tmp_path,
    )
    run = runs.run(loaded, tmp_path / "out")
    assert run.trajectory["own"]["loss"].sizes == {"replica": 1, "step": 5}
    assert set(run.analyze()["own"]) >= {"entropy"}
    assert [registry.origin(kind, "own") for kind in OWN] == [
        str(tmp_path / f"own_{kind}.py") for kind in OWN
    ]
    run.close()
