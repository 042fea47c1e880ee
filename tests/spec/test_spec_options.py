"""The words for a plugin's options."""

from typing import Annotated, Literal

from pydantic import Field

from attndyn.spec.base import AnalyzerOptions, ModelOptions, Section, Varies
from attndyn.spec.options import options_of


class Round(Section):
    kind: Literal["round"] = "round"
    radius: float = Field(gt=0, description="how far")


class Square(Section):
    kind: Literal["square"] = "square"


class Inner(Section):
    depth: int | None = Field(default=None, ge=1, le=9, description="how deep")


class Options(AnalyzerOptions):
    kind: Literal["some"] = "some"
    rate: Annotated[float, Varies()] = Field(ge=0, lt=1, description="how fast")
    on: bool = True
    way: Literal["up", "down"] = Field(default="up", description="where to")
    names: list[str] | None = None
    shape: Round | Square = Field(default=Square(), discriminator="kind", description="which")
    inner: Inner = Inner()
    by_name: dict[str, Round] = Field(default={})


def test_every_option_in_words():
    assert [tuple(option) for option in options_of(Options)] == [
        ("rate", "float, ≥ 0, < 1", "required", "how fast"),
        ("on", "bool", "true", ""),
        ("way", "up | down", "up", "where to"),
        ("names", "list of str | null", "null", ""),
        ("shape", "{kind: round} | {kind: square}", "see below", "which"),
        ("inner", "mapping", "see below", ""),
        ("inner.depth", "int | null, ≥ 1, ≤ 9", "null", "how deep"),
        ("by_name", "mapping to {kind: round}", "{}", ""),
    ]


def test_the_name_of_the_plugin_is_no_option():
    assert list(options_of(AnalyzerOptions)) == [("kind", "str", "required", "name of the analyzer")]
    names = [option.path for option in options_of(ModelOptions)]
    assert names[:3] == ["architecture", "d_model", "init"]
