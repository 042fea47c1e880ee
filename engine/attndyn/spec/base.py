"""What every section of a spec has in common, and the options common to all plugins of a kind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo, model_validator
from pydantic_core import PydanticCustomError

NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
"""Names that are safe as a directory's."""
Verdict = Literal["holds", "in part", "does not hold", "not applicable"]
"""What a run has to say of a claim."""

Path = tuple[str | int, ...]
"""Place in a spec or a section: keys and list indices, outermost first."""


def _absolute(path: str, info: ValidationInfo) -> str:
    folder = (info.context or {}).get("folder")
    return path if folder is None else os.path.abspath(os.path.join(folder, path))


LocalFile = Annotated[str, Field(min_length=1, max_length=4096), AfterValidator(_absolute)]
"""Type of a field that names a file: what is relative in a spec's file is relative to that file's folder.

Loading a spec makes it absolute, so that the spec means the same wherever it is kept; whether there is such
a file is not looked at.
"""


class Flaw(NamedTuple):
    """Something wrong that no single field can see.

    Attributes:
        path: place of the offending value, relative to the section that reports it.
        message: what was found and what is allowed.
        at_key: the key is to blame, not its value.
        also: other places involved; if an override is among them, the problem is laid to that.
    """

    path: Path
    message: str
    at_key: bool = False
    also: tuple[Path, ...] = ()


class Section(BaseModel):
    """A strict, immutable section of a spec: unknown keys, wrong types, NaN and infinity are errors.

    Give fields only a type, bounds and a description; put what relates several fields in `flaws`, which keeps
    the place of each problem where a validator that raises would lose it.
    """

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, validate_default=True
    )

    def flaws(self) -> Iterator[Flaw]:
        """Problems across the fields, asked for once each field is valid by itself; none by default."""
        return iter(())

    @model_validator(mode="after")
    def _refuse_flaws(self) -> Self:
        found = list(self.flaws())
        if found:
            summary = "; ".join(flaw.message for flaw in found)
            raise PydanticCustomError("flaws", "{summary}", {"summary": summary, "flaws": found})
        return self


class Varies:
    """Marks a field that may differ between the replicas of one run, because it changes no shape.

    Used as `lr: Annotated[float, Varies()]`; `replicas.vary` accepts the paths of such fields only.
    """


class DataOptions(Section):
    """Options common to all data sources; a source's `Options` class inherits from it and fixes `kind`."""

    kind: str = Field(description="name of the data source")
    regime: Literal["sampled", "population"] = Field(
        default="sampled", description="finite batches of finite contexts, or the exact infinite limit"
    )
    n_ctx: int = Field(default=64, ge=1, le=2**20, description="tokens in a context")
    batch: int = Field(default=1000, ge=1, le=2**24, description="contexts in a step")

    @property
    def d_vocab(self) -> int | None:
        """Number of tokens; None if only the data themselves can tell."""
        return None

    @property
    def labels(self) -> tuple[str, ...] | None:
        """Labels of the tokens; None if only the data themselves can tell."""
        return None

    def absent(self) -> str | None:
        """What the data are made from and this machine does not have, in a line; None if nothing is missing.

        Suites leave such a spec out; a run of it is refused with the reason.
        """
        return None


class Normal(Section):
    """Independent normals of standard deviation `std`, or `d_model ** width_power`; ε = 1/m² by default."""

    kind: Literal["normal"] = Field(default="normal", description="distribution of the initial parameters")
    std: Annotated[float | None, Varies()] = Field(default=None, ge=0, description="standard deviation ε")
    width_power: Annotated[float | None, Varies()] = Field(
        default=None, ge=-16, le=4, description="exponent of d_model that gives ε; -2 if std is not given"
    )

    def flaws(self) -> Iterator[Flaw]:
        """Refuse two answers to one question."""
        if self.std is not None and self.width_power is not None:
            yield Flaw(("width_power",), "give std or width_power, not both")

    def scale(self, d_model: int) -> float:
        """Standard deviation ε of the initial parameters."""
        if self.std is not None:
            return self.std
        return float(d_model) ** (-2.0 if self.width_power is None else self.width_power)


class Zero(Section):
    """All entries 0."""

    kind: Literal["zero"] = Field(description="all entries 0")


class Identity(Section):
    """`scale` on the diagonal of every matrix of the parameter, 0 elsewhere."""

    kind: Literal["identity"] = Field(description="a diagonal of equal entries")
    scale: Annotated[float, Varies()] = Field(default=1.0, description="the entries of the diagonal")


class NormalInit(Normal):
    """Normals for all parameters but those that have something else of their own."""

    parameters: dict[str, Annotated[Normal | Zero | Identity, Field(discriminator="kind")]] = Field(
        default={}, description="parameters, by name, that begin otherwise"
    )


class ModelOptions(Section):
    """Options common to all architectures; an architecture's `Options` class inherits from it."""

    architecture: str = Field(description="name of the architecture")
    d_model: int = Field(ge=1, le=65536, description="embedding width m")
    init: NormalInit = Field(default=NormalInit(), description="distribution of the initial parameters")


class Schedule(Section):
    """Factor of `lr` over the steps: constant, warm-up, or cosine decay after a warm-up."""

    kind: Literal["constant", "warmup", "cosine"] = Field(default="constant", description="shape")
    warmup: int = Field(
        default=0, ge=0, description="steps of linear rise; the last of them has the full rate"
    )
    final: float = Field(default=0.0, ge=0, le=1, description="cosine: factor reached at the last step")

    def flaws(self) -> Iterator[Flaw]:
        """Refuse what would have no effect."""
        if self.warmup and self.kind == "constant":
            yield Flaw(("warmup",), "has no effect; the kind 'warmup' or 'cosine' is needed")
        if self.final and self.kind != "cosine":
            yield Flaw(("final",), "has no effect; the kind 'cosine' is needed")


class OptimizerOptions(Section):
    """Options common to all optimizers; an optimizer's `Options` class inherits from it and fixes `kind`."""

    kind: str = Field(description="name of the optimizer")


class SteppedOptions(OptimizerOptions):
    """Options common to all optimizers that take discrete steps of a learning rate."""

    lr: Annotated[float, Varies()] = Field(gt=0, description="learning rate")
    schedule: Schedule = Field(default=Schedule(), description="factor of lr over the steps")


class ProbeOptions(Section):
    """When a probe records: every so many steps, at listed steps, or at `count` log-spaced steps."""

    every: int | None = Field(default=None, ge=1, description="steps from one record to the next")
    steps: list[Annotated[int, Field(ge=0)]] | None = Field(
        default=None, min_length=1, description="the steps to record, each from 0 to training.steps"
    )
    count: int | None = Field(
        default=None, ge=2, le=10**6, description="number of log-spaced steps to record"
    )

    def flaws(self) -> Iterator[Flaw]:
        """Refuse no cadence and several."""
        given = [k for k in ("every", "steps", "count") if getattr(self, k) is not None]
        if len(given) != 1:
            yield Flaw((), f"give exactly one of every, steps, count; found {', '.join(given) or 'none'}")


class AnalyzerOptions(Section):
    """Options common to all analyzers; an analyzer's `Options` class inherits from it and fixes `kind`."""

    kind: str = Field(description="name of the analyzer")


class ExpectationOptions(Section):
    """Options common to all expectations; the `Options` of each inherit from it and fix `kind`."""

    kind: str = Field(description="name of the kind of expectation")
    id: str = Field(max_length=64, pattern=NAME, description="short name, its own in the spec")
    claim: str = Field(min_length=1, max_length=500, description="what is said to be so, in words")
    source: str = Field(min_length=1, max_length=200, description="who says so, and where")
    verdict: Verdict = Field(default="holds", description="the verdict on record; another one is reported")
    note: str = Field(default="", max_length=2000, description="what was tried, where it does not hold")
