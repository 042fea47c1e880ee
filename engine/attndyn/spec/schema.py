"""JSON Schema of a spec over all announced plugins, for editors that complete and check YAML."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, create_model
from pydantic.json_schema import models_json_schema

from attndyn import registry
from attndyn.errors import PluginError
from attndyn.spec.base import Section
from attndyn.spec.load import PLUGGED
from attndyn.spec.sections import DEFAULT_PROBES, Spec

DIALECT = "https://json-schema.org/draft/2020-12/schema"
Json = dict[str, Any]


def json_schema() -> Json:
    """Schema (draft 2020-12) of a spec file; a plugin that fails to load is left out of it."""
    sections = {name: _tagged(kind, tag) for name, (kind, tag) in PLUGGED.items()}
    analyzers, probes = _tagged("analyzer", "kind"), _options("probe")
    expectations = _tagged("expectation", "kind")
    models: list[type[Section]] = [
        Spec,
        *probes.values(),
        *analyzers,
        *expectations,
        *(m for members in sections.values() for m in members),
    ]
    refs, definitions = models_json_schema([(model, "validation") for model in models])

    def ref(model: type[Section]) -> Json:
        return refs[model, "validation"]

    schema: Json = definitions["$defs"].pop("Spec")
    schema["required"].remove("probes")
    properties = schema["properties"]
    for name, members in sections.items():
        properties[name] = _described(name, oneOf=[ref(m) for m in members])
    properties["probes"] = _described(
        "probes",
        type="object",
        properties={name: ref(model) for name, model in probes.items()},
        additionalProperties=False,
        default=DEFAULT_PROBES,
    )
    names: Json = {"enum": registry.names("analyzer")}
    properties["analyzers"] = _described(
        "analyzers", type="array", items={"oneOf": [names, *(ref(m) for m in analyzers)]}, default=[]
    )
    properties["expect"] = _described(
        "expect", type="array", items={"oneOf": [ref(m) for m in expectations]}, default=[]
    )
    return {"$schema": DIALECT, **schema, "$defs": definitions["$defs"]}


def _described(name: str, **schema: Any) -> Json:
    return {"description": Spec.model_fields[name].description, **schema}


def _options(kind: str) -> dict[str, type[Section]]:
    """Options classes of a kind's plugins, by name."""
    found = {}
    for name in registry.names(kind):
        try:
            found[name] = registry.get(kind, name).Options
        except PluginError:
            continue
    return found


def _tagged(kind: str, tag: str) -> list[type[Section]]:
    """The options of a kind's plugins, each with its name required under `tag`, as a file must give it."""
    members = []
    for name, options in _options(kind).items():
        described = Field(description=options.model_fields[tag].description)
        field: dict[str, Any] = {tag: (Literal[name], described)}
        members.append(create_model(f"{kind}_{name}", __base__=options, __doc__=options.__doc__, **field))
    return members
