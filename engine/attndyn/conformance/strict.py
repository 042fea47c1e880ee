"""A stand-in for a GPU: NumPy arrays that pretend to live on a device, and refuse what CuPy refuses.

`StrictModule` takes the place of the `cupy` module and `DeviceArray` that of `cupy.ndarray`. Beyond what CuPy
refuses (implicit conversion to NumPy, operands on the host) they refuse what CuPy does silently and slowly:
waiting for the device (`float(a)`, `if a:`, `a[mask]`, iteration), NumPy functions on device arrays, and
uploads in passing (host arrays as indices or as assigned values). Only `asarray` and `array` go up, only
`asnumpy` comes down. Transfers copy, so that nothing can rely on NumPy's aliasing; and every call is noted,
to be checked against CuPy's interface.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

import numpy as np

from attndyn.backend.base import Backend
from attndyn.backend.cupy_backend import CupyBackend

# these take host arrays to the device
UPLOADS = {"asarray", "array"}
# their result's shape depends on values: CuPy waits for the device to know it
WAITING = {"nonzero", "flatnonzero", "argwhere", "unique", "extract", "compress", "trim_zeros"}
LEAVING = {"item", "tolist", "tobytes", "tofile", "dump", "dumps", "data", "ctypes", "get"}
BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor")
COMPARISONS = ("lt", "le", "eq", "ne", "gt", "ge")
UNARY = ("neg", "pos", "abs", "invert")


class Call(NamedTuple):
    """How something was called: of the module (`sum`, `add.at`), or of an array (`.sum`, `__add__`)."""

    name: str
    n_positional: int
    keywords: frozenset[str]


class StrictModule:
    """The array module. `calls` is what was called, the counters how many arrays were moved."""

    def __init__(self) -> None:
        self.calls: set[Call] = set()
        self.uploads = 0
        self.downloads = 0

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        found = getattr(np, name)
        if name in WAITING:
            raise TypeError(f"xp.{name} waits for the device")
        if isinstance(found, type) or not callable(found):  # a constant such as inf
            self.calls.add(Call(name, 0, frozenset()))
            return found
        return Function(self, name, found)

    def asnumpy(self, array: Any) -> np.ndarray:
        """An array on the host."""
        self.calls.add(Call("asnumpy", 1, frozenset()))
        if not isinstance(array, DeviceArray):
            return np.asarray(array)
        self.downloads += 1
        return array._host.copy()

    def invoke(
        self, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """`function` of device arrays, noted under `name`."""
        self.calls.add(Call(name, len(args), frozenset(kwargs)))
        return self.wrap(function(*map(unwrap, args), **{k: unwrap(v) for k, v in kwargs.items()}))

    def wrap(self, result: Any) -> Any:
        """NumPy's results as CuPy gives them: no scalars, but arrays without axes that stay on the device."""
        if isinstance(result, np.ndarray | np.generic):
            return DeviceArray(np.asarray(result), self)
        if isinstance(result, list | tuple):
            return type(result)(self.wrap(r) for r in result)
        return result


class Function:
    """A function of the module, and a ufunc's methods."""

    def __init__(self, module: StrictModule, name: str, function: Any):
        self._module, self._name, self._function = module, name, function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function of device arrays; it takes host arrays up if that is what it is for."""
        module = self._module
        if self._name in UPLOADS and not isinstance(args[0], DeviceArray):
            module.uploads += 1
            args = (DeviceArray(np.array(args[0]), module), *args[1:])
        return module.invoke(self._name, self._function, args, kwargs)

    def __getattr__(self, name: str) -> Function:
        return Function(self._module, f"{self._name}.{name}", getattr(self._function, name))


class DeviceArray:
    """An array on the pretended device."""

    # NumPy arrays and scalars leave operators with a device array to it
    __array_ufunc__ = None

    def __init__(self, host: np.ndarray, module: StrictModule):
        self._host, self._module = host, module

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> NoReturn:
        raise TypeError(f"numpy.{function.__name__} on a device array")

    def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:
        raise TypeError("implicit conversion of a device array to NumPy")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in LEAVING | WAITING:
            raise TypeError(f".{name} takes data off the device, or waits for it")
        found = getattr(self._host, name)
        if not callable(found):
            return self._module.wrap(found)
        return lambda *args, **kwargs: self._module.invoke(f".{name}", found, args, kwargs)

    def __getitem__(self, key: Any) -> Any:
        return self._module.wrap(self._host[index(key)])

    def __setitem__(self, key: Any, value: Any) -> None:
        self._host[index(key)] = unwrap(value)

    def __len__(self) -> int:
        return len(self._host)

    def __repr__(self) -> str:
        return f"DeviceArray(shape={self.shape}, dtype={self.dtype})"


def unwrap(value: Any) -> Any:
    """What NumPy is given: device arrays and Python or NumPy scalars, never an array of the host's."""
    if isinstance(value, DeviceArray):
        return value._host
    if isinstance(value, np.ndarray):
        raise TypeError("a host array among device arrays")
    if isinstance(value, list | tuple):
        return type(value)(unwrap(v) for v in value)
    return value


def index(key: Any) -> tuple[Any, ...]:
    """An index as NumPy takes it."""
    parts = [unwrap(part) for part in (key if isinstance(key, tuple) else (key,))]
    for part in parts:
        if isinstance(part, list | tuple):
            raise TypeError("a list as an index is uploaded in passing")
        if isinstance(part, np.ndarray) and part.dtype == bool:
            raise TypeError("a mask as an index waits for the device")
    return tuple(parts)


def _refuse(what: str) -> Callable[..., NoReturn]:
    def refuse(self: DeviceArray, *args: Any) -> NoReturn:
        raise TypeError(f"{what} takes a value off the device silently")

    return refuse


def _operator(name: str, reverse: bool = False) -> Callable[..., Any]:
    def operate(self: DeviceArray, *other: Any) -> Any:
        args = (self, *other)
        return self._module.invoke(name, getattr(operator, name), args[::-1] if reverse else args, {})

    return operate


def _in_place(name: str) -> Callable[..., DeviceArray]:
    def operate(self: DeviceArray, other: Any) -> DeviceArray:
        self._module.invoke(name, getattr(operator, name), (self, other), {})
        return self

    return operate


def _install() -> None:
    for name in ("float", "int", "bool", "complex", "index", "iter", "contains"):
        setattr(DeviceArray, f"__{name}__", _refuse(f"__{name}__"))
    for name in (*BINARY, *COMPARISONS, *UNARY):
        setattr(DeviceArray, f"__{name}__", _operator(f"__{name}__"))
    for name in BINARY:
        setattr(DeviceArray, f"__r{name}__", _operator(f"__{name}__", reverse=True))
        setattr(DeviceArray, f"__i{name}__", _in_place(f"__i{name}__"))


_install()


class StrictBackend(CupyBackend):
    """The CuPy backend's own code on the strict module."""

    name = "strict"

    def __init__(self, dtype: str = "float64"):
        Backend.__init__(self, StrictModule(), dtype)  # type: ignore[arg-type]  # it acts as one
