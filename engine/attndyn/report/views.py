"""What is drawn together: the replicas of one setting, with the stages of the one that stands for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import xarray as xr

from attndyn.analysis.settings import Setting, of_replicas, replica_names, select, settings
from attndyn.analysis.timeline import replica_spans, representative, stage_names

MAX_SETTINGS = 6

Spans = list[tuple[str, float, float]]


@dataclass(frozen=True)
class View:
    """The replicas of one setting.

    Attributes:
        setting: which they are.
        trajectory: the trajectory of these replicas alone.
        analysis: results by analyzer, of these replicas alone.
        shown: index among them of the replica whose maps are shown and whose stages are shaded.
        shown_name: its seed and setting.
        spans: its stages as (label, start, end) in steps; empty where none are known.
        stage_names: how stages are called that are not called by their label.
    """

    setting: Setting
    trajectory: xr.DataTree
    analysis: Mapping[str, xr.Dataset]
    shown: int
    shown_name: str
    spans: Spans = field(default_factory=list)
    stage_names: Mapping[str, str] = field(default_factory=dict)


def views(trajectory: xr.DataTree, analysis: Mapping[str, xr.Dataset], lost: set[int]) -> list[View]:
    """A view of every setting, of the first `MAX_SETTINGS`.

    Args:
        trajectory: the run's trajectory.
        analysis: results by analyzer.
        lost: indices of the replicas that diverged; shown only where a setting has no other.
    """
    found, names = settings(trajectory), replica_names(trajectory)
    kept = found[:MAX_SETTINGS]
    return [
        _view(trajectory, analysis, lost, at, setting, names, len(found) == 1)
        for at, setting in enumerate(kept)
    ]


def _view(
    trajectory: xr.DataTree,
    analysis: Mapping[str, xr.Dataset],
    lost: set[int],
    at: int,
    setting: Setting,
    names: list[str],
    whole: bool,
) -> View:
    candidates = [replica for replica in setting.replicas if replica not in lost] or list(setting.replicas)
    stages = analysis.get("stages")
    shown = candidates[0] if stages is None else representative(stages, candidates)
    return View(
        setting,
        trajectory if whole else of_replicas(trajectory, setting.replicas),
        {
            name: result if whole else select(result, setting.replicas, at)
            for name, result in analysis.items()
        },
        setting.replicas.index(shown),
        names[shown],
        [] if stages is None else replica_spans(stages, shown),
        {} if stages is None else stage_names(stages.isel(replica=[shown])),
    )
