"""On a GPU: every operation of the CuPy backend equals the reference on NumPy."""

import numpy as np
import pytest

from attndyn.backend.base import Backend
from attndyn.backend.cupy_backend import CupyBackend, unusable
from attndyn.layers.parameters import Parameter, Parameters
from backend.test_operations import CASES

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(bool(unusable()), reason=f"no GPU: {unusable()}")]

TOLERANCE = {"float64": 1e-12, "float32": 2e-5}


def run(backend, name, arguments):
    """All that an operation returns or changes, as host arrays."""
    there = {k: backend.asarray(v.copy()) if isinstance(v, np.ndarray) else v for k, v in arguments.items()}
    result = getattr(backend, name)(**there)
    returned = result if isinstance(result, tuple) else () if result is None else (result,)
    changed = [there[k] for k, v in arguments.items() if isinstance(v, np.ndarray)]
    return [backend.to_host(array) for array in (*returned, *changed)]


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("name", "case"), [(name, c) for name, cases in CASES.items() for c in cases])
def test_operation_equals_reference(name, case, dtype):
    arguments = case(np.random.default_rng(1))
    expected, found = (run(b, name, arguments) for b in (Backend(np, dtype), CupyBackend(dtype)))
    assert len(found) == len(expected)
    for e, f in zip(expected, found, strict=True):
        assert f.dtype == e.dtype
        np.testing.assert_allclose(f, e, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize("index_type", [np.uint8, np.uint16, np.int64])
def test_tokens_of_small_types_reach_the_last_row(index_type):
    """Tokens are bytes where they fit: addresses computed from them must not wrap at 256."""
    table = np.random.default_rng(0).normal(size=(3, 7, 200))
    index = np.tile(np.arange(200), (3, 1)).astype(index_type)
    backend = CupyBackend()
    taken = backend.take_columns(backend.asarray(table), backend.asarray(index))
    assert np.array_equal(backend.to_host(taken), table)
    added = backend.add_columns(taken, backend.asarray(index), 200)
    assert np.array_equal(backend.to_host(added), table)


@pytest.mark.parametrize("replicas", [1, 3])
def test_parameters_are_views_of_one_array(replicas):
    backend = CupyBackend()
    declared = [Parameter("A", ("x", "y"), (2, 5), "A", "a"), Parameter("B", ("x",), (4,), "B", "b")]
    parameters = Parameters(declared, backend.zeros((replicas, 14)))
    parameters["B"][...] = 2.0
    parameters.flat[:, :10] += 1.0
    assert np.array_equal(backend.to_host(parameters["A"]), np.ones((replicas, 2, 5)))
    assert np.array_equal(backend.to_host(parameters.flat)[:, 10:], np.full((replicas, 4), 2.0))
