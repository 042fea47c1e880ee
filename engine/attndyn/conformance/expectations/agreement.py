"""`agreement`: how far two runs, or two representations of one, are apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
import xarray as xr
from pydantic import Field

from attndyn import registry
from attndyn.conformance.comparison import Array, ToleranceOptions
from attndyn.conformance.expectation import Evidence, Example, Expectation, Judgement, VacuousError
from attndyn.conformance.measured import Measured, SelectionError
from attndyn.spec.base import Flaw
from attndyn.spec.selection import Curves, Reference

LOSS = {"probe": "loss", "variable": "loss"}


class AgreementOptions(ToleranceOptions):
    """What is compared, with which other run, and how far apart the two may be.

    With `atol` the figure is the largest deviation itself; with `rtol` it is relative to the largest
    magnitude of what is compared, in the replica and its partner.
    """

    kind: Literal["agreement"] = "agreement"
    of: Curves = Field(description="what is compared: all records and entries, the worst of them counts")
    other: Reference = Field(description="the other run")
    relation: Literal["at_most", "at_least"] = Field(
        default="at_most", description="at_least: the two must differ by the tolerance or more"
    )

    def flaws(self) -> Iterator[Flaw]:
        """Either an absolute or a relative deviation; none wider where the two must differ."""
        yield from super().flaws()
        if (self.atol > 0) == (self.rtol > 0):
            yield Flaw((), "give exactly one of atol, rtol, greater than 0")
        for name in ("wider_atol", "wider_rtol"):
            given = getattr(self, name) is not None
            if given and self.relation == "at_least":
                yield Flaw((name,), "has no meaning with at_least", at_key=True)
            elif given and not getattr(self, name.removeprefix("wider_")):
                yield Flaw((name,), f"needs {name.removeprefix('wider_')}", at_key=True)


@registry.expectation("agreement")
class Agreement(Expectation):
    """The figure is the largest deviation from the same replica of the other run: same seed, same values."""

    Options = AgreementOptions
    options: AgreementOptions
    read_elsewhere = ("of",)
    examples = (
        Example("holds", {"of": LOSS, "other": {"set": {"representation": "positions"}}, "rtol": 1e-6}),
        Example("does not hold", {"of": LOSS, "other": {"set": {"data.batch": 6}}, "rtol": 1e-6}),
        Example("refused", {"of": LOSS, "other": {"set": {"name": "another"}}, "rtol": 1e-6}),
    )

    def references(self) -> Sequence[Reference]:
        """See `Expectation.references`."""
        return (self.options.other,)

    def judge(self, evidence: Evidence) -> Judgement:
        """See `Expectation.judge`."""
        options, own, other = self.options, evidence.own, evidence.others(self.options.other)
        _refuse_itself(own, other, options.of)
        first, second = _aligned(own, other, options.of)
        limit = options.atol or options.rtol
        wider = options.wider_rtol if options.wider_atol is None else options.wider_atol
        deviation, scale = _apart(first.values, second.values)
        units = str(first.attrs.get("units", "1"))
        if options.rtol:
            deviation, units = deviation / np.where(scale > 0, scale, np.nan), "1"
        far = options.relation == "at_least"
        if not far:
            widest = max(limit, wider or 0.0)
            self._refuse_vacuous(widest * scale if options.rtol else widest, first, second)
        sign, measure = "≥" if far else "≤", "relative" if options.rtol else "absolute"
        places = [each["_place"].values.astype(np.intp) for each in (first, second)]
        return Judgement(
            deviation,
            deviation >= limit if far else deviation <= limit,
            f"{measure} deviation {sign} {limit:g}",
            units,
            None if wider is None else deviation <= wider,
            f"against {options.other}",
            own.lost[places[0]] | other.lost[places[1]],
            own.settings_of(places[0]),
        )

    def _refuse_vacuous(self, tolerance: Any, first: xr.DataArray, second: xr.DataArray) -> None:
        """Refuse a tolerance as wide as all that the two runs do, and as half their size at least."""
        values = np.concatenate([first.values.ravel(), second.values.ravel()])
        size = np.nanmax(np.abs(values))
        # with the size among them a curve that hardly moves can well agree with another
        room = max(np.nanmax(values) - np.nanmin(values), size / 2) if "step" in first.dims else size
        if np.nanmax(tolerance) >= room:
            message = f"the tolerance {np.nanmax(tolerance):.3g} is as wide as the range of the quantity"
            raise VacuousError(f"cannot fail: {message}, {room:.6g}")


def _refuse_itself(own: Measured, other: Measured, of: Curves) -> None:
    same = own.spec.simulation_sha256 == other.spec.simulation_sha256
    if same and (of.probe is not None or own.spec.analyzers == other.spec.analyzers):
        raise VacuousError("cannot fail: the other run is the same one")
    twin = other.spec.model_copy(update={"representation": own.spec.representation})
    held = [run.trajectory.attrs.get("representation") for run in (own, other)]
    if not same and twin.simulation_sha256 == own.spec.simulation_sha256 and held[0] == held[1] is not None:
        raise VacuousError(f"cannot fail: the other run is the same one, contexts are {held[0]} in both")


def _aligned(own: Measured, other: Measured, of: Curves) -> tuple[xr.DataArray, xr.DataArray]:
    """What is compared in both runs: the replicas of both, at the steps of both, entry by entry."""
    first, second = own.curves(of), other.curves(of)
    names = [name for name in _identities(first) if name in _identities(second)]
    places = [_places(each, names) for each in (first, second)]
    shared = [key for key in places[0] if key in places[1]]
    if not shared:
        raise SelectionError(("other",), f"no replica has the same {', '.join(names)} in both runs")
    kept = [
        array.isel(replica=[place[key] for key in shared]).drop_vars(["replica", "time"], errors="ignore")
        for array, place in zip((first, second), places, strict=True)
    ]
    if "step" in first.dims and "step" in second.dims:
        steps = np.intersect1d(first["step"], second["step"])
        kept = [array.sel(step=steps) for array in kept]
        if not steps.size:
            raise SelectionError(("other",), "no step is on record in both runs")
    try:
        one, two = xr.align(*kept, join="exact")
        two = two.transpose(*one.dims)
    except ValueError:
        raise SelectionError(("other",), "its dimensions or labels are others in the two runs") from None
    if one.shape != two.shape:
        raise SelectionError(("other",), f"its shapes differ: {one.shape} and {two.shape}")
    if not all(np.isfinite(array).any() for array in (one, two)):
        raise VacuousError("cannot fail: the selection holds nothing but NaN")
    return one, two


def _identities(array: xr.DataArray) -> list[str]:
    """Names of what tells replicas apart: the seed and what varies."""
    left_out = ("replica", "_place", "time")
    return [str(n) for n, c in array.coords.items() if c.dims == ("replica",) and n not in left_out]


def _places(array: xr.DataArray, names: Sequence[str]) -> dict[tuple[Any, ...], int]:
    """Place of each replica by what identifies it."""
    keys = list(zip(*(array[name].values.tolist() for name in names), strict=True))
    if len(set(keys)) < len(keys):
        raise SelectionError(("of", "labels"), f"several replicas have the same {', '.join(names)}")
    return {key: place for place, key in enumerate(keys)}


def _apart(first: Array, second: Array) -> tuple[Array, Array]:
    """The largest deviation and the largest magnitude of each replica, shape (replica,).

    Where one of the two is NaN and the other is not, as after a divergence, they differ by all there is. NaN
    where nothing is there in either.
    """
    flat = [values.reshape(len(values), -1) for values in (first, second)]
    missing = [~np.isfinite(values) for values in flat]
    one, two = (np.where(gone, 0.0, values) for values, gone in zip(flat, missing, strict=True))
    scale = np.maximum(np.abs(one), np.abs(two)).max(axis=1)
    if not scale.any():
        raise VacuousError("cannot fail: it is 0 throughout in both runs")
    alone = (missing[0] != missing[1]).any(axis=1)
    deviation = np.abs(one - two).max(axis=1)
    deviation = np.where(alone, np.maximum(deviation, scale), deviation)
    nothing = (missing[0] & missing[1]).all(axis=1)
    return np.where(nothing, np.nan, deviation), scale
