"""Objects as pickles that name PyTorch's functions: the writer of ``save``."""

from __future__ import annotations

import io
import os
import pickle
import re
import sys
from collections import OrderedDict
from collections.abc import Callable
from functools import cache
from typing import IO, Any

from .. import _core
from .._core import Device, Size, Tensor
from . import archive
from .tensors import DTYPES, STORAGES

__all__ = ["write_archive", "write_legacy"]

MAGIC_NUMBER, PROTOCOL = 0x1950A86A20F9469CFC6C, 1001  # of files before the zip format
STORAGE_OF = {dtype: name for name, dtype in STORAGES.items()}
NAME_OF = {dtype: name for name, dtype in reversed(DTYPES.items())}


class Name:
    """A function or class that the file names; here there is none."""

    def __init__(self, full: str) -> None:
        self.module, _, self.name = full.rpartition(".")

    def __call__(self) -> None:
        raise TypeError(f"{self.module}.{self.name} is only a name")


named = cache(Name)  # one of each, so that a pickle names it once


def _is_drop_ins(obj: Any) -> bool:
    """Is it a device as ``chainrule.torch`` has them?"""
    drop_in = sys.modules.get("chainrule.torch.legacy")
    return drop_in is not None and type(obj) is drop_in.device


class Stored:
    """A storage in the file: all of the memory that some tensors share."""

    def __init__(self, key: str, x: Tensor) -> None:
        self.key, self.dtype, self.location = key, x.dtype, str(x.device)
        size = _core._storage(x)[1] // x.dtype.itemsize
        self.whole = _core._storage_view(x, x.dtype, (size,), (1,), 0)
        self.type = STORAGE_OF.get(x.dtype, "UntypedStorage")
        self.count = size if x.dtype in STORAGE_OF else size * x.dtype.itemsize

    def bytes(self) -> memoryview:
        """Its contents."""
        here = self.whole.cpu()
        return memoryview(_core._storage_view(here, _core.uint8, (here.nbytes,), (1,), 0))


class Pickler(pickle._Pickler):
    """Pickles anything that Python can; tensors, sizes, dtypes and devices by PyTorch's names.
    ``stored``: the storages that were met."""

    def __init__(self, file: IO[bytes], protocol: int, legacy: bool = False) -> None:
        super().__init__(file, protocol)
        self.legacy = legacy
        self.stored: dict[int, Stored] = {}  # by the identity of the memory, which each of them keeps

    def storage_of(self, x: Tensor) -> Stored:
        identity = _core._storage(x)[0]
        found = self.stored.get(identity)
        if found is None:
            found = self.stored[identity] = Stored(str(len(self.stored)), x)
        elif found.dtype is not x.dtype:
            raise RuntimeError(
                "[save] cannot save tensors that view the same memory as different dtypes:"
                f" {NAME_OF[found.dtype]} and {NAME_OF[x.dtype]}"
            )
        return found

    def persistent_id(self, obj: Any) -> Any:
        if type(obj) is not Stored:
            return None
        kind = named("torch.storage.UntypedStorage" if obj.type == "UntypedStorage" else f"torch.{obj.type}")
        entry = ("storage", kind, obj.key, obj.location, obj.count)
        return (*entry, None) if self.legacy else entry

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, Tensor):
            return self.reduce_tensor(obj)
        if type(obj) is Size:
            return named("torch.Size"), (tuple(obj),)
        if type(obj) is Device or _is_drop_ins(obj):
            return named("torch.device"), (obj.type,) if obj.index is None else (obj.type, obj.index)
        return NotImplemented

    def reduce_tensor(self, x: Tensor) -> tuple[Any, ...]:
        from ..nn.parameter import Parameter

        kind, state = type(x), vars(x)
        hooks: OrderedDict[str, Any] = OrderedDict()
        if kind is Parameter:
            data = _core._alias(x, Tensor, False)
            if state:
                arguments = (data, x.requires_grad, hooks, state)
                return named("torch._utils._rebuild_parameter_with_state"), arguments
            return named("torch._utils._rebuild_parameter"), (data, x.requires_grad, hooks)
        if any(stride < 0 for stride in x.stride()):  # PyTorch has none
            x = _core._alias(x, Tensor, False).contiguous().requires_grad_(x.requires_grad)
        storage = self.storage_of(x)
        whole = (storage, x.storage_offset(), tuple(x.size()), tuple(x.stride()), x.requires_grad, hooks)
        function = named("torch._utils._rebuild_tensor_v2")
        if storage.type == "UntypedStorage":
            function, whole = named("torch._utils._rebuild_tensor_v3"), (*whole, x.dtype)  # type: ignore[assignment]
        if kind is Tensor and not state:
            return function, whole
        return named("torch._tensor._rebuild_from_type_v2"), (function, kind, whole, state)

    # ---- names ----
    def save_name(self, obj: Name) -> None:
        text = f"{obj.module}\n{obj.name}\n".encode("ascii")
        self.write(pickle.GLOBAL + text)  # type: ignore[attr-defined]
        self.memoize(obj)  # type: ignore[attr-defined]

    def save_dtype(self, obj: Any) -> None:
        self.save(named(f"torch.{NAME_OF[obj]}"))  # type: ignore[attr-defined]

    def save_bytes(self, obj: bytes) -> None:
        """Protocol 2 has no bytes; Python then writes a call of ``bytes`` for empty ones, which PyTorch refuses."""
        if obj or self.proto > 2:  # type: ignore[attr-defined]
            pickle._Pickler.dispatch[bytes](self, obj)  # type: ignore[arg-type]
        else:
            self.save_reduce(named("_codecs.encode"), ("", "latin1"), obj=obj)  # type: ignore[attr-defined]

    def save_class(self, obj: type) -> None:
        from ..nn.parameter import Parameter

        known = {Tensor: "torch.Tensor", Parameter: "torch.nn.parameter.Parameter", Size: "torch.Size"}
        known |= {Device: "torch.device", _core.dtype: "torch.dtype"}
        if obj in known:
            self.save(named(known[obj]))  # type: ignore[attr-defined]
        else:
            self.save_type(obj)  # type: ignore[attr-defined]

    dispatch: dict[type, Callable[..., None]] = {  # type: ignore[misc]
        **pickle._Pickler.dispatch,
        Name: save_name,
        _core.dtype: save_dtype,
        bytes: save_bytes,
        type: save_class,
    }


def root_name(path: str | None) -> str:
    """The folder of all records: the file's name without its suffix."""
    return re.sub(r"[\0/\\]", "_", os.path.splitext(os.path.basename(path))[0]) or "archive" if path else "archive"


def write_archive(obj: Any, file: IO[bytes], path: str | None, protocol: int) -> None:
    """The zip format."""
    pickled = io.BytesIO()
    pickler = Pickler(pickled, protocol)
    pickler.dump(obj)
    writer = archive.Writer(file, root_name(path))
    writer.record("data.pkl", pickled.getbuffer())
    for name, text in (
        (".format_version", "1"),
        (".storage_alignment", str(archive.ALIGNMENT)),
        ("byteorder", sys.byteorder),
    ):
        writer.record(name, text.encode())
    for storage in pickler.stored.values():
        writer.record(f"data/{storage.key}", storage.bytes())
    writer.record("version", b"3\n")
    writer.record(".data/serialization_id", writer.serialization_id())
    writer.close()


def write_legacy(obj: Any, file: IO[bytes], protocol: int) -> None:
    """The format before: pickles, then the storages."""
    sizes = {"short": 2, "int": 4, "long": 4}
    about = {"protocol_version": PROTOCOL, "little_endian": sys.byteorder == "little", "type_sizes": sizes}
    pickled = io.BytesIO()
    pickler = Pickler(pickled, protocol, legacy=True)
    pickler.dump(obj)
    for value in (MAGIC_NUMBER, PROTOCOL, about):
        pickle.dump(value, file, protocol)
    file.write(pickled.getbuffer())
    pickle.dump([storage.key for storage in pickler.stored.values()], file, protocol)
    for storage in pickler.stored.values():
        file.write(storage.count.to_bytes(8, "little"))
        file.write(storage.bytes())
