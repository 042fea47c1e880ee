"""From text to a `Spec`, or to every problem it has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path as FilePath
from typing import Any, TypeVar

from pydantic import ValidationError

from attndyn import registry
from attndyn.errors import PluginError
from attndyn.spec import checks
from attndyn.spec.base import Flaw, Path, Section
from attndyn.spec.overrides import AFTER_THE_FILE, apply_overrides
from attndyn.spec.plugged import load_plugins
from attndyn.spec.problems import translate, unknown
from attndyn.spec.sections import DEFAULT_PROBES, Header, ReplicaOptions, Spec, Training
from attndyn.spec.source import Findings, Node, read_file, read_yaml
from attndyn.spec.words import describe, printable, shorten

PLUGGED = {
    "data": ("data", "kind"),
    "model": ("architecture", "architecture"),
    "optimizer": ("optimizer", "kind"),
}
"""Sections that belong to one plugin: its kind, and the key that names it."""

Check = Callable[[Spec], Iterable[Flaw]]
AnySection = TypeVar("AnySection", bound=Section)


def load_spec(
    path: str | FilePath,
    overrides: Sequence[str] = (),
    plugins: Sequence[str | FilePath] = (),
    check: Check | None = None,
) -> Spec:
    """The spec in a file, with `path=value` overrides put in.

    The code of plugins that the spec names by file or folder is run: load no spec that you would not run.

    Args:
        path: the spec's file.
        overrides: `path=value`, later ones over earlier ones.
        plugins: files and folders of plugins besides those of the spec, relative to the working directory.
        check: what else to look for in a spec that is valid by itself.

    Raises:
        SpecError: listing every problem found, each with its file, line and column.
    """
    folder = FilePath(path).parent
    return parse_spec(read_file(path), printable(str(path)), overrides, plugins, folder, check)


def parse_spec(
    text: str,
    source: str = "<string>",
    overrides: Sequence[str] = (),
    plugins: Sequence[str | FilePath] = (),
    folder: str | FilePath = "",
    check: Check | None = None,
) -> Spec:
    """The spec in `text`; `source` names it in messages, and `plugins` in it are relative to `folder`.

    The other arguments, and what it means to load a spec's plugins, are those of `load_spec`.

    Raises:
        SpecError: listing every problem found.
    """
    findings = Findings()
    root = read_yaml(text, source, findings)
    if root is not None and not isinstance(root.value, dict):
        findings.add(root.origin, (), f"a spec is a mapping, found {describe(root.plain())}")
        root = None
    if root is None:
        raise findings.error()
    root = apply_overrides(root, overrides, findings)
    complete = load_plugins(root, FilePath(folder), plugins, findings)
    if complete is None:  # whatever the spec says of a missing plugin would be called unknown
        raise findings.error()
    assembly = _Assembly(complete, findings, FilePath(folder))
    spec = assembly.spec()
    if spec is not None and check is not None:
        for flaw in check(spec):
            assembly.report(flaw)
    if spec is None or findings:
        raise findings.error()
    return spec.read_from(complete)


class _Assembly:
    """Validates section by section, so that a flaw in one does not hide those of the others."""

    def __init__(self, root: Node, findings: Findings, folder: FilePath):
        self.root = root
        self.folder = folder
        self.raw: dict[str, Any] = root.plain()
        self.findings = findings
        self.sections: dict[str, Any] = {}

    def spec(self) -> Spec | None:
        """The whole; None if a problem was found."""
        self.header()
        self.own("training", Training)
        self.own("replicas", ReplicaOptions)
        for name, (kind, tag) in PLUGGED.items():
            if name in self.raw:
                self.keep(name, self.plugin(kind, tag, (name,), self.raw[name]))
        self.probes(self.raw.get("probes", DEFAULT_PROBES))
        self.analyzers(self.raw.get("analyzers", []))
        self.expect(self.raw.get("expect", []))
        if len(self.sections) == len(Spec.model_fields):
            return self.validate(Spec, self.sections, ())
        for flaw in checks.across_sections(self.sections):
            self.report(flaw)
        return None

    def header(self) -> None:
        """The plain fields at the top, and unknown keys among them."""
        plugged = Spec.model_fields.keys() - Header.model_fields.keys()
        header = self.validate(Header, {k: v for k, v in self.raw.items() if k not in plugged}, (), Spec)
        if header is not None:
            self.sections.update({name: getattr(header, name) for name in Header.model_fields})
        for name in (*PLUGGED, "training"):
            if name not in self.raw:
                self.report(Flaw((name,), "is missing; this section is required"))

    def own(self, name: str, section: type[Section]) -> None:
        """A section of the engine's own."""
        if name in self.raw or not Spec.model_fields[name].is_required():
            self.keep(name, self.validate(section, self.raw.get(name, {}), (name,)))

    def probes(self, raw: Any) -> None:
        """The mapping from a probe's name to its options."""
        if not isinstance(raw, Mapping):
            self.report(Flaw(("probes",), f"found {describe(raw)}; a mapping is needed"))
            return
        found: dict[str, Any] = {}
        for name, options in raw.items():
            place: Path = ("probes", name)
            if name in registry.names("probe"):
                plugin = self.options("probe", name, Flaw(place, "", at_key=True))
                found[name] = plugin and self.validate(plugin, options, place)
            else:
                allowed = registry.nearest(shorten(name), registry.names("probe"))
                self.report(Flaw(place, f"unknown probe; {allowed}", at_key=True))
                found[name] = None
        self.keep("probes", None if None in found.values() else found)

    def analyzers(self, raw: Any) -> None:
        """The list of analyzers, each a name or a mapping with `kind` and options."""
        if not isinstance(raw, list):
            self.report(Flaw(("analyzers",), f"found {describe(raw)}; a list is needed"))
            return
        found: list[Section | None] = []
        for index, item in enumerate(raw):
            if isinstance(item, dict) or item in registry.names("analyzer"):
                options = item if isinstance(item, dict) else {"kind": item}
                found.append(self.plugin("analyzer", "kind", ("analyzers", index), options))
            else:
                self.report(Flaw(("analyzers", index), unknown(item, registry.names("analyzer"))))
                found.append(None)
        self.keep("analyzers", None if None in found else found)

    def expect(self, raw: Any) -> None:
        """The list of expectations, each a mapping with `kind` and options."""
        if not isinstance(raw, list):
            self.report(Flaw(("expect",), f"found {describe(raw)}; a list is needed"))
            return
        found = [self.plugin("expectation", "kind", ("expect", i), item) for i, item in enumerate(raw)]
        self.keep("expect", None if None in found else found)

    def plugin(self, kind: str, tag: str, place: Path, raw: Any) -> Section | None:
        """A section whose class is that of the plugin named under `tag`."""
        if not isinstance(raw, dict):
            self.report(Flaw(place, f"found {describe(raw)}; a mapping is needed"))
            return None
        if tag not in raw:
            self.report(Flaw((*place, tag), f"is missing; allowed: {', '.join(registry.names(kind))}"))
            return None
        name = raw[tag]
        if name not in registry.names(kind):
            self.report(Flaw((*place, tag), unknown(name, registry.names(kind))))
            return None
        options = self.options(kind, name, Flaw((*place, tag), ""))
        return None if options is None else self.validate(options, raw, place)

    def options(self, kind: str, name: str, blame: Flaw) -> type[Section] | None:
        """The options class of a plugin; None, with the reason reported, if it cannot be loaded."""
        try:
            options: type[Section] = registry.get(kind, name).Options
        except PluginError as error:
            self.report(blame._replace(message=printable(" ".join(str(error).split()))))
            return None
        return options

    def validate(
        self, section: type[AnySection], raw: Any, place: Path, shown: type[Section] | None = None
    ) -> AnySection | None:
        """`raw` as a section; None, with the reasons reported, if it is not."""
        try:
            return section.model_validate(raw, context={"folder": self.folder})
        except ValidationError as error:
            for flaw in translate(error, shown or section):
                self.report(flaw._replace(path=(*place, *flaw.path)))
            return None

    def keep(self, name: str, value: Any) -> None:
        """Note a valid section."""
        if value is not None:
            self.sections[name] = value

    def report(self, flaw: Flaw) -> None:
        """Lay a flaw to the override involved in it, else to its place in the file."""
        origins = [self.root.origin_of(flaw.path, flaw.at_key), *map(self.root.origin_of, flaw.also)]
        guilty = next((o for o in origins if o.order[0] == AFTER_THE_FILE), origins[0])
        # the claims are about the file as it stands: whoever changes it may want none of them
        changed = guilty.order[0] == AFTER_THE_FILE and flaw.path[:1] == ("expect",)
        hint = "; --set expect=[] leaves the claims out" if changed else ""
        self.findings.add(guilty, flaw.path, flaw.message + hint)
