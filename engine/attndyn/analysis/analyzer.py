"""The analyzer protocol: a trajectory in, a labelled dataset out, and a way to draw it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from attndyn.spec.base import AnalyzerOptions, Flaw

if TYPE_CHECKING:  # the protocol names plotting types, and needs none of them
    import xarray as xr
    from matplotlib.figure import FigureBase


class Analyzer(ABC):
    """Base of all analyzers. One file each, registered with `@attndyn.registry.analyzer("name")`.

    Attributes:
        name: set by the registering decorator.
        Options: Pydantic class of the analyzer's options in a spec, with `kind: Literal["name"]`.
        requires: names of the probes whose groups `analyze` reads; a spec without them is refused. A tuple
            among them names probes of which one is enough, what is read if there are several first.
        title: a few words for the heading of its figure.
        whole_run: whether one figure is to show all settings of a run that varies values. The report
            otherwise draws one for each, giving `draw` the replicas of one setting only.
        numbers: names of variables over `replica` that the report shows as a table, median and 10-90 % range
            over the seeds of a setting, a row for every label of their other dimensions; true and false are
            counted, of a curve the last record is shown.
        height: of its figure in inches, the width being that of a page.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    Options: ClassVar[type[AnalyzerOptions]]
    requires: ClassVar[tuple[str | tuple[str, ...], ...]] = ()
    whole_run: ClassVar[bool] = False
    numbers: ClassVar[tuple[str, ...]] = ()
    height: ClassVar[float] = 5.0

    def __init__(self, options: AnalyzerOptions):
        self.options = options

    def check(self) -> Iterator[Flaw]:
        """What the options name and this machine does not have, such as a file; asked before a run begins.

        Nothing by default. Paths are places in the options.
        """
        return iter(())

    @abstractmethod
    def analyze(self, trajectory: xr.DataTree) -> xr.Dataset:
        """Diagnostics of a trajectory (docs/trajectory.md).

        Every variable has `long_name`, `units` (`1` where it has none) and `symbol` where the paper has one.
        """

    @abstractmethod
    def draw(self, result: xr.Dataset, trajectory: xr.DataTree, figure: FigureBase) -> None:
        """Draw `result` into an empty figure or subfigure: labelled axes with units, tokens named."""
