"""Fast operations are held to the plain reference: same names, same arguments, same values."""

import inspect

import numpy as np
import pytest

from attndyn.backend.base import Backend
from attndyn.backend.cupy_backend import CupyBackend
from attndyn.backend.numpy_backend import NumpyBackend

PLUMBING = {"asarray", "to_host", "zeros", "map"}


def softmax_case(rng, n):
    with np.errstate(divide="ignore"):
        log_weights = np.log(rng.integers(0, 4, size=(2, n, 1, 7)))
    log_weights[:, 0] = 0.0  # at least one key has a weight
    return {"scores": rng.normal(size=(2, n, 3, 7)), "log_weights": log_weights, "axis": 1}


def softmax_of_rows_case(rng, n):
    """Keys on the last axis; the rows of a map reach from far above to far below one another."""
    scores = rng.normal(size=(2, 3, 7, n)) + 300 * rng.normal(size=(2, 3, 7, 1))
    later = np.arange(n) > np.arange(7)[:, None]
    return {"scores": scores, "log_weights": np.where(later, -np.inf, 0.0)[None, None], "axis": 3}


def distribution(rng, shape, axis):
    p = rng.random(shape)
    return p / p.sum(axis=axis, keepdims=True)


def tokens(rng, v):
    return rng.integers(0, v, (3, 11))


def distributions(rng, v):
    return distribution(rng, (3, v, 11), 1)


def adam_case(rng):
    state = {k: rng.normal(size=(3, 11)) for k in ("parameters", "gradients", "first")}
    scalars = ("rate", "beta1", "beta2", "eps", "correction1", "correction2")
    return state | {"second": rng.random((3, 11))} | {k: rng.random((3, 1)) for k in scalars}


# every operation with arguments of sizes all different, for a few and for many (n) tokens
CASES = {
    "weighted_softmax": [
        *(lambda rng, n=n: softmax_case(rng, n) for n in (1, 5, 40)),
        *(lambda rng, n=n: softmax_of_rows_case(rng, n) for n in (1, 5, 40)),
    ],
    "softmax_backward": [
        lambda rng, n=n: {
            "probabilities": distribution(rng, (2, n, 3, 7), 1),
            "d_probabilities": rng.normal(size=(2, n, 3, 7)),
            "axis": 1,
        }
        for n in (5, 40)
    ]
    + [
        lambda rng: {
            "probabilities": distribution(rng, (2, 3, 7, 5), 3),
            "d_probabilities": rng.normal(size=(2, 3, 7, 5)),
            "axis": 3,
        }
    ],
    "take_columns": [
        lambda rng, n=n: {"table": rng.normal(size=(3, 5, n)), "index": rng.integers(0, n, (3, 11))}
        for n in (4, 50)
    ],
    "add_columns": [
        lambda rng, n=n, sites=sites: {
            "values": rng.normal(size=(3, 5, sites)),
            "index": rng.integers(0, n, (3, sites)),
            "n": n,
        }
        for n in (4, 50)
        for sites in (11, 300)
    ],
    "cross_entropy": [
        lambda rng, v=v, targets=targets, shared=shared: {
            "logits": 3 * rng.normal(size=(3, v, 11)),
            "targets": targets(rng, v),
            "weights": np.full((3, 1), 1 / 11) if shared else distribution(rng, (3, 11), 1),
        }
        for v in (4, 50)
        for targets in (tokens, distributions)
        for shared in (True, False)
    ],
    "adam_update": [adam_case],
}


def operations(cls):
    return {
        name for name, f in inspect.getmembers(cls, inspect.isfunction) if not name.startswith("_")
    } - PLUMBING


def test_every_operation_has_cases():
    assert operations(Backend) == set(CASES)


@pytest.mark.parametrize("backend", [NumpyBackend, CupyBackend])
def test_no_operation_of_its_own(backend):
    for name in operations(backend):
        mine, reference = (inspect.signature(getattr(b, name)) for b in (backend, Backend))
        assert list(mine.parameters) == list(reference.parameters), name


def run(backend, name, arguments):
    """All that an operation returns or changes, as arrays."""
    arguments = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in arguments.items()}
    result = getattr(backend, name)(**arguments)
    returned = result if isinstance(result, tuple) else () if result is None else (result,)
    return [*returned, *(v for v in arguments.values() if isinstance(v, np.ndarray))]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("name", "case"), [(name, c) for name, cases in CASES.items() for c in cases])
def test_fast_equals_reference(name, case, dtype):
    arguments = {
        k: v.astype(dtype) if isinstance(v, np.ndarray) and v.dtype.kind == "f" else v
        for k, v in case(np.random.default_rng(1)).items()
    }
    reference, fast = (run(b, name, arguments) for b in (Backend(np, dtype), NumpyBackend(dtype)))
    tolerance = 1e-13 if dtype == "float64" else 2e-5
    assert len(reference) == len(fast)
    for expected, found in zip(reference, fast, strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def test_weighted_softmax_is_softmax_with_repeated_keys():
    """Counts n_j are n_j equal keys: the identity behind the reduction."""
    rng = np.random.default_rng(2)
    scores, counts = rng.normal(size=5), np.array([3, 0, 1, 2, 4])
    with np.errstate(divide="ignore"):
        weighted = NumpyBackend().weighted_softmax(scores, np.log(counts), axis=0)
    repeated = np.exp(np.repeat(scores, counts))
    key = np.repeat(np.arange(5), counts)
    expected = np.bincount(key, repeated / repeated.sum(), minlength=5)
    np.testing.assert_allclose(weighted, expected, rtol=1e-14, atol=1e-16)


def test_softmax_of_large_scores_is_finite():
    found = NumpyBackend().weighted_softmax(np.array([1e4, -1e4, 9.99e3]), np.zeros(3), axis=0)
    np.testing.assert_allclose(found, [1 / (1 + np.exp(-10.0)), 0.0, 1 / (1 + np.exp(10.0))], rtol=1e-12)


def test_softmax_does_not_depend_on_far_rows_beside_it():
    """Rows are shifted together; each keeps all its digits, however far the others are above it."""
    scores = np.random.default_rng(3).normal(size=(1, 4, 6))
    alone = [NumpyBackend().weighted_softmax(scores[:, [row]], np.zeros(1), axis=2) for row in range(4)]
    apart = scores + np.array([0.0, -300.0, -800.0, -5000.0])[:, None]
    together = NumpyBackend().weighted_softmax(apart, np.zeros(1), axis=2)
    np.testing.assert_allclose(together, np.concatenate(alone, axis=1), rtol=1e-11)
    masked = NumpyBackend("float32").weighted_softmax(
        np.zeros((1, 1, 3), np.float32), np.full(3, -1e9, np.float32), axis=2
    )
    np.testing.assert_allclose(masked, 1 / 3, rtol=1e-6)


@pytest.mark.parametrize("backend", [Backend(np), NumpyBackend(threads=1), NumpyBackend(threads=3)])
def test_map_keeps_order_and_passes_errors_on(backend):
    assert list(backend.map(lambda n: n * n, range(20))) == [n * n for n in range(20)]
    with pytest.raises(ZeroDivisionError):
        list(backend.map(lambda n: 1 / n, [1, 0]))


def test_map_keeps_what_is_ignored():
    """Overflow is silenced in the run loop; on another thread NumPy would begin with its defaults."""
    with np.errstate(over="ignore"):
        found = list(NumpyBackend(threads=2).map(np.exp, [np.array([1e4])] * 3))
    assert np.isinf(found).all()


def test_map_takes_the_blas_threads_for_its_own():
    backend = NumpyBackend(threads=2)

    def blas_threads(_):
        return [b["num_threads"] for b in backend._blas.info()]

    before = blas_threads(None)
    assert all(set(found) == {1} for found in backend.map(blas_threads, range(4)))
    assert blas_threads(None) == before
