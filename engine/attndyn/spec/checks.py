"""What must hold between the sections of a spec; each check names, as parameters, the sections it reads."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from attndyn import registry
from attndyn.spec.base import (
    AnalyzerOptions,
    DataOptions,
    ExpectationOptions,
    Flaw,
    ModelOptions,
    OptimizerOptions,
    Path,
    ProbeOptions,
    SteppedOptions,
)
from attndyn.spec.selection import selections
from attndyn.spec.words import quote

if TYPE_CHECKING:
    from attndyn.spec.sections import ReplicaOptions, Spec, Training

MAX_ENTRIES = 10**9
"""Most entries of any one array a spec may ask for: 8 GB in float64, so a typo does not fill a machine."""


Sizes = dict[Path, tuple[int, str]]
"""Entries of an array of one replica, and what they are the product of, by the option to blame."""


def across_sections(sections: Mapping[str, Any]) -> Iterator[Flaw]:
    """Problems between the sections given; a check that reads others too is left out."""
    for check in CHECKS:
        names = inspect.signature(check).parameters
        if all(name in sections for name in names):
            yield from check(**{name: sections[name] for name in names})


def analyzers_differ(analyzers: list[AnalyzerOptions]) -> Iterator[Flaw]:
    """Results are filed by the analyzer's name, so each may be asked for once."""
    kinds = [options.kind for options in analyzers]
    for index, kind in enumerate(kinds):
        if kind in kinds[:index]:
            yield Flaw(("analyzers", index), f"the analyzer '{kind}' is given twice")


def alternatives(required: str | tuple[str, ...]) -> tuple[str, ...]:
    """The probes of which an entry of an analyzer's `requires` needs one."""
    return (required,) if isinstance(required, str) else required


def analyzers_have_probes(
    analyzers: list[AnalyzerOptions], probes: dict[str, ProbeOptions]
) -> Iterator[Flaw]:
    """An analyzer reads what probes recorded."""
    for index, options in enumerate(analyzers):
        required = registry.get("analyzer", options.kind).requires
        missing = [
            " or ".join(choice) for choice in map(alternatives, required) if not set(choice) & set(probes)
        ]
        if missing:
            needs = ", ".join(missing)
            message = f"'{options.kind}' needs the probe {needs}, which is not among probes"
            yield Flaw(("analyzers", index), message, also=(("probes",),))


def time_fits_optimizer(optimizer: OptimizerOptions, training: Training) -> Iterator[Flaw]:
    """Continuous optimizers integrate up to a time; those that take steps have none."""
    place, kind = ("training", "time"), optimizer.kind
    if isinstance(optimizer, SteppedOptions):
        if training.time is not None:
            yield Flaw(place, f"'{kind}' takes steps; only flow has a time", also=(("optimizer", "kind"),))
    elif training.time is None:
        yield Flaw(place, f"is missing; '{kind}' needs the time to integrate", also=(("optimizer", "kind"),))


def flow_needs_population(data: DataOptions, optimizer: OptimizerOptions) -> Iterator[Flaw]:
    """An ODE has no draws; only the population loss is a fixed function of the parameters."""
    if data.regime != "population" and not isinstance(optimizer, SteppedOptions):
        message = f"found '{data.regime}'; the optimizer '{optimizer.kind}' needs 'population'"
        yield Flaw(("data", "regime"), message, also=(("optimizer", "kind"),))


def flow_needs_float64(optimizer: OptimizerOptions, training: Training) -> Iterator[Flaw]:
    """An adaptive integrator asks for less error than float32 resolves: its steps would shrink to 0."""
    if training.dtype != "float64" and not isinstance(optimizer, SteppedOptions):
        message = f"found '{training.dtype}'; the optimizer '{optimizer.kind}' needs 'float64'"
        yield Flaw(("training", "dtype"), message, also=(("optimizer", "kind"),))


def representation_is_exact(data: DataOptions, representation: str) -> Iterator[Flaw]:
    """Counts and positions hold finite contexts exactly, population the infinite limit."""
    exact = ["auto", "population"] if data.regime == "population" else ["auto", "positions", "counts"]
    if representation not in exact:
        message = f"found '{representation}', inexact for regime '{data.regime}'; allowed: {', '.join(exact)}"
        yield Flaw(("representation",), message, also=(("data", "regime"),))


def probe_steps_are_run(probes: dict[str, ProbeOptions], training: Training) -> Iterator[Flaw]:
    """A probe can record the states before each update and the final one."""
    for name, options in probes.items():
        for index, step in enumerate(options.steps or ()):
            if step > training.steps:
                message = f"found step {step}; allowed: 0 to {training.steps} (training.steps)"
                yield Flaw(("probes", name, "steps", index), message, also=(("training", "steps"),))


def tokens_exist(data: Vocabulary, probes: dict[str, ProbeOptions]) -> Iterator[Flaw]:
    """A probe that lists tokens lists labels of the data."""
    labels = data.labels
    for name, options in probes.items():
        for index, token in enumerate(getattr(options, "tokens", None) or ()):
            if labels is not None and token not in labels:
                allowed = _like(token, labels) if isinstance(data, Read) else "see data.tokens"
                message = f"found {quote(token)}, which is no token of the data; {allowed}"
                yield Flaw(("probes", name, "tokens", index), message, also=(("data", "tokens"),))


def _like(token: str, labels: Sequence[str]) -> str:
    """What to say of thousands of labels: the nearest ones, or the first."""
    close = difflib.get_close_matches(token, labels, n=3)
    return f"{'the nearest' if close else 'the first'} are {', '.join(map(quote, close or labels[:5]))}"


def expectations_differ(expect: list[ExpectationOptions]) -> Iterator[Flaw]:
    """Verdicts are filed by the expectation's id."""
    ids = [options.id for options in expect]
    for index, name in enumerate(ids):
        if name in ids[:index]:
            yield Flaw(("expect", index, "id"), f"the id '{name}' is given twice")


def selections_are_made(
    expect: list[ExpectationOptions],
    probes: dict[str, ProbeOptions],
    analyzers: list[AnalyzerOptions],
    training: Training,
) -> Iterator[Flaw]:
    """An expectation speaks of what the run records and computes."""
    kinds = [options.kind for options in analyzers]
    for index, options in enumerate(expect):
        for place, selection in selections(options):
            path = ("expect", index, *place)
            if selection.probe is not None and selection.probe not in probes:
                message = f"no such probe in the spec; {registry.nearest(selection.probe, list(probes))}"
                yield Flaw((*path, "probe"), message, also=(("probes",),))
            if selection.analyzer is not None and selection.analyzer not in kinds:
                message = f"no such analyzer in the spec; {registry.nearest(selection.analyzer, kinds)}"
                yield Flaw((*path, "analyzer"), message, also=(("analyzers",),))
            if selection.boundaries and "stages" not in kinds:
                where = next(iter(selection.boundaries))
                message = "a boundary needs the analyzer stages, which is not among analyzers"
                yield Flaw((*path, *where), message, also=(("analyzers",),))
            for where, step in selection.steps.items():
                if step > training.steps:
                    message = f"found step {step}; allowed: 0 to {training.steps} (training.steps)"
                    yield Flaw((*path, *where), message, also=(("training", "steps"),))


def masked_token_exists(data: Vocabulary, model: ModelOptions) -> Iterator[Flaw]:
    """A mask of a token that is none would mask nothing, and a control would control nothing."""
    token, d_vocab = getattr(model, "mask_token", None), data.d_vocab
    if token is not None and d_vocab is not None and token >= d_vocab:
        message = f"found {token}, which is no token of the data; allowed: 0 to {d_vocab - 1}"
        yield Flaw(("model", "mask_token"), message, also=(("data",),))


class Vocabulary(Protocol):
    """The tokens of the data, as far as they are known."""

    @property
    def labels(self) -> Sequence[str] | None:
        """Labels of the tokens."""

    @property
    def d_vocab(self) -> int | None:
        """Number of tokens."""


class Read(NamedTuple):
    """The tokens of data that had to be read for them."""

    labels: Sequence[str]

    @property
    def d_vocab(self) -> int:
        """Number of tokens."""
        return len(self.labels)


def once_read(spec: Spec, labels: Sequence[str]) -> Iterator[Flaw]:
    """What of the above waits for the labels of the tokens where only the data themselves can tell them."""
    if spec.data.labels is None:
        data = Read(labels)
        yield from tokens_exist(data, spec.probes)
        yield from masked_token_exists(data, spec.model)
        sizes: Sizes = {("model", "d_model"): _of_model(data, spec.model)}
        yield from _bounded(sizes, spec.replicas)


def arrays_fit(data: DataOptions, model: ModelOptions, replicas: ReplicaOptions) -> Iterator[Flaw]:
    """Bound the largest arrays: the tokens of a step and the square matrices of a model and a chain."""
    d_vocab = data.d_vocab or 0
    sizes: Sizes = {
        ("data", "batch"): (data.batch * max(data.n_ctx, d_vocab), "batch × larger of n_ctx and d_vocab"),
        ("model", "d_model"): _of_model(data, model),
        ("data",): (d_vocab**2, "d_vocab²"),
    }
    if data.regime == "population":
        del sizes["data", "batch"]
    yield from _bounded(sizes, replicas)


def _of_model(data: Vocabulary, model: ModelOptions) -> tuple[int, str]:
    return model.d_model * max(model.d_model, data.d_vocab or 0), "d_model × widest"


def _bounded(sizes: Sizes, replicas: ReplicaOptions) -> Iterator[Flaw]:
    count = replicas.count()
    for path, (size, product) in sizes.items():
        if size * count > MAX_ENTRIES:
            message = f"{product} × {count} replicas = {size * count:.3g} entries; at most {MAX_ENTRIES:.0e}"
            yield Flaw(path, message, also=(("replicas",),))


CHECKS = (
    analyzers_differ,
    analyzers_have_probes,
    time_fits_optimizer,
    flow_needs_population,
    flow_needs_float64,
    representation_is_exact,
    probe_steps_are_run,
    tokens_exist,
    expectations_differ,
    selections_are_made,
    masked_token_exists,
    arrays_fit,
)
