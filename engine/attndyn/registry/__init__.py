"""The door through which every plugin enters, those that ship with the engine included.

A plugin is a class with a decorator (`@architecture("pure_attention")`). It is found in one of two ways: an
installed package announces it in an entry-point group (`attndyn.architecture`), or the user names its file
or folder (`plugins:` in a spec, `--plugins`, `load_file`). Announced plugins are imported when first asked
for, so a broken one that a spec does not name does no harm; nothing is ever looked for anywhere else.
"""

from attndyn.registry.classes import (
    analyzer,
    architecture,
    data,
    expectation,
    get,
    names,
    nearest,
    optimizer,
    origin,
    probe,
    register,
)
from attndyn.registry.files import digests, isolated, load_file
from attndyn.registry.protocols import KINDS, PROTOCOLS

__all__ = [
    "KINDS",
    "PROTOCOLS",
    "analyzer",
    "architecture",
    "data",
    "digests",
    "expectation",
    "get",
    "isolated",
    "load_file",
    "names",
    "nearest",
    "optimizer",
    "origin",
    "probe",
    "register",
]
