"""Which runs a suite makes, which it uses again, and which it goes on with."""

import os
import subprocess
import sys

import netCDF4
import numpy as np
import pytest

from attndyn import provenance, registry
from attndyn.cli import main
from attndyn.conformance import earlier, rehearsal
from attndyn.conformance.earlier import earlier_runs
from attndyn.conformance.suite import Suite, SuiteInterrupted
from attndyn.errors import SpecError
from attndyn.optim import flow
from attndyn.simulation import Simulation
from attndyn.spec import load_spec, parse_spec
from attndyn.trajectory import schema
from conformance.suite_specs import MORTAL, tiny


@pytest.fixture
def judge(tmp_path):
    """Judge a text as a spec, in a folder with other specs and runs."""

    def call(text, *overrides, backend="auto", say=lambda line: None):
        path = tmp_path / "spec.yaml"
        path.write_text(text, "utf-8")
        with registry.isolated():
            return Suite(tmp_path / "out", backend, say=say).judge(path, overrides)

    return call


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


def directories(out):
    return sorted(file.parent for file in out.glob("*/*/spec.yaml"))


def set_state(directory, state):
    file = directory / "status.json"
    file.write_text(file.read_text().replace('"complete"', f'"{state}"'))


def test_what_is_missing_is_run_and_what_is_there_is_not_run_again(judge, out):
    first = judge(tiny())
    assert not first.reused
    second = judge(tiny())
    assert second.reused
    assert second.runs == first.runs == tuple(directories(out))
    assert second.findings == first.findings


@pytest.mark.parametrize(
    "other",
    [
        tiny(name="renamed"),
        tiny(number=0.98, verdict="in part"),
        tiny(more="description: said otherwise\nquick: true\n"),
        tiny(more="analyzers: [norms]\n"),
    ],
)
def test_the_same_simulation_is_not_run_again(judge, out, other):
    judge(tiny())
    again = judge(other)
    assert again.reused
    assert all(finding.as_recorded for finding in again.findings)
    assert len(directories(out)) == 1


@pytest.mark.parametrize(
    "override",
    ["training.steps=21", "replicas.base_seed=1", "optimizer.lr=0.02", "probes.loss.every=2", "data.n_ctx=9"],
)
def test_another_simulation_is_run(judge, out, override):
    judge(tiny())
    assert not judge(tiny(), override).reused
    assert len(directories(out)) == 2


def test_other_numerical_code_is_run_anew(judge, out, monkeypatch):
    judge(tiny())
    for module in (earlier, schema):
        monkeypatch.setattr(module, "code_sha256", lambda plugins=(): "another")
    assert not judge(tiny()).reused
    assert judge(tiny()).reused
    assert len(directories(out)) == 2


def test_a_changed_plugin_is_run_anew(judge, out, tmp_path):
    text = tiny(more="plugins: [mortal.py]\n").replace("kind: adam", "kind: mortal")
    plugin = tmp_path / "mortal.py"
    plugin.write_text(MORTAL, "utf-8")
    judge(text)
    assert judge(text).reused
    plugin.write_text(MORTAL + "\n# changed\n", "utf-8")
    assert not judge(text).reused
    assert len(directories(out)) == 2


def test_the_backend_that_is_asked_for(judge, out):
    judge(tiny())
    assert judge(tiny(), backend="numpy").reused
    spec = load_spec(out.parent / "spec.yaml")
    assert len(earlier_runs(spec, out, "numpy")) == 1
    assert earlier_runs(spec, out, "cupy") == []


def test_a_text_that_was_changed_is_read_anew(judge, out, tmp_path):
    """What was read is part of the simulation, though the spec has but the name of the file."""
    begin, end = tiny().index("data:"), tiny().index("model:")
    data = "data: {kind: corpus, source: {kind: path, files: [words.txt]}, n_ctx: 4, batch: 5}\n"
    text = (tiny()[:begin] + data + tiny()[end:]).replace("number: 1.05", "number: 2.0")
    words = tmp_path / "words.txt"
    words.write_text("a b c a b c b b a c c a b c a b a c " * 20)
    judge(text)
    assert judge(text).reused
    words.write_text("a b c c b a c b c a c c a b c a b a c " * 20)
    assert not judge(text).reused


@pytest.mark.parametrize("state", ["running", "interrupted"])
def test_an_unfinished_run_is_gone_on_with(judge, out, state):
    """`running` is what a process that was killed leaves."""
    text = tiny()
    whole = judge(text).findings
    directory = directories(out)[0]
    set_state(directory, state)
    again = judge(text)
    assert not again.reused
    assert again.runs == (directory,)
    assert again.findings == whole
    assert directories(out) == [directory]


def test_a_run_that_cannot_be_gone_on_with_is_made_anew(judge, out):
    first = judge(tiny())
    set_state(first.runs[0], "interrupted")
    (first.runs[0] / "checkpoint.npz").write_bytes(b"damaged")
    said = []
    again = judge(tiny(), say=said.append)
    assert again.findings == first.findings
    assert again.runs != first.runs
    assert len(said) == 1
    assert "not a readable checkpoint" in said[0]
    assert judge(tiny()).reused


@pytest.mark.parametrize("file", ["trajectory.nc", "status.json"])
def test_damaged_runs_are_passed_over(judge, out, file):
    first = judge(tiny())
    (first.runs[0] / file).write_bytes(b"damaged")
    assert judge(tiny()).findings == first.findings
    assert len(directories(out)) == 2


def test_a_run_that_another_process_writes_is_left_alone(judge, out):
    """Its file is locked; the suite makes a run of its own, and neither disturbs the other."""
    first = judge(tiny())
    set_state(first.runs[0], "running")
    hold = "import sys, netCDF4; f = netCDF4.Dataset(sys.argv[1], 'r+'); print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", hold, first.runs[0] / "trajectory.nc"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"HDF5_USE_FILE_LOCKING": "TRUE"},
    ) as holder:
        holder.stdout.readline()
        again = judge(tiny())
        holder.stdin.close()
    assert again.runs != first.runs
    assert again.findings == first.findings
    with netCDF4.Dataset(str(first.runs[0] / "trajectory.nc")) as file:
        assert file["loss"]["step"][-1] == 20


def test_two_processes_at_once(judge, out, tmp_path):
    """They make a run each, or share one; both end well, and a third finds nothing missing."""
    (tmp_path / "spec.yaml").write_text(tiny(), "utf-8")
    command = "from attndyn.cli import main; main()"
    both = [
        subprocess.Popen(
            [sys.executable, "-c", command, "conform", "spec.yaml", "--out", "out"],
            cwd=tmp_path,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        for _ in range(2)
    ]
    ended = [(process.communicate(timeout=100)[1], process.returncode) for process in both]
    assert ended == [(b"", 0)] * 2
    assert 1 <= len(directories(out)) <= 2
    assert judge(tiny()).reused


def test_runs_that_claims_refer_to_are_made_once(judge, out, tmp_path):
    more = """
  - {kind: agreement, id: a, claim: a, source: test, of: {probe: loss, variable: loss}, atol: 0.45,
     other: {set: {optimizer.lr: 0.02}}, relation: at_most}
  - {kind: agreement, id: b, claim: b, source: test, of: {probe: loss, variable: loss}, atol: 0.45,
     other: {spec: other.yaml}, relation: at_most}
"""
    (tmp_path / "other.yaml").write_text(tiny(name="other").replace("lr: 1e-2", "lr: 2e-2"), "utf-8")
    found = judge(tiny() + more)
    assert [finding.problem for finding in found.findings] == [""] * 3
    assert len(found.runs) == len(directories(out)) == 2
    assert judge(tiny() + more).reused


def test_why_an_integrator_gave_up_is_said(judge, monkeypatch):
    """What a claim makes of a replica that is lost does not say it."""
    monkeypatch.setattr(flow, "STALL_STEPS", 200)
    monkeypatch.setattr(Simulation, "_replica_gradient", lambda self, replica, theta: np.sign(theta - 1.0))
    text = tiny().replace("optimizer: {kind: adam, lr: 1e-2}", "optimizer: {kind: flow}")
    text = text.replace("batch: 5", "regime: population").replace("steps: 20", "steps: 20, time: 40")
    said = []
    judge(text.replace("seeds: 3", "seeds: 1"), say=said.append)
    assert len(said) == 1
    assert "replica 0 diverged at step 1: the integrator stalled at time " in said[0]


def test_an_interrupted_run_is_no_verdict(judge, out, monkeypatch):
    """Ctrl-C in a run that a claim refers to stops the suite; it is no problem of the claim."""
    judge(tiny())
    other = "\n  - {kind: agreement, id: a, claim: a, source: test, of: {probe: loss, variable: loss},"
    other += " atol: 0.45, other: {set: {optimizer.lr: 0.02}}}\n"
    real = Suite._computed

    def interrupted(self, spec, unfinished):
        run = real(self, spec, unfinished)
        set_state(run.directory, "interrupted")
        return run

    monkeypatch.setattr(Suite, "_computed", interrupted)
    with pytest.raises(SuiteInterrupted, match="what was computed is kept in"):
        judge(tiny() + other)


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("/etc/passwd", "/etc/passwd"),
        ("..", "is a directory, not a spec file"),
        ("nowhere.yaml", "no such file"),
        ("wrong.yaml", "wrong.yaml:2:7: name"),
        ('"\\0"', "control character"),
    ],
)
def test_references_to_what_is_no_spec(judge, out, tmp_path, reference, said):
    """They are found before anything is run, with their place."""
    (tmp_path / "wrong.yaml").write_text(tiny(name="a/b"), "utf-8")
    more = f"""
  - {{kind: agreement, id: a, claim: a, source: test, of: {{probe: loss, variable: loss}}, atol: 0.45,
     other: {{spec: {reference}}}}}
"""
    with pytest.raises(SpecError) as caught:
        judge(tiny() + more)
    lines = str(caught.value).splitlines()
    assert all(line.startswith(f"{tmp_path}/spec.yaml:25:") for line in lines)
    assert "expect[1].other" in lines[0]
    assert said in str(caught.value)
    assert directories(out) == []


@pytest.mark.parametrize(
    ("probes", "of", "said"),
    [
        (
            "loss: {every: 1}",
            "probe: parameters, variable: W_0",
            "of.probe: 'other' has no probe 'parameters'",
        ),
        (
            "parameters: {every: 5}",
            "probe: parameters, variable: W_0, labels: {token: 4}",
            "of.labels.token: no label 4",
        ),
    ],
)
@pytest.mark.parametrize("kind", ["agreement", "trend"])
def test_what_a_referred_run_will_not_have_is_found_before_any_run(
    judge, out, tmp_path, kind, probes, of, said
):
    """Own run and the other one differ in their probes or tokens; the place is that of the reference."""
    other = tiny(name="other").replace(
        "loss: {every: 1}, attention: {every: 5}, parameters: {every: 5}", probes
    )
    other = other.replace("d_vocab: 3", "d_vocab: 2")
    (tmp_path / "other.yaml").write_text(other[: other.index("expect:")], "utf-8")
    more = f"""
  - {{kind: agreement, id: a, claim: a, source: test, of: {{{of}}}, atol: 0.45,
     other: {{spec: other.yaml}}}}
"""
    if kind == "trend":
        more = f"""
  - {{kind: trend, id: a, claim: a, source: test, of: {{{of}, across: max, at: last}},
     direction: rising, at: 1,
     runs: [{{at: 2, spec: other.yaml}}, {{at: 3, spec: other.yaml, set: {{optimizer.lr: 0.02}}}}]}}
"""
    with pytest.raises(SpecError) as caught:
        judge(tiny().replace("d_vocab: 3", "d_vocab: 5") + more)
    lines = str(caught.value).splitlines()
    assert len(lines) == (1 if kind == "agreement" else 2)
    place = "expect[1].other" if kind == "agreement" else "expect[1].runs[0]"
    assert lines[0].startswith(f"{tmp_path}/spec.yaml:{25 if kind == 'agreement' else 26}:")
    assert f"{place}: other.yaml: {said}" in lines[0]
    assert directories(out) == []


def test_validating_a_spec_looks_at_what_it_reads_elsewhere(tmp_path, monkeypatch, capsys):
    (tmp_path / "other.yaml").write_text(tiny(name="other").replace("parameters: {every: 5}", ""), "utf-8")
    file = tmp_path / "spec.yaml"
    of = "{probe: parameters, variable: W_0}"
    more = "\n  - {kind: agreement, id: a, claim: a, source: t, atol: 0.1, other: {spec: other.yaml},"
    more += f" of: {of}}}\n"
    file.write_text(tiny() + more, "utf-8")
    monkeypatch.setattr(sys, "argv", ["attndyn", "validate", str(file)])
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (2, "")
    assert "expect[1].other: other.yaml: of.probe: 'other' has no probe 'parameters'" in err


def test_a_referred_spec_is_rehearsed_once(judge, tmp_path, monkeypatch):
    """Not once for each learning rate of it."""
    (tmp_path / "other.yaml").write_text(tiny(name="other"), "utf-8")
    runs = ", ".join(f"{{at: {i}, spec: other.yaml, set: {{optimizer.lr: {i / 100}}}}}" for i in (1, 2, 3))
    more = f"""
  - {{kind: trend, id: a, claim: a, source: test, of: {{probe: loss, variable: loss, at: last}},
     direction: falling, runs: [{runs}]}}
"""
    seen, real = [], rehearsal._misread
    monkeypatch.setattr(
        rehearsal, "_misread", lambda spec, chosen: seen.append(spec.name) or real(spec, chosen)
    )
    assert judge(tiny() + more).findings[1].verdict == "holds"
    assert seen == ["other"]


def test_references_in_a_circle(judge, out, tmp_path):
    """Only runs are taken from the other spec; what it expects in turn is not looked at."""
    more = """
  - {{kind: agreement, id: a, claim: a, source: test, of: {{probe: loss, variable: loss}}, atol: 0.45,
     other: {{spec: {}}}}}
"""
    (tmp_path / "other.yaml").write_text(
        tiny(name="other").replace("lr: 1e-2", "lr: 2e-2") + more.format("spec.yaml")
    )
    found = judge(tiny() + more.format("other.yaml"))
    assert [finding.verdict for finding in found.findings] == ["holds", "holds"]
    itself = judge(tiny() + more.format("spec.yaml"))
    assert "cannot fail" in itself.findings[1].problem


def test_a_hundred_other_runs_are_enough(judge, out):
    runs = ", ".join(f"{{set: {{optimizer.lr: {1 + i}.0}}, at: {i}}}" for i in range(1000))
    more = f"""
  - {{kind: trend, id: b, claim: c, source: s, of: {{probe: loss, variable: loss, at: last}},
     direction: rising, runs: [{runs}]}}
"""
    with pytest.raises(SpecError, match=r"expect\[1\].runs: found a list of \d+; may have at most 100"):
        judge(tiny() + more)
    assert directories(out) == []


def test_code_that_decides_the_numbers_is_hashed(tmp_path, monkeypatch):
    """Each package has files that count, and a change in any of them counts."""
    for package in provenance.NUMERICAL:
        assert list(provenance._sources(package)), package
    package = tmp_path / "made_numbers"
    package.mkdir()
    (package / "__init__.py").write_text("")
    file = package / "one.py"
    file.write_text("x = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(provenance, "NUMERICAL", ("made_numbers",))
    before = provenance.code_sha256()
    file.write_text("x = 2\n")
    assert provenance.code_sha256() == before  # of the code that runs
    provenance._digest.cache_clear()
    assert provenance.code_sha256() != before


def test_what_the_hash_of_a_simulation_leaves_out():
    base = parse_spec(tiny())
    same = parse_spec(tiny(name="b", number=0.9, more="analyzers: [norms]\nquick: true\ndescription: x\n"))
    assert base.simulation_sha256 == same.simulation_sha256
    assert base.sha256 != same.sha256
    other = parse_spec(tiny().replace("batch: 5", "batch: 6"))
    assert base.simulation_sha256 != other.simulation_sha256
