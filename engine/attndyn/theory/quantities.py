"""All numbers of the theory by name: closed forms, and what is computed to be compared with them."""

from __future__ import annotations

from collections.abc import Mapping

from attndyn.theory import formulas
from attndyn.theory.asserted.computed import ASSERTED
from attndyn.theory.computed import COMPUTED
from attndyn.theory.formulas import FORMULAS, Formula
from attndyn.theory.setting import Setting

QUANTITIES: Mapping[str, Formula] = FORMULAS | COMPUTED | ASSERTED


def evaluate(name: str, setting: Setting, token: int | None = None) -> float:
    """The value of a quantity; see `formulas.evaluate`."""
    return formulas.evaluate(name, setting, token, QUANTITIES)
