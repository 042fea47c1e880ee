"""Tables of a comparison as plain text cells, and what of the runs cannot be compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from attndyn.analysis.records import frequent_tokens
from attndyn.analysis.series import Band, band
from attndyn.report.compared import Compared, differences
from attndyn.report.tables import ABSENT, provenance

MEDIUM = "medium tokens"
NAMING = ("name", "description")
#: tables have as many rows of tokens at most
MAX_TOKENS = 12
SAME_PI = 1e-9

Row = tuple[str, list[str]]


def common_tokens(compared: Sequence[Compared]) -> list[Any]:
    """Labels that name a token in every run, the most frequent of the first run first."""
    first = compared[0].run.trajectory
    tokens = first.dataset["token"].values
    shared = set.intersection(*(set(run.root["token"].values.tolist()) for run in compared))
    order = frequent_tokens(first, len(tokens))
    return [token for token in tokens[order].tolist() if token in shared]


def boundary_bands(run: Compared) -> dict[str, Band]:
    """Of every boundary, the band of its step over replicas, layers and heads."""
    if "stages" not in run.results:
        return {}
    steps = run.results["stages"]["boundary_step"].transpose(..., "boundary")
    values = steps.values.reshape(-1, steps.sizes["boundary"])
    return {str(label): band(values[:, i]) for i, label in enumerate(steps["boundary"].values.tolist())}


def retraction_bands(run: Compared, name: str) -> dict[str, Band]:
    """A quantity of the `retraction` analyzer by token, and for the medium tokens, over replicas."""
    if "retraction" not in run.results:
        return {}
    found = run.results["retraction"]
    tokens = found["token"].values[frequent_tokens(run.run.trajectory, MAX_TOKENS)].tolist()
    bands = {str(token): band(found[name].sel(token=token).values) for token in tokens}
    return {MEDIUM: band(found[f"medium_{name}"].values)} | bands


def boundary_rows(compared: Sequence[Compared]) -> list[Row]:
    """For every boundary, its step in every run."""
    columns = [boundary_bands(run) for run in compared]
    counts = [
        run.results["stages"]["boundary_step"].isel(boundary=0).size if "stages" in run.results else 0
        for run in compared
    ]
    labels = dict.fromkeys(label for column in columns for label in column)
    return [
        (
            label.replace("_", " "),
            [_step_cell(column.get(label), count) for column, count in zip(columns, counts, strict=True)],
        )
        for label in labels
    ]


def retraction_rows(compared: Sequence[Compared]) -> list[Row]:
    """For the medium tokens and every token, depth and steps of its retraction in every run."""
    columns = [
        {name: retraction_bands(run, name) for name in ("depth", "start", "trough", "recovery")}
        for run in compared
    ]
    labels = dict.fromkeys(label for column in columns for label in column["depth"])
    return [(label, [_retraction_cell(column, label) for column in columns]) for label in labels]


def spec_rows(compared: Sequence[Compared]) -> list[Row]:
    """The places in the specs whose values are not the same in all runs, names and descriptions aside."""
    rows = differences([run.run.spec for run in compared])
    return [(path, values) for path, values in rows if path not in NAMING]


def provenance_rows(compared: Sequence[Compared]) -> list[Row]:
    """Where each run's numbers come from."""
    columns = [provenance(_texts(run.run.trajectory.attrs), run.root["seed"].values) for run in compared]
    return [(name, [column[name] for column in columns]) for name in columns[0]]


def caveats(compared: Sequence[Compared]) -> list[str]:
    """What is not the same in all runs and limits what can be compared, a sentence each."""
    return [*_of_runs(compared), *_of_tokens(compared), *_of_records(compared)]


def _of_runs(compared: Sequence[Compared]) -> Iterator[str]:
    for run in compared:
        status = run.run.status
        if status["state"] != "complete":
            yield f"{run.label} is {status['state']}, at step {status['step']} of {status['steps']}."
        for lost in status.get("diverged", []):
            reason = f": {lost['reason']}" if "reason" in lost else ""
            yield f"{run.label}: replica {lost['replica']} diverged at step {lost['step']}{reason}."
    ends = {run.label: run.run.status["step"] for run in compared}
    if len(set(ends.values())) > 1:
        yield "The runs end at different steps: " + "; ".join(f"{k}: {v}" for k, v in ends.items()) + "."


def _of_tokens(compared: Sequence[Compared]) -> Iterator[str]:
    shared = common_tokens(compared)
    every = {token for run in compared for token in run.root["token"].values.tolist()}
    if not shared:
        yield "The runs have no token in common: embedding norms are not laid over each other."
    elif len(shared) < len(every):
        lacking = len(every) - len(shared)
        yield f"Tokens that are not in all runs are left out of the norms: {lacking} of {len(every)}."
    frequencies = [_mean_frequencies(run) for run in compared]
    if any(_differ(frequencies[0], other) for other in frequencies[1:]):
        yield (
            "The tokens' frequencies differ: the most frequent token is each run's own, and losses, "
            "entropies and attention start from different levels."
        )
    transitions = [run.root.get("transition") for run in compared]
    arrays = [
        None if t is None else t.transpose("replica", "token", "next_token").values for t in transitions
    ]
    if any(_unlike(arrays[0], other) for other in arrays[1:]):
        yield "The chains differ: so does the lowest loss that a model can reach."


def _of_records(compared: Sequence[Compared]) -> Iterator[str]:
    of_all = [reason for reason in compared[0].missing if all(reason in run.missing for run in compared)]
    yield from (f"All runs: {reason}." for reason in of_all)
    for run in compared:
        yield from (f"{run.label}: {reason}." for reason in run.missing if reason not in of_all)
        if "loss" not in run.curves:
            yield f"{run.label}: no loss is shown, the probe 'loss' did not record."
    heads = {
        run.label: (sizes["layer"], sizes["head"])
        for run in compared
        if "stages" in run.results and (sizes := run.results["stages"].sizes)
    }
    if any(layers * n > 1 for layers, n in heads.values()):
        listed = "; ".join(f"{label}: {layers} × {n}" for label, (layers, n) in heads.items())
        yield (
            f"Attention and its entropy are means over layers and heads ({listed}); "
            "boundaries are pooled over them."
        )


def _mean_frequencies(run: Compared) -> dict[Any, float]:
    pi = run.root["pi"].mean("replica")
    return dict(zip(pi["token"].values.tolist(), pi.values.tolist(), strict=True))


def _differ(first: Mapping[Any, float], second: Mapping[Any, float]) -> bool:
    if first.keys() != second.keys():
        return True
    return any(abs(value - second[token]) > SAME_PI for token, value in first.items())


def _unlike(first: Any, second: Any) -> bool:
    if first is None or second is None:
        return first is not second
    first, second = first.mean(axis=0), second.mean(axis=0)
    return first.shape != second.shape or not np.allclose(first, second, atol=SAME_PI)


def _step_cell(found: Band | None, count: int) -> str:
    if found is None or not np.isfinite(found.median):
        return ABSENT
    spread = f" ({found.p10:.0f} – {found.p90:.0f})" if found.share * count > 1 else ""
    return f"{found.median:.0f}{spread}, in {round(float(found.share) * count)} of {count}"


def _retraction_cell(column: dict[str, dict[str, Band]], label: str) -> str:
    depth = column["depth"].get(label)
    if depth is None or not np.isfinite(depth.median):
        return ABSENT
    steps = [column[name][label].median for name in ("start", "trough", "recovery")]
    if not np.isfinite(steps[0]):
        return "none"
    path = " → ".join(f"{step:.0f}" if np.isfinite(step) else "…" for step in steps)
    return f"{depth.median:.2f} ({depth.p10:.2f} – {depth.p90:.2f}); {path}"


def _texts(attrs: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(name): value for name, value in attrs.items()}
