"""Option sets are made up from types and bounds: all that there are, or a balanced choice."""

from collections import Counter
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from attndyn import registry
from attndyn.conformance.options import given_options, option_sets
from attndyn.errors import PluginError, SpecError
from attndyn.spec.base import Flaw, Section, Varies


class Inner(Section):
    width: int = Field(ge=4, le=5)
    kind: Literal["a", "b"] = "b"


class Small(Section):
    flag: bool = True
    kind: Literal["x", "y", "z"] = "y"
    count: int = Field(default=8, ge=2)
    rate: Annotated[float, Varies()] = Field(default=0.25, ge=0, lt=1)
    inner: Inner | None = None
    label: str = "kept"

    def flaws(self):
        if self.flag and self.kind == "x":
            yield Flaw(("kind",), "not with a flag")


class Needy(Section):
    path: str


class Broken(Section):
    flag: bool = False

    def flaws(self):
        raise ZeroDivisionError("oops")


def values(options, name, **fixed):
    return Counter(str(getattr(valid, name)) for _, valid in option_sets(options, fixed, 10**4))


def test_all_sets_where_they_are_few():
    sets = option_sets(Small, {"inner": None}, 10**4)
    # flag and kind without the pair that is refused, 4 counts, 2 rates
    assert len(sets) == 5 * 4 * 2
    assert len({valid.model_dump_json() for _, valid in sets}) == len(sets)
    assert values(Small, "count", inner=None).keys() == {"8", "2", "3", "4"}
    assert values(Small, "rate", inner=None).keys() == {"0.25", "0.5"}
    assert values(Small, "label", inner=None).keys() == {"kept"}


def test_nested_sections_take_their_own_values():
    widths = {getattr(valid.inner, "width", None) for _, valid in option_sets(Small, {}, 10**4)}
    assert widths == {None, 4, 5}


def test_defaults_come_first_and_labels_say_what_differs():
    (first, valid), *others = option_sets(Small, {"count": 3}, 10**4)
    assert first == "default options"
    assert (valid.flag, valid.kind, valid.count, valid.inner) == (True, "y", 3, None)
    assert "flag=False" in {label for label, _ in others}
    assert all("count" not in label for label, _ in others)


def test_a_choice_is_balanced_and_the_same_every_time():
    sets, again = (option_sets(Small, {}, 12) for _ in range(2))
    assert [label for label, _ in sets] == [label for label, _ in again]
    assert len(sets) == 12
    for name, least in (("flag", 3), ("kind", 2), ("count", 1)):
        counted = Counter(getattr(valid, name) for _, valid in sets)
        assert min(counted.values()) >= least, (name, counted)


def test_a_choice_of_the_transformer_reaches_every_value_that_is_small():
    options = registry.get("architecture", "transformer").Options
    sets = [valid for _, valid in option_sets(options, {"d_model": 6}, 24)]
    for name in ("heads", "layers", "attention", "positions", "layer_norm", "value_projection", "mask_token"):
        assert len({getattr(valid, name) for valid in sets}) >= 2, name
    assert {valid.mlp is None for valid in sets} == {True, False}


def test_what_cannot_be_made_up_is_said():
    with pytest.raises(PluginError, match="option 'path'"):
        option_sets(Needy, {}, 4)
    assert len(option_sets(Needy, {"path": "text.txt"}, 4)) == 1
    with pytest.raises(PluginError, match="no option 'colour'; allowed: path"):
        option_sets(Needy, {"colour": 1}, 4)
    with pytest.raises(PluginError, match="flag: Input should be a valid boolean"):
        option_sets(Small, {"flag": "maybe"}, 4)
    with pytest.raises(PluginError, match="ZeroDivisionError: oops"):
        option_sets(Broken, {}, 4)


def test_options_given_as_texts():
    found: dict[str, Any] = given_options(["flag=false", "inner.width=4", "kind=x"])
    assert found == {"flag": False, "inner": {"width": 4}, "kind": "x"}
    with pytest.raises(SpecError, match="path=value"):
        given_options(["flag"])
