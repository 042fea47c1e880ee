"""The run loop: all replicas of a spec as one batch along the replica axis."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from attndyn import registry
from attndyn.backend import Array, Backend, get_backend
from attndyn.data.contexts import Contexts
from attndyn.data.source import DataSource
from attndyn.errors import Problem, SpecError, UnusableOption
from attndyn.layers import parameters as parameters_
from attndyn.layers.architecture import Architecture
from attndyn.layers.parameters import Parameter
from attndyn.optim.optimizer import Optimizer, ReplicaGradient
from attndyn.registry import nearest
from attndyn.simulation.probe import Probe, State, cadence
from attndyn.simulation.representation import choose
from attndyn.simulation.sink import Onlooker, Sink
from attndyn.spec import Spec, checks
from attndyn.spec.base import Flaw, Identity
from attndyn.spec.words import printable, spell


@dataclass(frozen=True)
class Outcome:
    """How a run ended: `complete`, `interrupted` or `diverged`, at which step, and where it diverged.

    `diverged_at (R,)` is the step at which a replica's loss was seen to be not finite or above the bound, -1
    if never: it is looked at in every multiple of the backend's `check_every`, and in the last step.
    `reasons` says of replicas, by index, why the optimizer could not carry them on.
    """

    state: str
    step: int
    diverged_at: np.ndarray
    reasons: Mapping[int, str] = field(default_factory=dict)


class _Interrupted(Exception):
    """Ends an update in its midst."""


class Simulation:
    """A spec made ready to run.

    Args:
        spec: a validated spec.
        backend: `auto`, `numpy` or `cupy`.

    Attributes:
        replicas: the spec of every replica, its seed, and the varied values.
        representation: how contexts are represented: the cheapest exact way, or the spec's.
        step: the update that comes next, from 0 to `steps`.

    Raises:
        BackendError: the backend cannot be used.
        SpecError: the spec asks for what is not there: a file, a representation that is not exact.
    """

    def __init__(self, spec: Spec, backend: str | Backend = "auto"):
        self.spec = spec
        dtype = spec.training.dtype
        self.backend = get_backend(backend, dtype) if isinstance(backend, str) else backend
        self.replicas = spec.replicas_expanded()
        specs, seeds = self.replicas.specs, self.replicas.seeds
        self.data = self._made_data()
        architecture_class = registry.get("architecture", spec.model.architecture)
        self.architecture: Architecture = architecture_class(
            spec.model, len(self.data.tokens), spec.data.n_ctx, self.backend
        )
        self.representation = choose(spec, self.data, self.architecture)
        self.parameters = parameters_.initial(self._declared(), [s.model for s in specs], seeds, self.backend)
        self.gradients = self.parameters.with_flat(self.backend.zeros(self.parameters.flat.shape))
        optimizer_class = registry.get("optimizer", spec.optimizer.kind)
        self.optimizer: Optimizer = optimizer_class(
            [s.optimizer for s in specs],
            self.parameters.flat.shape,
            self.steps,
            spec.training.time,
            self.backend,
        )
        self.step = 0
        self.diverged_at = np.full(len(seeds), -1)

    def _made_data(self) -> DataSource:
        """The data source, once what the spec says of its tokens is known to be true."""
        spec = self.spec
        data_class = registry.get("data", spec.data.kind)
        options = [s.data for s in self.replicas.specs]
        try:
            data: DataSource = data_class(options, self.replicas.seeds, spec.training.loss_positions)
            flaws = list(checks.once_read(spec, data.tokens))
        except UnusableOption as error:
            flaws = [Flaw(("data", *error.path), error.message)]
        if flaws:
            raise SpecError(
                Problem(spec.where(flaw.path), spell(flaw.path), printable(flaw.message)) for flaw in flaws
            )
        return data

    def _declared(self) -> tuple[Parameter, ...]:
        """The architecture's parameters, once those that the spec names are known to be among them."""
        declared = self.architecture.parameters
        shapes = {p.name: p.shape for p in declared}
        problems = []
        for name, init in self.spec.model.init.parameters.items():
            path = ("model", "init", "parameters", name)
            where = self.spec.where(path)
            if name not in shapes:
                message = f"no such parameter; {nearest(name, list(shapes))}"
                problems.append(Problem(where, spell(path), message))
            elif isinstance(init, Identity) and len(shapes[name]) < 2:
                problems.append(Problem(where, spell(path), "has one axis only; it has no diagonal"))
        if problems:
            raise SpecError(problems)
        return declared

    @property
    def steps(self) -> int:
        """Number of updates of the whole run."""
        return self.spec.training.steps

    @property
    def progress(self) -> float:
        """Number of updates made, with the share of the one under way."""
        return self.step + self.optimizer.share()

    @cached_property
    def probes(self) -> dict[str, Probe]:
        """The spec's probes, in its order."""
        options = self.spec.probes
        return {name: registry.get("probe", name)(options[name], self) for name in options}

    def contexts(self, step: int) -> Contexts:
        """The contexts of a step, on the device."""
        if self.representation == "population":
            return self._population
        return self.data.batch(step, self.representation).on(self.backend)

    def evaluate(self, step: int) -> Array:
        """The loss `(R,)` on the batch of a step; leaves its gradient in `gradients`."""
        loss, gradients = self.architecture.loss_and_gradients(self.parameters, self.contexts(step))
        for name, view in self.gradients.items():
            view[...] = gradients[name]
        return loss

    def run(self, sinks: Sequence[Sink] = (), interrupted: Callable[[], bool] = lambda: False) -> Outcome:
        """Run from `step` to the end, or until all replicas diverged or `interrupted()` is true.

        A replica that diverges is set to NaN and the others run on; a run in which any did ends as
        `diverged`. Interrupted in the midst of an update, the run is at the state before it.
        """
        due = {name: cadence(probe.options, self.steps) for name, probe in self.probes.items()}
        # overflow and NaN are what the divergence check is for
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            for sink in sinks:
                sink.start(self)
            state = self._loop(sinks, due, interrupted)
        outcome = Outcome(state, self.step, self.diverged_at.copy(), self.optimizer.reasons())
        for sink in sinks:
            sink.finish(self, outcome)
        return outcome

    def _loop(
        self, sinks: Sequence[Sink], due: dict[str, Callable[[int], bool]], interrupted: Callable[[], bool]
    ) -> str:
        gradient = self._watched(sinks, interrupted)
        while True:
            for sink in sinks:
                sink.advance(self)
            if interrupted():
                return "interrupted"
            loss = self.evaluate(self.step)
            fresh = self._newly_diverged(loss)
            last = self.step == self.steps or bool(np.all(self.diverged_at >= 0))
            self._record(sinks, due, loss, last)
            if last:
                return "diverged" if np.any(self.diverged_at >= 0) else "complete"
            try:
                self._update(fresh, gradient)
            except _Interrupted:
                return "interrupted"
            self.step += 1

    def _update(self, fresh: np.ndarray, gradient: ReplicaGradient) -> None:
        """Advance the parameters by one step; those of replicas that have just diverged are NaN after it."""
        flat, before = self.parameters.flat, None
        if fresh.any():
            before = flat.copy()
            # what this step saw is recorded; from here on the replica is NaN, also for an integrator
            flat[...] += self.backend.asarray(np.where(fresh, np.nan, 0.0)[:, None])
        try:
            self.optimizer.advance(flat, self.gradients.flat, self.step, gradient)
        except _Interrupted:
            if before is not None:
                # the run goes on with this step, which is to see again what it has seen
                flat[...] = before
                self.diverged_at[fresh] = -1
            raise

    def _watched(self, sinks: Sequence[Sink], interrupted: Callable[[], bool]) -> ReplicaGradient:
        """The gradient for integrators, which may take long between two steps of the run."""
        onlookers = [sink for sink in sinks if isinstance(sink, Onlooker)]

        def gradient(replica: int, parameters: np.ndarray) -> np.ndarray:
            if interrupted():
                raise _Interrupted
            for sink in onlookers:
                sink.during(self)
            return self._replica_gradient(replica, parameters)

        return gradient

    def _record(
        self, sinks: Sequence[Sink], due: dict[str, Callable[[int], bool]], loss: Array, last: bool
    ) -> None:
        names = [name for name in self.probes if last or due[name](self.step)]
        if not names:
            return
        state = State(self.step, self.parameters, self.gradients, loss)
        for name in names:
            values = self.probes[name].measure(state)
            for sink in sinks:
                sink.record(name, self.step, values)

    def _newly_diverged(self, loss: Array) -> np.ndarray:
        """Replicas `(R,)` whose loss is now not finite or above the bound, and was not before."""
        if self.step % self.backend.check_every and self.step != self.steps:
            return np.zeros(len(self.diverged_at), dtype=bool)
        # written so that NaN counts as diverged
        beyond = ~(self.backend.to_host(loss) <= self.spec.training.max_loss)
        fresh = beyond & (self.diverged_at < 0)
        self.diverged_at[fresh] = self.step
        return fresh

    def _replica_gradient(self, replica: int, parameters: np.ndarray) -> np.ndarray:
        """Gradient of one replica's loss anywhere; host arrays, for integrators that live on the host."""
        flat = self.backend.asarray(parameters[None])
        one = self.parameters.with_flat(flat)
        _, gradients = self.architecture.loss_and_gradients(one, self._replica_population[replica])
        # in the order of the flat parameters, whatever the architecture's
        flat_gradient = self.backend.xp.concatenate([gradients[name].reshape(-1) for name in one])
        return self.backend.to_host(flat_gradient)

    @cached_property
    def _population(self) -> Contexts:
        return self.data.batch(0, "population").on(self.backend)

    @cached_property
    def _replica_population(self) -> list[Contexts]:
        return [self._population.of(r) for r in range(len(self.replicas.seeds))]

    # -- checkpoints --------------------------------------------------------------------------------------

    def checkpoint(self) -> dict[str, np.ndarray]:
        """All that is needed to go on from `step`: host arrays."""
        optimizer = {
            f"optimizer.{k}": np.array(self.backend.to_host(v)) for k, v in self.optimizer.state().items()
        }
        return {
            "step": np.array(self.step),
            "parameters": np.array(self.backend.to_host(self.parameters.flat)),
            "diverged_at": self.diverged_at.copy(),
        } | optimizer

    def restore(self, checkpoint: dict[str, np.ndarray]) -> None:
        """Go on from where `checkpoint` was taken: the run continues as if it had never stopped.

        Raises:
            ValueError: it is not one of this spec; nothing is changed.
        """
        for name, own in self.checkpoint().items():
            found = checkpoint.get(name)
            if found is None:
                raise ValueError(f"it has no '{name}'")
            # assignment would stretch a wrong shape and convert a wrong type without a word
            if (found.shape, found.dtype) != (own.shape, own.dtype):
                raise ValueError(
                    f"'{name}' is {found.dtype} {found.shape}; needed is {own.dtype} {own.shape}"
                )
        if not 0 <= checkpoint["step"] <= self.steps:
            raise ValueError(f"'step' is {checkpoint['step']}; allowed: 0 to {self.steps}")
        self.step = int(checkpoint["step"])
        self.parameters.flat[...] = self.backend.asarray(checkpoint["parameters"])
        self.diverged_at = checkpoint["diverged_at"].copy()
        prefix = "optimizer."
        state = {k.removeprefix(prefix): v for k, v in checkpoint.items() if k.startswith(prefix)}
        self.optimizer.restore(state)
