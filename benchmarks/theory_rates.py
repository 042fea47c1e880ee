"""Predicted against measured: rates, plateaus and onsets of random settings under gradient flow.

    python benchmarks/theory_rates.py [COUNT [FIRST]]

Draws COUNT (20) settings: d from 3 to 8, m from 8 to 128, λ from 0.3 to 0.9, π from a Dirichlet distribution,
each probability at least 0.02. Each is run at ε = 1e-6, 1e-4 and 1e-2, some minutes in all; deviations
in per cent are printed as a table. FIRST leaves out the settings before it. What is not seen or not predicted
is nan.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from attndyn.simulation import Simulation
from attndyn.spec import Spec, parse_spec
from attndyn.theory.formulas import evaluate
from attndyn.theory.measure import Measurement, Record
from attndyn.theory.onsets import Start, onsets
from attndyn.theory.setting import Setting

SPEC = """
name: random-setting
data:
  kind: markov
  stationary: {{kind: explicit, pi: {pi}}}
  transition: {{kind: sticky, lam: {lam}}}
  regime: population
model: {{architecture: pure_attention, d_model: {m}, init: {{kind: normal, std: {std}}}}}
optimizer: {{kind: flow, rtol: 1e-7, atol: {atol}}}
training: {{time: {time}, steps: 2000}}
probes: {{loss: {{count: 300}}, parameters: {{count: 300}}}}
"""
SCALES = (1e-6, 1e-4, 1e-2)
STAGES = ("condensation", "focus", "dilution")


class Recorder:
    """A sink that keeps what one replica records."""

    def __init__(self) -> None:
        self.steps: dict[str, list[int]] = {"loss": [], "parameters": []}
        self.values: dict[str, list[dict[str, np.ndarray]]] = {"loss": [], "parameters": []}

    def start(self, simulation: Simulation) -> None: ...

    def record(self, probe: str, step: int, values: Mapping[str, Any]) -> None:
        self.steps[probe].append(step)
        self.values[probe].append({name: np.array(array[0]) for name, array in values.items()})

    def advance(self, simulation: Simulation) -> None: ...

    def finish(self, simulation: Simulation, outcome: Any) -> None: ...

    def of(self, interval: float) -> Record:
        names = self.values["parameters"][0]
        weights = {name: np.stack([v[name] for v in self.values["parameters"]]) for name in names}
        return Record(
            time=interval * np.array(self.steps["parameters"]),
            weights={name: w.reshape(len(w), *w.shape[-2:]) for name, w in weights.items()},
            loss_time=interval * np.array(self.steps["loss"]),
            loss=np.array([float(v["loss"]) for v in self.values["loss"]]),
        )


def random_setting(rng: np.random.Generator) -> dict[str, Any]:
    d, m, lam = int(rng.integers(3, 9)), int(rng.integers(8, 129)), round(float(rng.uniform(0.3, 0.9)), 3)
    while True:
        pi = np.sort(rng.dirichlet(np.full(d, 1.5)))[::-1].round(4)
        pi[0] = 1 - pi[1:].sum()
        # neither too rare a token nor so little contrast that a run takes days
        if pi.min() >= 0.02 and pi[0] > 1.3 * pi[1] and pi[1] > pi[2]:
            return {"pi": [round(float(p), 4) for p in pi], "lam": lam, "m": m}


def run(spec: Spec) -> tuple[Setting, Measurement]:
    setting, recorder = Setting.of(spec), Recorder()
    Simulation(spec, "numpy").run([recorder])
    assert spec.training.time is not None
    return setting, Measurement(setting, recorder.of(spec.training.time / spec.training.steps))


def row(number: int, drawn: dict[str, Any]) -> dict[str, float]:
    """Deviations in per cent by column."""
    found: dict[str, float] = {}
    for std in SCALES:
        options = drawn | {"std": std, "atol": 1e-6 * std}
        first = Setting.of(parse_spec(SPEC.format(**options, time=1)))
        typical, own = onsets(first, Start.expected(first)), onsets(first, Start.drawn(first))
        longest = 1.05 * float(np.nanmax(list(own.values())))
        setting, measured = run(parse_spec(SPEC.format(**options, time=longest)))
        if std == min(SCALES):
            for name in ("condensation_rate", "focus_rate", "loss_plateau"):
                found[name] = measured.value(name) / evaluate(name, setting) - 1
            rows = [
                measured.value("plateau_row_norm", k) / evaluate("plateau_row_norm", setting, k) - 1
                for k in range(setting.d_vocab)
            ]
            found["row norms"] = max(rows, key=abs)
        for stage in STAGES:
            time = measured.value(f"onset_{stage}")
            found[f"{stage} {std:g}"] = time / own[stage] - 1
            found[f"{stage} {std:g} typical"] = time / typical[stage] - 1
    return {name: 100 * value for name, value in found.items()}


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    rng, rows = np.random.default_rng(20261130), []
    for number in range(count):
        drawn = random_setting(rng)
        if number < first:
            continue
        rows.append(row(number, drawn))
        shown = " | ".join(f"{v:+.3f}" for k, v in rows[-1].items() if not k.endswith("typical"))
        if number == first:
            print("| d | m | λ | " + " | ".join(k for k in rows[-1] if not k.endswith("typical")) + " |")
        print(f"| {len(drawn['pi'])} | {drawn['m']} | {drawn['lam']} | {shown} |", flush=True)
    print("\nlargest deviation in per cent")
    for name in rows[0]:
        values = np.array([r[name] for r in rows])
        print(f"{name}: {np.nanmax(np.abs(values)):.3f}, missing {int(np.isnan(values).sum())}")


if __name__ == "__main__":
    main()
