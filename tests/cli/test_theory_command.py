"""`attndyn theory`: the table, the reasons, runs found again, and what is refused."""

import pytest
from typer.testing import CliRunner

from attndyn.cli.main import app, main

SPEC = """
name: small
data:
  kind: markov
  stationary: {kind: explicit, pi: [0.6, 0.3, 0.1]}
  transition: {kind: sticky, lam: 0.5}
  regime: population
model: {architecture: pure_attention, d_model: 5, init: {kind: normal, std: 1e-4}}
optimizer: {kind: flow, rtol: 1e-6, atol: 1e-10}
training: {time: 60, steps: 120}
probes: {loss: {every: 1}, parameters: {every: 1}}
"""
RATES = ["condensation_rate", "focus_rate", "onset_dilution"]


@pytest.fixture
def spec(tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text(SPEC, "utf-8")
    return path


def call(*arguments):
    return CliRunner().invoke(app, ["theory", *map(str, arguments)], catch_exceptions=False)


def cells(output, quantity):
    """What follows the quantity's name and its symbol in its row."""
    return next(line.split()[2:] for line in output.splitlines() if line.split()[:1] == [quantity])


def test_predictions_beside_what_a_run_measured(spec, tmp_path):
    out = tmp_path / "out"
    first = call(spec, "--out", out)
    assert first.exit_code == 0
    predicted, measured, difference, units = cells(first.output, "condensation_rate")[:4]
    assert float(measured) == pytest.approx(float(predicted), rel=2e-3)
    assert float(difference.rstrip("%")) == pytest.approx(
        100 * (float(measured) / float(predicted) - 1), abs=0.01
    )
    assert units == "1/time"
    assert cells(first.output, "onset_dilution")[1] == "–", "the run ends before it"
    assert "second_direction_rate: without a residual" in first.output
    again = call(spec, "--out", out)
    assert again.output.splitlines()[-1] == first.output.splitlines()[-1]
    assert len(list((out / "small").iterdir())) == 1, "the finished run is used again"
    (run,) = (out / "small").iterdir()
    assert call(spec, "--run", run).output.splitlines()[-1] == str(run)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (["optimizer={kind: adam, lr: 0.001}", "training={steps: 3}"], "optimizer 'adam'"),
        (["optimizer={kind: gd, lr: 0.1}", "training={steps: 3}", "data.regime=sampled"], "regime 'sampled'"),
        (["model.output_projection=true"], "output_projection"),
    ],
)
def test_beyond_its_reach_the_rows_that_hold_and_a_line_for_each_that_does_not(spec, changes, reason):
    found = call(spec, "--no-run", *(word for change in changes for word in ("--set", change)))
    assert found.exit_code == 0
    assert float(cells(found.output, "loss_origin")[0]) == pytest.approx(1.09861)
    for name in RATES:
        (line,) = [line for line in found.output.splitlines() if line.startswith(name)]
        assert line.startswith(f"{name}: {reason}")


def test_replicas_are_a_median_and_a_band(spec):
    found = call(spec, "--no-run", "--set", "replicas={vary: {data.transition.lam: [0.2, 0.4, 0.6]}}")
    middle = call(spec, "--no-run", "--set", "data.transition.lam=0.4")
    row = " ".join(cells(found.output, "focus_rate"))
    assert row.startswith(cells(middle.output, "focus_rate")[0] + " (")
    assert cells(found.output, "condensation_rate")[1] == "1/time", "no band where replicas agree"


def test_a_run_of_another_spec_is_refused(spec, tmp_path, monkeypatch, capsys):
    run = call(spec, "--out", tmp_path / "out", "--set", "training.time=3").output.splitlines()[-1]
    monkeypatch.setattr("sys.argv", ["attndyn", "theory", str(spec), "--run", run])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    assert "another spec" in capsys.readouterr().err
    assert call(spec, "--run", run, "--no-run").exit_code == 2
