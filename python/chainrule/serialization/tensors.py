"""What the names and storages of PyTorch's files stand for: storages on their devices, tensors over
them, parameters, dtypes, devices."""

from __future__ import annotations

import pickle
import sys
from array import array
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from .. import _core
from .._core import Device, Tensor
from .pickles import Allowed, Foreign

__all__ = ["DTYPES", "STORAGES", "Locate", "Tensors", "locator"]

Locate: TypeAlias = Callable[[Tensor, str], Tensor]  # (storage in the host's memory, its device in the file) -> storage

STORAGES = {  # of a file -> dtype; other dtypes are in untyped storages
    "BoolStorage": _core.bool,
    "ByteStorage": _core.uint8,
    "CharStorage": _core.int8,
    "ShortStorage": _core.int16,
    "IntStorage": _core.int32,
    "LongStorage": _core.int64,
    "HalfStorage": _core.float16,
    "BFloat16Storage": _core.bfloat16,
    "FloatStorage": _core.float32,
    "DoubleStorage": _core.float64,
    "UntypedStorage": None,
}
DTYPES = {  # name -> dtype
    name: getattr(_core, name)
    for name in (
        "bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 bfloat16 float32 float64"
        " half float double short int long"
    ).split()
}
MISSING = {  # parts of names -> what chainrule has not
    "complex": "complex numbers",
    "Complex": "complex numbers",
    "chalf": "complex numbers",
    "float8": "floats of 8 bits",
    "float4": "floats of 4 bits",
    "qint": "quantized tensors",
    "QInt": "quantized tensors",
    "QUInt": "quantized tensors",
    "_rebuild_qtensor": "quantized tensors",
    "sparse": "sparse tensors",
    "_rebuild_meta": "tensors without data (meta)",
    "_rebuild_nested": "nested tensors",
    "_rebuild_wrapper": "wrapped tensors",
    "_rebuild_device_tensor": "tensors of XLA and other devices",
}


# ---- devices ----
def _stored(storage: Tensor, location: str) -> Tensor:
    """The storage on the device that the file names."""
    try:
        return storage.to(Device(location))
    except (_core.Error, TypeError) as error:
        raise RuntimeError(
            f"[load] the file has tensors of the device '{location}': {error}. Give map_location='cpu' to load them"
            " into the host's memory"
        ) from None


def locator(map_location: Any) -> Locate:
    """The rule by which ``load`` puts storages on devices.  TypeError, or RuntimeError: it is none."""
    if map_location is None:
        return _stored
    if isinstance(map_location, str | Device):
        device = Device(map_location)
        return lambda storage, location: storage.to(device)
    if isinstance(map_location, Mapping):
        names = {str(key): str(value) for key, value in map_location.items()}
        return lambda storage, location: _stored(storage, names.get(location, location))
    if not callable(map_location):
        raise TypeError(f"map_location is a device, a dict of devices or a function, not {type(map_location).__name__}")

    def by_function(storage: Tensor, location: str) -> Tensor:
        try:
            found = map_location(storage, location)
        except Exception as error:
            raise Foreign(error) from error
        if found is not None and not isinstance(found, Tensor):
            raise Foreign(
                TypeError(f"map_location returned a {type(found).__name__}, not a storage (a Tensor) or None")
            )
        return _stored(storage, location) if found is None else found

    return by_function


# ---- storages ----
def swapped(host: Tensor, itemsize: int) -> Tensor:
    """The bytes in the other byte order."""
    if itemsize == 1:
        return host
    numbers = array({2: "H", 4: "I", 8: "Q"}[itemsize], bytes(memoryview(host)))
    numbers.byteswap()
    return _core.asarray(bytearray(numbers.tobytes()))


def _device(kind: str, index: int | None) -> Any:
    """A device that a file names as an object: the drop-in's where that is in use; else the device, or the name of one
    that is not here."""
    drop_in = sys.modules.get("chainrule.torch.legacy")
    if drop_in is not None:
        return drop_in.device(kind, index)
    name = kind if index is None else f"{kind}:{index}"
    try:
        return Device(name)
    except RuntimeError:
        return name


class Storage:
    """Memory that tensors of a file share: its bytes here, and the same on the device with a dtype."""

    def __init__(self, host: Tensor, dtype: _core.dtype | None, location: str, byteorder: str) -> None:
        self.host, self.dtype, self.location, self.byteorder = host, dtype, location, byteorder
        self.placed: dict[_core.dtype, Tensor] = {}

    def check(self) -> None:
        """ValueError: bools that are neither 0 nor 1."""
        if _core.bool in self.placed and self.host.numel() and int(self.host.max()) > 1:
            raise ValueError("a bool that is neither 0 nor 1")

    def typed(self, dtype: _core.dtype, locate: Locate) -> Tensor:
        """All of it, (N), where it is to be."""
        if dtype not in self.placed:
            host = self.host if self.byteorder == sys.byteorder else swapped(self.host, dtype.itemsize)
            size = dtype.itemsize
            if host.storage_offset() % size or host.data_ptr() % size:  # in a mapped file of another program
                host = host.clone()
            whole = _core._storage_view(host, dtype, (host.numel() // size,), (1,), host.storage_offset() // size)
            self.placed[dtype] = locate(whole, self.location)
            self.check()
        return self.placed[dtype]


class Tensors:
    """The storages of one file by their keys.  read(key, bytes or None): the memory of one, as uint8."""

    def __init__(self, locate: Locate, read: Callable[[str, int], Tensor], byteorder: str = sys.byteorder) -> None:
        self.locate, self.read, self.byteorder = locate, read, byteorder
        self.storages: dict[str, Storage] = {}
        self.known: dict[int, Storage] = {}  # by the identity of the tensor that stands for it in the pickle
        self.tensors: dict[int, Tensor] = {}  # of the tar format, by their numbers

    def add(self, key: str, dtype: _core.dtype | None, location: str, host: Tensor) -> Tensor:
        """One more storage; the tensor that stands for it."""
        storage = self.storages[key] = Storage(host, dtype, location, self.byteorder)
        return self.stand_in(storage)

    def stand_in(self, storage: Storage) -> Tensor:
        whole = storage.typed(storage.dtype or _core.uint8, self.locate)
        self.known[id(whole)] = storage
        return whole

    def persistent(self, pid: Any) -> Any:
        """The storage that a pickle names: ("storage", type, key, device, elements)."""
        if type(pid) is not tuple or len(pid) not in (5, 6) or pid[0] != "storage":
            raise ValueError(f"a reference to {str(pid)[:60]}, which is not a storage")
        _, kind, key, location, count = pid[:5]
        if not isinstance(kind, StorageType) or not isinstance(key, str) or not isinstance(location, str):
            raise TypeError("a storage without type, key and device")
        if type(count) is not int or count < 0:
            raise ValueError(f"a storage of {count} elements")
        dtype = kind.dtype
        storage = self.storages.get(key)
        if storage is None:
            return self.add(key, dtype, location, self.read(key, count * (dtype.itemsize if dtype else 1)))
        if storage.dtype is not dtype or storage.host.numel() // (dtype.itemsize if dtype else 1) != count:
            raise ValueError(f"the storage '{key}' has two types or sizes")
        return self.stand_in(storage)

    def names(self, full: str) -> Any:
        """What a name of PyTorch's stands for; None: it is not allowed."""
        module, _, name = full.rpartition(".")
        if module in ("torch", "torch.cuda", "torch.storage") and name in STORAGES:
            return StorageType(STORAGES[name])
        if module == "torch" and name in DTYPES:
            return DTYPES[name]
        if full in FUNCTIONS:
            return Allowed(full, FUNCTIONS[full])
        for part, what in MISSING.items():
            if module.startswith("torch") and part in name:
                raise pickle.UnpicklingError(f"{full}: chainrule has no {what}")
        return None


class StorageType:
    """A class of storages in a file."""

    def __init__(self, dtype: _core.dtype | None) -> None:
        self.dtype = dtype


# ---- functions that a file calls ----
def _rebuild(t: Tensors, storage: Any, dtype: _core.dtype | None, offset: int, size: Any, stride: Any) -> Tensor:
    known = t.known.get(id(storage))
    if known is None:
        raise TypeError(f"a tensor over a {type(storage).__name__}, which is not a storage")
    if known.dtype is not None and dtype is not None and known.dtype is not dtype:
        raise TypeError(f"a tensor of {dtype} over a storage of {known.dtype}")
    dtype = dtype or known.dtype or _core.uint8
    whole = known.typed(dtype, t.locate)
    return _core._storage_view(whole, dtype, tuple(size), tuple(stride), offset + whole.storage_offset())


def _flags(metadata: Any) -> None:
    if metadata and any(metadata.values()):
        raise ValueError(f"a tensor with {', '.join(map(str, metadata))}, which chainrule has not")


def _tensor_v2(
    t: Tensors, storage: Any, offset: int, size: Any, stride: Any, requires_grad: Any, hooks: Any, metadata: Any = None
) -> Tensor:
    _flags(metadata)
    return _rebuild(t, storage, None, offset, size, stride).requires_grad_(bool(requires_grad))


def _tensor_v3(
    t: Tensors,
    storage: Any,
    offset: int,
    size: Any,
    stride: Any,
    requires_grad: Any,
    hooks: Any,
    dtype: Any,
    metadata: Any = None,
) -> Tensor:
    _flags(metadata)
    if not isinstance(dtype, _core.dtype):
        raise TypeError(f"a {type(dtype).__name__} as dtype")
    return _rebuild(t, storage, dtype, offset, size, stride).requires_grad_(bool(requires_grad))


def _parameter(t: Tensors, data: Any, requires_grad: Any = True, hooks: Any = None) -> Tensor:
    from ..nn.parameter import Parameter

    if not isinstance(data, Tensor):
        raise TypeError(f"a Parameter over a {type(data).__name__}")
    return Parameter(data, bool(requires_grad))


def _set_attributes(x: Any, state: Any) -> Any:
    attributes = state[0] if isinstance(state, tuple) and len(state) == 2 else state
    for name, value in (attributes or {}).items():
        if not isinstance(name, str) or hasattr(type(x), name):
            raise ValueError(f"the attribute {name!r} of a tensor")
        setattr(x, name, value)
    return x


def _parameter_with_state(t: Tensors, data: Any, requires_grad: Any, hooks: Any, state: Any) -> Any:
    return _set_attributes(_parameter(t, data, requires_grad), state)


def _from_type(t: Tensors, function: Any, kind: Any, arguments: Any, state: Any) -> Any:
    """A tensor of a subclass, or with attributes."""
    if not isinstance(function, Allowed):
        raise TypeError(f"a tensor made by {str(function)[:60]}")
    made = function.call(t, *arguments)
    if isinstance(kind, type) and not isinstance(made, kind):
        made = _core._alias(made, kind, made.requires_grad)
    return _set_attributes(made, state)


def _no_class(*_: Any) -> None:
    raise TypeError("a class is called that files only name")


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "torch._utils._rebuild_tensor": lambda t, *args: _rebuild(t, args[0], None, *args[1:]),
    "torch._utils._rebuild_tensor_v2": _tensor_v2,
    "torch._utils._rebuild_tensor_v3": _tensor_v3,
    "torch._utils._rebuild_parameter": _parameter,
    "torch._utils._rebuild_parameter_with_state": _parameter_with_state,
    "torch._tensor._rebuild_from_type_v2": _from_type,
    "torch.nn.parameter.Parameter": _parameter,
    "torch.Tensor": _no_class,
    "torch.Size": lambda t, sizes=(): _core.Size(sizes),
    "torch.device": lambda t, kind, index=None: _device(kind, index),
}
FUNCTIONS |= {f"torch.{name.removesuffix('Storage')}Tensor": _no_class for name, dtype in STORAGES.items() if dtype}
