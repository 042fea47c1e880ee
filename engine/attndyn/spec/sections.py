"""The sections that are the engine's own, and the whole spec."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field, PrivateAttr, SerializeAsAny

from attndyn import registry
from attndyn.spec import checks
from attndyn.spec.base import (
    NAME,
    AnalyzerOptions,
    DataOptions,
    ExpectationOptions,
    Flaw,
    ModelOptions,
    OptimizerOptions,
    Path,
    ProbeOptions,
    Section,
)
from attndyn.spec.canonical import to_yaml
from attndyn.spec.plugged import MAX_PLUGINS
from attndyn.spec.replicas import MAX_REPLICAS, Replicas, expand, replica_flaws
from attndyn.spec.source import Node

DEFAULT_PROBES = {"loss": {"every": 1}, "attention": {"every": 10}, "parameters": {"every": 50}}

#: what a trajectory does not depend on
NOT_SIMULATED = ("name", "description", "quick", "analyzers", "expect")


class Training(Section):
    """How long to train, and in what arithmetic."""

    steps: int = Field(
        ge=1, le=10**9, description="number of updates; with flow, of equal output intervals of `time`"
    )
    time: float | None = Field(default=None, gt=0, description="flow only: how long to integrate")
    dtype: Literal["float64", "float32"] = Field(default="float64", description="arithmetic of the run")
    loss_positions: Literal["last", "all"] = Field(
        default="last", description="positions of a context whose next token is predicted"
    )
    max_loss: float = Field(default=1e4, gt=0, description="nats; a replica above it has diverged")


class ReplicaOptions(Section):
    """Which replicas run side by side: seeds, and values of the spec that differ between them."""

    seeds: int = Field(default=1, ge=1, le=MAX_REPLICAS, description="number of seeds")
    base_seed: int = Field(default=0, ge=0, lt=2**32, description="the first seed; the others follow it")
    vary: dict[str, Annotated[list[Any], Field(min_length=1)]] = Field(
        default={}, description="paths in the spec, such as optimizer.lr, each with a list of values"
    )
    combine: Literal["grid", "zip"] = Field(
        default="grid", description="grid: every combination, first path outermost; zip: value by value"
    )

    def count(self) -> int:
        """Number of replicas."""
        lengths = [len(values) for values in self.vary.values()] or [1]
        return self.seeds * (math.prod(lengths) if self.combine == "grid" else max(lengths))

    def flaws(self) -> Iterator[Flaw]:
        """Seeds are 32-bit numbers, the last one too."""
        if self.base_seed + self.seeds > 2**32:
            yield Flaw(
                ("base_seed",), f"the last seed is {self.base_seed + self.seeds - 1}; at most {2**32 - 1}"
            )


class Header(Section):
    """What stands at the top of a spec beside its sections."""

    name: str = Field(
        max_length=100,
        pattern=NAME,
        description="name of the experiment and of its directory",
    )
    description: str = Field(default="", description="what it shows: the claim, the figure")
    plugins: list[Annotated[str, Field(min_length=1)]] = Field(
        default=[],
        max_length=MAX_PLUGINS,
        description="files and folders of plugins, relative to the spec's file; their code is run",
    )
    representation: Literal["auto", "positions", "counts", "population"] = Field(
        default="auto", description="how contexts are held; auto takes the cheapest exact one"
    )
    quick: bool = Field(default=False, description="judged by `attndyn conform --quick` too: done in seconds")


class _Places:
    """Where the values of a spec stand; equal to any other, since it is no part of what the spec says."""

    def __init__(self, root: Node):
        self.root = root

    def __eq__(self, other: object) -> bool:
        return other is None or isinstance(other, _Places)

    __hash__ = None  # type: ignore[assignment]


class Spec(Header):
    """A valid spec: every default filled in, every plugin's options of that plugin's own class."""

    data: SerializeAsAny[DataOptions] = Field(description="where contexts come from")
    model: SerializeAsAny[ModelOptions] = Field(description="the architecture")
    optimizer: SerializeAsAny[OptimizerOptions] = Field(description="how parameters are updated")
    training: Training = Field(description="how long to train, and in what arithmetic")
    replicas: ReplicaOptions = Field(default=ReplicaOptions(), description="what runs side by side")
    probes: dict[str, SerializeAsAny[ProbeOptions]] = Field(description="what is recorded, and when")
    analyzers: list[SerializeAsAny[AnalyzerOptions]] = Field(
        default=[], description="what is computed from the record"
    )
    expect: list[SerializeAsAny[ExpectationOptions]] = Field(
        default=[], description="what must hold of the results: claims, each with what decides it"
    )

    _places: _Places | None = PrivateAttr(default=None)

    def flaws(self) -> Iterator[Flaw]:
        """Problems across sections, and in the values that vary."""
        found = list(checks.across_sections({name: getattr(self, name) for name in type(self).model_fields}))
        yield from found or replica_flaws(self)

    def read_from(self, root: Node) -> Spec:
        """This spec, told where its values stand."""
        self._places = _Places(root)
        return self

    def where(self, path: Path) -> str:
        """Where the value at a path stands, `file:line:column`; the spec's name if it came from no text."""
        return self.name if self._places is None else self._places.root.origin_of(path).where

    def to_yaml(self) -> str:
        """Canonical text, which loads back to an equal spec."""
        return to_yaml(self.model_dump(mode="json"))

    @property
    def sha256(self) -> str:
        """Hexadecimal SHA-256 of the canonical text."""
        return hashlib.sha256(self.to_yaml().encode()).hexdigest()

    @property
    def simulation_sha256(self) -> str:
        """Hexadecimal SHA-256 of what the trajectory depends on, and not of what is made of it.

        Specs that differ in their name, description, analyzers or expectations only have the same one.
        """
        kept = self.model_dump(mode="json", exclude=set(NOT_SIMULATED))
        return hashlib.sha256(to_yaml(kept).encode()).hexdigest()

    def plugin_classes(self) -> list[type]:
        """The classes of the plugins that make the trajectory: data, architecture, optimizer and probes."""
        named = [("data", self.data.kind), ("architecture", self.model.architecture)]
        named += [("optimizer", self.optimizer.kind), *(("probe", name) for name in self.probes)]
        return [registry.get(kind, name) for kind, name in named]

    def replicas_expanded(self) -> Replicas:
        """The replicas of this spec, combination by combination, seeds innermost."""
        return expand(self)
