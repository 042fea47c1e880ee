"""The stand-in refuses what it is there to refuse: else a run that passes through it proves nothing."""

import numpy as np
import pytest

from attndyn.conformance.strict import StrictBackend, StrictModule


@pytest.fixture
def xp():
    return StrictModule()


@pytest.fixture
def a(xp):
    return xp.asarray(np.arange(1.0, 7.0).reshape(2, 3))


HOST = np.ones((2, 3))

REFUSED = {
    "np.asarray": lambda xp, a: np.asarray(a),
    "np.array of a list": lambda xp, a: np.array([a, a]),
    "NumPy ufunc": lambda xp, a: np.exp(a),
    "NumPy ufunc into a host array": lambda xp, a: np.add(HOST, a, out=np.empty((2, 3))),
    "NumPy function": lambda xp, a: np.sum(a),
    "NumPy function of a list": lambda xp, a: np.concatenate([a, a]),
    "assignment to a host array": lambda xp, a: np.empty((2, 3)).__setitem__(slice(None), a),
    "host operand, right": lambda xp, a: a + HOST,
    "host operand, left": lambda xp, a: HOST * a,
    "host operand, product": lambda xp, a: a @ HOST.T,
    "host operand, comparison": lambda xp, a: a == HOST,
    "host operand, in place": lambda xp, a: a.__iadd__(HOST),
    "device operand of a host array, in place": lambda xp, a: HOST.copy().__iadd__(a),
    "host argument": lambda xp, a: xp.exp(HOST),
    "host argument in a list": lambda xp, a: xp.concatenate([a, HOST]),
    "host keyword argument": lambda xp, a: xp.sum(a, out=HOST),
    "host argument of a method": lambda xp, a: a.dot(HOST.T),
    "host argument of a ufunc's method": lambda xp, a: xp.add.at(a, (np.array([0]),), 1.0),
    "host index": lambda xp, a: a[np.array([1, 0])],
    "host index among others": lambda xp, a: a[:, np.array([1, 0])],
    "list as index": lambda xp, a: a[[1, 0]],
    "host index to take": lambda xp, a: xp.take(a, np.array([1, 0]), axis=0),
    "mask": lambda xp, a: a[a > 2],
    "host value assigned": lambda xp, a: a.__setitem__(Ellipsis, HOST),
    "float": lambda xp, a: float(xp.sum(a)),
    "int": lambda xp, a: int(xp.sum(a)),
    "as a position": lambda xp, a: [1, 2][xp.argmax(a)],
    "truth": lambda xp, a: bool(xp.all(a > 0)),
    "if": lambda xp, a: 1 if xp.all(a > 0) else 2,
    "in": lambda xp, a: 3.0 in a,
    "item": lambda xp, a: a[0, 0].item(),
    "tolist": lambda xp, a: a.tolist(),
    "iteration": lambda xp, a: list(a),
    "max of Python": lambda xp, a: max(a[0]),
    "a shape that depends on values": lambda xp, a: xp.nonzero(a),
    "ditto, as a method": lambda xp, a: a.nonzero(),
    "format": lambda xp, a: f"{xp.sum(a):.3f}",
}


@pytest.mark.parametrize("leak", REFUSED.values(), ids=REFUSED)
def test_refused(xp, a, leak):
    with pytest.raises(TypeError):
        leak(xp, a)
    assert xp.downloads == 0


def test_no_way_around_the_refusals(a):
    """NumPy looks for these before it asks for a conversion."""
    for name in ("__array_interface__", "__array_struct__", "__dlpack__", "__buffer__"):
        assert not hasattr(a, name)


ALLOWED = {
    "Python scalar": (lambda xp, a: 2 * a + 1, lambda h: 2 * h + 1),
    "NumPy scalar": (lambda xp, a: np.float64(2) * a, lambda h: 2 * h),
    "reduction": (lambda xp, a: xp.sum(a, axis=1, keepdims=True), lambda h: h.sum(1, keepdims=True)),
    "whole reduction": (lambda xp, a: xp.sum(a) * a, lambda h: h.sum() * h),
    "device index": (lambda xp, a: a[:, xp.arange(2)], lambda h: h[:, :2]),
    "slices and new axes": (lambda xp, a: a[None, ..., 1:], lambda h: h[None, ..., 1:]),
    "one entry": (lambda xp, a: a[1, 2], lambda h: h[1, 2]),
    "reflected": (lambda xp, a: 1 - a, lambda h: 1 - h),
    "product": (lambda xp, a: a @ a.swapaxes(0, 1), lambda h: h @ h.T),
    "view": (lambda xp, a: a.T.reshape(-1), lambda h: h.T.reshape(-1)),
    "list of arrays": (lambda xp, a: xp.stack([a, a]), lambda h: np.stack([h, h])),
}


@pytest.mark.parametrize(("on_device", "on_host"), ALLOWED.values(), ids=ALLOWED)
def test_allowed_and_equal(xp, a, on_device, on_host):
    host = xp.asnumpy(a)
    assert np.array_equal(xp.asnumpy(on_device(xp, a)), on_host(host))


def test_changes_in_place(xp, a):
    view, index = a[:, 1:], xp.arange(2)
    view += 1
    view[...] *= 2
    a[0, 0] = -1.0
    xp.add.at(a, (index, index), 10.0)
    assert np.array_equal(xp.asnumpy(a), [[9.0, 6.0, 8.0], [4.0, 22.0, 14.0]])


def test_transfers_are_copies_and_counted(xp):
    host = np.zeros(3)
    device = xp.asarray(host)
    host += 1
    back = xp.asnumpy(device)
    device += 2
    assert np.array_equal(back, np.zeros(3))
    assert (xp.uploads, xp.downloads) == (1, 1)


def test_calls_are_noted(xp, a):
    xp.sum(a, axis=0, keepdims=True)
    a.transpose(1, 0)
    assert (-a).shape == (2, 3)
    assert xp.calls >= {
        ("sum", 1, frozenset({"axis", "keepdims"})),
        (".transpose", 2, frozenset()),
        ("__neg__", 1, frozenset()),
    }


def test_backend_moves_arrays_by_its_two_doors():
    backend = StrictBackend("float32")
    device = backend.asarray(np.arange(3.0))
    assert device.dtype == np.float32
    assert np.array_equal(backend.to_host(device), np.arange(3.0, dtype=np.float32))
    assert np.array_equal(backend.to_host(np.ones(2)), np.ones(2))  # as CuPy's asnumpy
    assert (backend.xp.uploads, backend.xp.downloads) == (1, 1)
