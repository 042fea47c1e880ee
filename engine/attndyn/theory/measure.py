"""What a run measured of the quantities that the theory predicts, each on a stated window of its record.

Rates are slopes of the logarithm of a projection that grows by itself in the linear regime; plateaus are read
where W_0 moves least between the onsets of condensation and focus; onsets are crossings of the levels of
`onsets`, between two records along a straight line of logarithms. What a record does not show is NaN.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import xarray as xr

from attndyn.theory.manifold import Manifold, end_of_flow
from attndyn.theory.onsets import SCORE_LEVEL, SHARE
from attndyn.theory.opening import opening
from attndyn.theory.plateau import Plateau, first_plateau, leading_mode
from attndyn.theory.setting import Setting

#: the least number of records that a rate is fitted to
MIN_RECORDS = 4
#: σ is fitted while what grows is below this share of the plateau
SMALL = 0.02
#: κ is fitted while W_0 is as close to the plateau, and the scores of attention are as small
CLOSE, QUIET = 2e-3, 1e-3
AXES = ("step", "layer", "head", "token", "model", "d_head", "next_token")


@dataclass(frozen=True, eq=False)
class Record:
    """One replica of a trajectory.

    Attributes:
        time: of each record of the parameters `(step,)`.
        weights: by name, `(step, rows, columns)`: W_0, W_1, W_Q, W_K; empty if they were not recorded.
        loss_time: of each record of the loss `(step,)`.
        loss: nats.
    """

    time: np.ndarray
    weights: Mapping[str, np.ndarray]
    loss_time: np.ndarray
    loss: np.ndarray

    @classmethod
    def of(cls, trajectory: xr.DataTree, replica: int) -> Record:
        """A replica of a run; where an optimizer, such as Adam, has no time, steps stand for it."""
        time, arrays = _of_group(trajectory, "parameters", ("W_0", "W_1", "W_Q", "W_K"), replica)
        weights = {name: array.reshape(len(array), *array.shape[-2:]) for name, array in arrays.items()}
        loss_time, losses = _of_group(trajectory, "loss", ("loss",), replica)
        return cls(time, weights, loss_time, losses.get("loss", np.empty(0)))


@dataclass(frozen=True, eq=False)
class Measurement:
    """The measured counterpart of each formula, of a setting and a record of it."""

    setting: Setting
    record: Record

    def value(self, name: str, token: int | None = None) -> float:
        """The measured value of the formula of that name; NaN where the record does not show it."""
        if not self.record.weights and name != "loss_origin":
            return np.nan
        found = np.atleast_1d(getattr(self, name, np.nan))
        return float(found[token or 0])

    @cached_property
    def plateau(self) -> Plateau:
        """The predicted plateau, which says where to look."""
        return first_plateau(self.setting)

    @cached_property
    def size(self) -> np.ndarray:
        """W_0 along its rows' sizes on the plateau, as a share of what it is there `(step,)`.

        NaN where the plateau is the origin.
        """
        u = self.plateau.u
        if not u.any():
            return np.full(len(self.record.time), np.nan)
        return np.asarray(np.linalg.norm(u @ self.record.weights["W_0"], axis=1) / (u @ u))

    @cached_property
    def scores(self) -> np.ndarray:
        """‖Z‖, the Frobenius norm of the scores of attention `(step,)`."""
        w = self.record.weights
        queries, keys = w["W_0"] @ w["W_Q"], w["W_0"] @ w["W_K"]
        return np.asarray(
            self.setting.score_scale * np.linalg.norm(queries @ keys.swapaxes(1, 2), axis=(1, 2))
        )

    @cached_property
    def growing(self) -> np.ndarray:
        """Size of the combination of W_0 and W_1 that grows from the origin `(step,)`."""
        _, left, right = leading_mode(self.setting)
        w = self.record.weights
        return np.asarray(np.linalg.norm(left @ w["W_0"] + w["W_1"] @ right, axis=1) / 2)

    @property
    def condensation_rate(self) -> float:
        """Slope of log of what grows, until it has reached a fiftieth of the plateau."""
        late = self.growing > SMALL * self.plateau.norm
        until = int(np.argmax(late)) if late.any() else len(late)
        return _slope(self.record.time[:until], self.growing[:until])

    @property
    def focus_rate(self) -> float:
        """Slope of log of the growing combination of W_Q and W_K along W_0, on the plateau."""
        there = (np.abs(self.size - 1) < CLOSE) & (self.scores < QUIET)
        if not there.any():
            return np.nan
        sign = -1.0 if self.plateau.kappa < 0 else 1.0
        w_0 = self.record.weights["W_0"][there]
        w = self.plateau.u @ w_0
        w /= np.linalg.norm(w, axis=1, keepdims=True)
        heads = self.record.weights["W_Q"][there] + sign * self.record.weights["W_K"][there]
        return _slope(self.record.time[there], np.linalg.norm(np.einsum("tm,tmh->th", w, heads), axis=1))

    @property
    def opening_rate(self) -> float:
        """Growth of the new direction while W_0 is close to where the rank-one flow ends, see `opening`."""
        theta, weights = end_of_flow(self.setting), self.record.weights
        return opening(Manifold(self.setting), theta, self.record.time, weights["W_0"], weights["W_1"]).rate

    @cached_property
    def flattest(self) -> int | None:
        """The record on the plateau at which W_0 moves least; None if the run has not been there.

        With a residual none is: such a run leaves faster than it approaches, and passes at a distance.
        """
        if self.setting.residual:
            return None
        after = np.flatnonzero(self.size > SHARE)
        quiet = np.flatnonzero(self.scores > SCORE_LEVEL)
        until = quiet[0] if len(quiet) else len(self.size)
        if not len(after) or until - after[0] < 3:
            return None
        time, w_0 = self.record.time[after[0] : until], self.record.weights["W_0"][after[0] : until]
        speed = np.linalg.norm(np.diff(w_0, axis=0), axis=(1, 2)) / np.diff(time)
        return int(after[0] + np.argmin(speed))

    @property
    def plateau_norm(self) -> float:
        """Frobenius norm of W_0 on the plateau."""
        return float(np.linalg.norm(self.plateau_row_norm))

    @property
    def plateau_row_norm(self) -> np.ndarray:
        """Norms of the rows of W_0 there `(token,)`."""
        if self.flattest is None:
            return np.full(self.setting.d_vocab, np.nan)
        return np.asarray(np.linalg.norm(self.record.weights["W_0"][self.flattest], axis=1))

    @property
    def embedding_scale(self) -> float:
        """|w|: the part of W_0 along π, over ‖π‖."""
        pi = self.setting.pi
        if self.flattest is None:
            return np.nan
        return float(np.linalg.norm(pi @ self.record.weights["W_0"][self.flattest]) / (pi @ pi))

    @property
    def loss_plateau(self) -> float:
        """The loss at the time at which W_0 moves least."""
        if self.flattest is None or not len(self.record.loss):
            return np.nan
        return float(np.interp(self.record.time[self.flattest], self.record.loss_time, self.record.loss))

    @property
    def loss_origin(self) -> float:
        """The first loss on record."""
        return float(self.record.loss[0]) if len(self.record.loss) else np.nan

    @property
    def onset_condensation(self) -> float:
        """When W_0 along its plateau reaches half of it."""
        return _reached(self.record.time, self.size, SHARE)

    @property
    def onset_focus(self) -> float:
        """When the scores reach the level."""
        return _reached(self.record.time, self.scores, SCORE_LEVEL)

    @property
    def onset_dilution(self) -> float:
        """When the second most frequent token's embedding, once on the plateau, has fallen to half of it."""
        second = int(np.argsort(-self.setting.pi, kind="stable")[1])
        w_0, u = self.record.weights["W_0"], self.plateau.u
        # the leading direction of W_0, on the side on which the plateau lies
        w = np.linalg.svd(w_0, full_matrices=False)[2][:, 0]
        w *= np.sign(np.einsum("tm,tm->t", u @ w_0, w))[:, None]
        share = np.einsum("tm,tm->t", w_0[:, second], w) / u[second]
        been = np.flatnonzero(share > (1 + SHARE) / 2)
        if not len(been):
            return np.nan
        time, share = self.record.time[been[0] :], share[been[0] :]
        fallen = np.flatnonzero(share <= SHARE)
        if not len(fallen):
            return np.nan
        i = fallen[0]
        part = (share[i - 1] - SHARE) / (share[i - 1] - share[i])
        return float(time[i - 1] + part * (time[i] - time[i - 1]))


def _of_group(
    trajectory: xr.DataTree, group: str, names: tuple[str, ...], replica: int
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Times `(step,)` and those variables of a probe that are there `(step, ...)`, while they are finite."""
    if group not in trajectory.children:
        return np.empty(0), {}
    found = trajectory[group].to_dataset().isel(replica=replica)
    time = found["time"] if "time" in found.coords else found["step"]
    order = [dim for dim in AXES if dim in found.dims]
    arrays = {
        name: found[name].transpose(*(dim for dim in order if dim in found[name].dims)).values.astype(float)
        for name in names
        if name in found
    }
    finite = np.array([np.isfinite(array.reshape(len(array), -1)).all(axis=1) for array in arrays.values()])
    until = int(np.argmin(finite.all(axis=0))) if finite.size and not finite.all() else len(time)
    return time.values.astype(float)[:until], {name: array[:until] for name, array in arrays.items()}


def _slope(time: np.ndarray, values: np.ndarray) -> float:
    """Slope of log values over time; NaN with too few records or values that do not grow at all."""
    fit = np.isfinite(values) & (values > 0)
    if fit.sum() < MIN_RECORDS:
        return np.nan
    return float(np.polyfit(time[fit], np.log(values[fit]), 1)[0])


def _reached(time: np.ndarray, values: np.ndarray, level: float) -> float:
    """When values first reach a level, along straight lines of their logarithms; NaN if never or at once."""
    above = np.flatnonzero(values >= level)
    if not len(above) or above[0] == 0:
        return np.nan
    i = above[0]
    low, high = np.log(np.maximum(values[i - 1 : i + 1], 1e-300))
    return float(time[i - 1] + (np.log(level) - low) / (high - low) * (time[i] - time[i - 1]))
