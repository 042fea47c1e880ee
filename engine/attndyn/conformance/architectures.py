"""The checks of an architecture; each is given a `Bench`: the architecture with one option set."""

from __future__ import annotations

import numbers
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from attndyn.backend.base import Backend
from attndyn.backend.numpy_backend import NumpyBackend
from attndyn.conformance.bench import (
    COUNTS,
    D_MODEL,
    Bench,
    Evaluation,
    Setting,
    arrays,
    each_array,
    proportional,
)
from attndyn.conformance.diagnosis import deviation, gradient_fault, replica_fault, same
from attndyn.conformance.faults import Check, Failure, Fault, blame
from attndyn.conformance.gradients import STEP
from attndyn.conformance.strict import DeviceArray, StrictBackend
from attndyn.data.contexts import REPRESENTATIONS, Contexts
from attndyn.layers.parameters import Parameters
from attndyn.spec.base import NormalInit

#: names that a trajectory has for something else
RESERVED = {"replica", "step", "time", "seed", "pi", "transition", "count"}
#: replicas evaluated at once for difference quotients
CHUNK = 128
#: no check begins from the initial parameters
FIXED: dict[str, Any] = {"d_model": D_MODEL, "init": NormalInit()}


def declaration(bench: Bench) -> Iterator[Failure]:
    """Parameters, with the sizes that their dimensions have everywhere, representations and cost."""
    sizes: dict[str, int] = {
        "token": bench.sizes.d_vocab,
        "next_token": bench.sizes.d_vocab,
        "model": bench.options.d_model,
        "position": bench.sizes.n_ctx,
    }
    names = [parameter.name for parameter in bench.declared]
    if not names or len(set(names)) < len(names):
        yield Failure(Fault.DECLARATION, "parameters", f"are {names}: at least one, each name once")
    for parameter in bench.declared:
        subject = f"parameter {parameter.name}"
        if RESERVED & {parameter.name, *parameter.dims} or not parameter.long_name:
            detail = f"needs a long_name, and no name among {', '.join(sorted(RESERVED))}"
            yield Failure(Fault.DECLARATION, subject, detail)
        if len(parameter.dims) != len(parameter.shape) or len(set(parameter.dims)) < len(parameter.dims):
            detail = f"has dims {parameter.dims} for the shape {parameter.shape}: a name for each axis"
            yield Failure(Fault.DECLARATION, subject, detail)
            continue
        expected = tuple(sizes.setdefault(d, n) for d, n in zip(parameter.dims, parameter.shape, strict=True))
        if expected != parameter.shape:
            swapped = sorted(expected) == sorted(parameter.shape)
            detail = f"has shape {parameter.shape}; its dims {parameter.dims} have the sizes {expected}"
            yield Failure(Fault.SWAPPED_AXES if swapped else Fault.SHAPE, subject, detail)
    yield from _representations(bench)


def _representations(bench: Bench) -> Iterator[Failure]:
    for positions in ("last", "all"):
        claimed = bench.reference.representations(positions)
        if not claimed or not set(claimed) <= set(REPRESENTATIONS):
            detail = f"with the loss at {positions} are {claimed}; allowed: {', '.join(REPRESENTATIONS)}"
            yield Failure(Fault.DECLARATION, "representations", detail)
        for representation in claimed:
            cost = bench.reference.cost(representation, bench.sizes.n_ctx, bench.sizes.n_contexts, 1)
            if not isinstance(cost, numbers.Real) or not 0 < cost < np.inf:
                yield Failure(Fault.DECLARATION, f"cost of {representation}", f"is {cost}; a positive number")


def shapes(bench: Bench) -> Iterator[Failure]:
    """Shapes of the loss, of every gradient and of the attention, as declared; nothing missing."""
    declared = {d: n for p in bench.declared for d, n in zip(p.dims, p.shape, strict=True)}
    for setting in bench.settings:
        contexts = bench.contexts(setting)
        yield from _shape_faults(bench, bench.evaluate(bench.flat, contexts))
        found = bench.attention(bench.flat, contexts)
        # layers and heads are as many as parameters have; without such parameters as there are in the map
        _, n_layers, _, n_heads, *_ = found.shape if found.ndim == 6 else (0, 1, 0, 1)
        n_sites = bench.sizes.d_vocab if contexts.keys is None else bench.sizes.n_ctx
        n_contexts = 1 if setting.representation == "population" else bench.sizes.n_contexts
        layers_heads = declared.get("layer", n_layers), declared.get("head", n_heads)
        wanted = (bench.sizes.n_replicas, layers_heads[0], n_contexts, layers_heads[1], n_sites, n_sites)
        if found.shape != wanted:
            detail = f"has shape {found.shape}, expected {wanted} (R, layer, B, head, query, key)"
            yield Failure(Fault.SHAPE, "attention", detail)


def _shape_faults(bench: Bench, found: Evaluation) -> Iterator[Failure]:
    n_replicas = bench.sizes.n_replicas
    names = {parameter.name for parameter in bench.declared}
    for name in sorted(names - found.gradients.keys()):
        yield Failure(Fault.MISSING_TERM, f"gradient of {name}", "is not returned")
    for name in sorted(found.gradients.keys() - names):
        yield Failure(Fault.DECLARATION, f"gradient of {name}", "is returned; no such parameter is declared")
    wanted = {f"gradient of {p.name}": (n_replicas, *p.shape) for p in bench.declared}
    for subject, array in found.parts().items():
        shape = (n_replicas,) if subject == "loss" else wanted.get(subject, array.shape)
        if array.shape == shape:
            continue
        detail = f"has shape {array.shape}, expected {shape}"
        if array.ndim == 0 or len(array) != n_replicas:
            yield Failure(Fault.LOST_REPLICA, subject, detail)
        else:
            swapped = sorted(array.shape) == sorted(shape)
            yield Failure(Fault.SWAPPED_AXES if swapped else Fault.SHAPE, subject, detail)


def gradients(bench: Bench) -> Iterator[Failure]:
    """Every gradient against central differences in float64."""
    for setting in bench.settings:
        contexts = each_array(bench.contexts(setting), lambda array: array[1:2])
        flat = bench.flat[1:2]
        found = bench.evaluate(flat, contexts)
        near_by, farther = (
            Parameters(bench.declared, _difference_quotients(bench, flat, contexts, step))
            for step in (STEP, 1.5 * STEP)
        )
        rounding = 16 * np.finfo(np.float64).eps * max(1.0, float(np.abs(found.loss).max())) / STEP
        for parameter in bench.declared:
            gradient = found.gradients.get(parameter.name)
            if gradient is None or gradient.shape != (1, *parameter.shape):
                continue  # another check says so
            expected = near_by[parameter.name][0]
            # where scores are huge, as beside a masked key, or a unit is about to switch, a quotient is worth
            # less; two of them tell how much, and a gross fault shows all the same
            noise = 4 * np.abs(expected - farther[parameter.name][0]).max()
            floor = max(rounding, min(noise, 1e-2 * np.abs(expected).max()))
            fault = gradient_fault(parameter.name, parameter.dims, gradient[0], expected, floor)
            if fault:
                yield fault


def _difference_quotients(bench: Bench, flat: np.ndarray, contexts: Contexts, step: float) -> np.ndarray:
    """Gradient of the loss `(1, P)`: central differences, with a replica for each shifted entry."""
    n = flat.shape[1]
    shifted = np.concatenate([flat + step * np.eye(n), flat - step * np.eye(n)])
    loss = _losses(bench, shifted, contexts, CHUNK)
    # only if replicas are independent is that the same as one after the other
    some = [0, n, len(shifted) - 1]
    if not same(loss[some], _losses(bench, shifted[some], contexts, 1)):
        loss = _losses(bench, shifted, contexts, 1)
    return ((loss[:n] - loss[n:]) / (2 * step))[None]


def _losses(bench: Bench, rows: np.ndarray, contexts: Contexts, chunk: int) -> np.ndarray:
    """Loss `(N,)` of the same contexts at parameters `(N, P)`, so many at once; NaN where some are lost."""
    losses = np.full(len(rows), np.nan)
    for start in range(0, len(rows), chunk):
        part = rows[start : start + chunk]
        repeated = each_array(contexts, partial(np.repeat, repeats=len(part), axis=0))
        loss = np.ravel(bench.evaluate(part, repeated).loss)
        losses[start : start + chunk] = loss if len(loss) == len(part) else np.nan
    return losses


def replicas(bench: Bench) -> Iterator[Failure]:
    """A replica's results do not depend on those beside it."""
    n_replicas = bench.sizes.n_replicas
    for setting in bench.settings:
        contexts = bench.contexts(setting)
        together = bench.evaluate(bench.flat, contexts).parts()
        together["attention"] = bench.attention(bench.flat, contexts)
        alone = []
        for r in range(n_replicas):
            flat, own = bench.flat[r : r + 1], contexts.of(r)
            alone.append(bench.evaluate(flat, own).parts() | {"attention": bench.attention(flat, own)})
        for subject, found in together.items():
            parts = [a[subject] for a in alone if subject in a]
            fault = replica_fault(subject, found, np.concatenate([np.atleast_1d(p) for p in parts]))
            if fault:
                yield fault


def exactness(bench: Bench) -> Iterator[Failure]:
    """All representations that are claimed exact give the same loss and gradients."""
    for positions in ("last", "all"):
        claimed = bench.reference.representations(positions)
        finite = [r for r in claimed if r != "population"]
        sampled = {r: bench.contexts(Setting(r, positions, "sampled")) for r in finite}
        yield from _agree(bench, bench.flat, sampled, f"loss at {positions}")
        limit = bench.resized(d_vocab=len(COUNTS), n_ctx=sum(COUNTS), n_replicas=1)
        forms = {r: contexts for r, contexts in proportional(positions).items() if r in claimed}
        yield from _agree(limit, limit.flat, forms, f"loss at {positions}, counts in proportion to π")


def _agree(bench: Bench, flat: np.ndarray, forms: dict[str, Contexts], where: str) -> Iterator[Failure]:
    found = {name: bench.evaluate(flat, contexts).parts() for name, contexts in forms.items()}
    # positions are the definition; what is not exact differs from them
    order = sorted(found, key=REPRESENTATIONS.index, reverse=True)
    for name in order[1:]:
        for subject, expected in found[order[0]].items():
            if not same(found[name][subject], expected):
                by = deviation(found[name][subject], expected)
                detail = f"differs {by} between the representations {name} and {order[0]} ({where})"
                yield Failure(Fault.NOT_EXACT, subject, detail)
                break  # where the loss differs, so do its gradients


def purity(bench: Bench) -> Iterator[Failure]:
    """On the device stand-in no array leaves the device, none goes up, and the numbers are NumPy's."""
    plain, strict = Backend(np), StrictBackend()
    on_host, on_device = bench.build(plain), bench.build(strict)
    for setting in bench.settings:
        contexts = bench.contexts(setting)
        expected = bench.evaluate(bench.flat, contexts, on_host).parts()
        expected["attention"] = bench.attention(bench.flat, contexts, on_host)
        try:
            yield from _resident(bench, on_device, contexts)
            found = bench.evaluate(bench.flat, contexts, on_device).parts()
            found["attention"] = bench.attention(bench.flat, contexts, on_device)
        except TypeError as error:
            yield Failure(Fault.HOST_LEAK, "step", f"mixes host and device: {blame(error, bench.source)}")
            return
        for subject, array in expected.items():
            if not same(found[subject], array):
                detail = f"differs {deviation(found[subject], array)} from NumPy's on the device stand-in"
                yield Failure(Fault.HOST_LEAK, subject, detail)


def _resident(bench: Bench, architecture: Any, contexts: Contexts) -> Iterator[Failure]:
    """Results live on the device, and a step moves nothing to it or off it."""
    backend = architecture.backend
    module = backend.xp
    parameters = Parameters(bench.declared, backend.asarray(bench.flat))
    on_device = contexts.on(backend)
    architecture.loss_and_gradients(parameters, on_device)  # what is uploaded once is no matter
    before = module.uploads, module.downloads
    loss, found = architecture.loss_and_gradients(parameters, on_device)
    results = {"loss": loss} | {f"gradient of {name}": g for name, g in found.items()}
    moved = module.uploads - before[0], module.downloads - before[1]
    results["attention"] = architecture.attention(parameters, on_device)
    for subject, array in results.items():
        if not isinstance(array, DeviceArray):
            yield Failure(Fault.HOST_LEAK, subject, f"is on the host ({type(array).__name__})")
    if any(moved):
        detail = f"moves {moved[0]} arrays to the device and {moved[1]} off it, every time"
        yield Failure(Fault.HOST_LEAK, "step", detail)


def dtype(bench: Bench) -> Iterator[Failure]:
    """float32 in, float32 out; float64 in, float64 out."""
    for precision in ("float64", "float32"):
        architecture = bench.build(NumpyBackend(precision))
        for setting in bench.settings:
            contexts = bench.contexts(setting)
            found = bench.evaluate(bench.flat, contexts, architecture).parts()
            found["attention"] = bench.attention(bench.flat, contexts, architecture)
            for subject, array in found.items():
                if array.dtype != precision:
                    yield Failure(Fault.DTYPE, subject, f"is {array.dtype} where parameters are {precision}")


def repeatable(bench: Bench) -> Iterator[Failure]:
    """The same inputs give the same bits, whatever was computed before, and are left as they were."""
    fresh, other = bench.build(NumpyBackend()), bench.build(NumpyBackend())
    for setting in bench.settings:
        contexts = bench.contexts(setting)
        yield from _unmodified(bench, contexts)
        first, second = (bench.evaluate(bench.flat, contexts, bench.build(NumpyBackend())) for _ in range(2))
        # an instance that has seen something else in between
        bench.evaluate(bench.flat + 1, bench.contexts(setting, step=1), fresh)
        bench.attention(bench.flat + 1, bench.contexts(setting, step=1), fresh)
        after, again = (bench.evaluate(bench.flat, contexts, one) for one in (fresh, other))
        for subject, array in first.parts().items():
            if not np.array_equal(second.parts()[subject], array, equal_nan=True):
                yield Failure(Fault.RANDOM, subject, "differs between two calls with the same inputs")
            elif not all(np.array_equal(e.parts()[subject], array, equal_nan=True) for e in (after, again)):
                yield Failure(Fault.HIDDEN_STATE, subject, "depends on what was computed before")


def _unmodified(bench: Bench, contexts: Contexts) -> Iterator[Failure]:
    parameters = Parameters(bench.declared, bench.flat.copy())
    given = each_array(contexts, np.array)
    for call in (bench.reference.loss_and_gradients, bench.reference.attention):
        call(parameters, given)
        for name, view in parameters.items():
            if not np.array_equal(view, Parameters(bench.declared, bench.flat)[name]):
                yield Failure(Fault.INPUT_MODIFIED, f"parameter {name}", "is changed by the call")
        for name, array in arrays(given).items():
            if not np.array_equal(array, arrays(contexts)[name]):
                yield Failure(Fault.INPUT_MODIFIED, f"contexts.{name}", "is changed by the call")


def attention(bench: Bench) -> Iterator[Failure]:
    """Rows of the attention are weights that sum to 1."""
    for setting in bench.settings:
        found = bench.attention(bench.flat, bench.contexts(setting))
        if np.allclose(found.sum(axis=-1), 1, rtol=1e-12, atol=1e-12) and found.min() >= 0:
            continue
        if np.allclose(found.sum(axis=-2), 1, rtol=1e-12, atol=1e-12):
            yield Failure(Fault.SWAPPED_AXES, "attention", "has columns that sum to 1: (…, query, key) it is")
        else:
            worst = np.abs(found.sum(axis=-1) - 1).max()
            detail = f"has rows whose sum is off 1 by {worst:.2g}, or negative weights"
            yield Failure(Fault.NOT_NORMALISED, "attention", detail)


SMALL = {"n_contexts": 1, "n_ctx": 1, "d_vocab": 2}


def smallest(bench: Bench) -> Iterator[Failure]:
    """One context, contexts of one token, two tokens, and all of that: finite, and of the right shapes."""
    for changes in ({"n_contexts": 1}, {"n_ctx": 1}, {"d_vocab": 2}, SMALL):
        small = bench.resized(**changes)
        for setting in small.settings:
            contexts = small.contexts(setting)
            found = small.evaluate(small.flat, contexts)
            yield from _shape_faults(small, found)
            where = " and ".join(f"{name} = {size}" for name, size in changes.items())
            for subject, array in (
                *found.parts().items(),
                ("attention", small.attention(small.flat, contexts)),
            ):
                if not np.isfinite(array).all():
                    yield Failure(Fault.NOT_FINITE, subject, f"has entries that are not, with {where}")


CHECKS: dict[str, Check] = {
    "declarations are true": declaration,
    "shapes": shapes,
    "repeatable, inputs untouched": repeatable,
    "replicas are independent": replicas,
    "gradients": gradients,
    "claimed representations agree": exactness,
    "nothing leaves the device": purity,
    "dtype is kept": dtype,
    "attention rows sum to 1": attention,
    "smallest sizes": smallest,
}
