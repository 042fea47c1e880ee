"""What every section of a spec has in common."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator


class Section(BaseModel):
    """A strict, immutable section of a spec: unknown keys, wrong types, NaN and infinity are errors."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, validate_default=True
    )


class Varies:
    """Marks a field that may differ between the replicas of one run, because it changes no shape.

    Used as `lr: Annotated[float, Varies()]`; `replicas.vary` accepts the paths of such fields only.
    """


class DataOptions(Section):
    """Options common to all data sources; a source's `Options` class inherits from it and fixes `kind`."""

    kind: str


class NormalInit(Section):
    """Independent normals of standard deviation `std`, or `d_model ** width_power`; ε = 1/m² by default."""

    kind: Literal["normal"] = "normal"
    std: Annotated[float | None, Varies(), Field(ge=0)] = None
    width_power: Annotated[float | None, Varies()] = None

    @model_validator(mode="after")
    def _one_scale(self) -> NormalInit:
        if self.std is not None and self.width_power is not None:
            raise ValueError("give std or width_power, not both")
        return self

    def scale(self, d_model: int) -> float:
        """Standard deviation ε of the initial parameters."""
        if self.std is not None:
            return self.std
        return float(d_model) ** (-2.0 if self.width_power is None else self.width_power)


class ModelOptions(Section):
    """Options common to all architectures; an architecture's `Options` class inherits from it."""

    architecture: str
    d_model: int = Field(ge=1, le=65536)
    init: NormalInit = NormalInit()


class Schedule(Section):
    """Factor of `lr` over the steps: constant, warm-up, or cosine decay after a warm-up."""

    kind: Literal["constant", "warmup", "cosine"] = "constant"
    warmup: int = Field(default=0, ge=0, description="steps of linear rise from 0")
    final: float = Field(default=0.0, ge=0, le=1, description="cosine: factor reached at the last step")


class OptimizerOptions(Section):
    """Options common to all optimizers; an optimizer's `Options` class inherits from it and fixes `kind`."""

    kind: str


class SteppedOptions(OptimizerOptions):
    """Options common to all optimizers that take discrete steps of a learning rate."""

    lr: Annotated[float, Varies(), Field(gt=0)]
    schedule: Schedule = Schedule()


class ProbeOptions(Section):
    """When a probe records: every so many steps, at listed steps, or at `count` log-spaced steps."""

    every: int | None = Field(default=None, ge=1)
    steps: list[int] | None = Field(default=None, min_length=1)
    count: int | None = Field(default=None, ge=2)

    @model_validator(mode="after")
    def _one_cadence(self) -> ProbeOptions:
        given = [k for k in ("every", "steps", "count") if getattr(self, k) is not None]
        if len(given) != 1:
            raise ValueError(f"give exactly one of every, steps, count; found {', '.join(given) or 'none'}")
        return self


class AnalyzerOptions(Section):
    """Options common to all analyzers; an analyzer's `Options` class inherits from it and fixes `kind`."""

    kind: str
