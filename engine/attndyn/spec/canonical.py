"""The canonical text of a spec: plain YAML that this reader and any other understand alike."""

from __future__ import annotations

from typing import Any

import yaml

from attndyn.spec.source import INTEGER, NOT_FINITE, REAL


class _Dumper(yaml.SafeDumper):
    """Quotes a string if either YAML 1.1 or 1.2 would take it for something else; writes no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        """Whether `data` is always written out."""
        return True


def _string(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    # PyYAML would fold these line breaks away in any other style
    style = '"' if set(text) & set("\x85\u2028\u2029") else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _string)
for _tag, _pattern in (("int", INTEGER), ("float", REAL), ("float", NOT_FINITE)):
    _Dumper.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", _pattern, list("-+.0123456789"))


def to_yaml(values: dict[str, Any]) -> str:
    """`values` in their own order, lists and mappings without inner ones on one line."""
    return yaml.dump(values, Dumper=_Dumper, sort_keys=False, default_flow_style=None, allow_unicode=True)
