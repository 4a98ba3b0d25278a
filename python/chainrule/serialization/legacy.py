"""PyTorch's formats before the zip format: a sequence of pickles with the storages behind them (to
1.5, 2020), and a tar archive (to 0.1.1, 2017)."""

from __future__ import annotations

import pickle
import struct
import tarfile
from collections.abc import Callable
from typing import Any

from .. import _core
from .._core import Tensor
from .pickles import interpret
from .source import Source
from .tensors import Locate, StorageType, Tensors
from .writer import MAGIC_NUMBER, PROTOCOL

__all__ = ["is_tar", "read_sequence", "read_tar"]

# unpickles the object: (bytes, at, label, names, persistent, context) -> (object, where its pickle ends)
Unpickle = Callable[[memoryview, int, str, Callable[[str], Any], Callable[[Any], Any], Any], tuple[Any, int]]


def _nothing(_: Any) -> Any:
    return None


class Sequence:
    """The sequence format.  The storages come after the object, so memory for them is made first and filled later."""

    def __init__(self, source: Source, locate: Locate) -> None:
        self.source, self.label = source, source.label
        self.data = source.bytes(source.begin, source.size - source.begin)
        self.at = self.declared = 0
        self.pending: dict[str, tuple[int, Tensor]] = {}  # key -> size of an element, memory
        self.tensors = Tensors(self.locate_later, self.make)
        self.locate = locate
        self.later: list[tuple[Tensor, Tensor]] = []  # memory to fill on a device, and where its bytes are here

    def plain(self) -> Any:
        """The next pickle, of numbers and texts."""
        value, self.at = interpret(self.data, self.label, _nothing, _nothing, at=self.at)
        return value

    def make(self, key: str, size: int) -> Tensor:
        self.declared += size
        if self.declared > len(self.data):
            raise ValueError(f"storages of {self.declared} bytes in a file of {len(self.data)}")
        return _core.zeros(size, dtype=_core.uint8)

    def locate_later(self, storage: Tensor, location: str) -> Tensor:
        placed = self.locate(storage, location)
        if placed is not storage:
            self.later.append((placed, storage))
        return placed

    def persistent(self, pid: Any) -> Any:
        """A storage, or a part of one: ("storage", type, key, device, elements, (key of the part, start, elements))."""
        if type(pid) is tuple and len(pid) == 5 and pid[0] == "module":  # of a whole module: its source
            return pid[1]
        whole = self.tensors.persistent(pid)
        storage = self.tensors.known[id(whole)]
        size = storage.dtype.itemsize if storage.dtype else 1
        self.pending.setdefault(pid[2], (size, storage.host))
        if len(pid) < 6 or pid[5] is None:
            return whole
        key, start, count = pid[5]
        if not isinstance(key, str) or not 0 <= start <= start + count <= storage.host.numel() // size:
            raise ValueError(f"a part {pid[5]} of a storage of {storage.host.numel() // size} elements")
        if key in self.tensors.storages:
            return self.tensors.stand_in(self.tensors.storages[key])
        part = storage.host[start * size : (start + count) * size]
        return self.tensors.add(key, storage.dtype, pid[3], part)

    def fill(self) -> None:
        """Reads the storages."""
        keys = self.plain()
        if not isinstance(keys, list) or any(key not in self.pending for key in keys) or len(keys) < len(self.pending):
            raise RuntimeError(f"[load] '{self.label}': the list of storages does not fit its tensors")
        for key in keys:
            size, host = self.pending[key]
            head = bytes(self.data[self.at : self.at + 8])
            count = struct.unpack("<q", head)[0] if len(head) == 8 else -1
            start = self.at + 8
            if count * size != host.numel() or start + host.numel() > len(self.data):
                raise RuntimeError(
                    f"[load] '{self.label}': the storage '{key}' has {count} elements, where the tensors expect"
                    f" {host.numel() // size} (is the file cut short?)"
                )
            memoryview(host)[:] = self.data[start : start + host.numel()]
            self.at = start + host.numel()
        try:
            for storage in self.tensors.storages.values():
                storage.check()
        except ValueError as error:
            raise pickle.UnpicklingError(f"[load] '{self.label}': {error}") from None
        for placed, storage_here in self.later:
            placed.copy_(storage_here)


def read_sequence(source: Source, locate: Locate, unpickle: Unpickle) -> Any:
    """The object in a file of pickles.  UnpicklingError, RuntimeError: the file is damaged."""
    sequence = Sequence(source, locate)
    if (magic := sequence.plain()) != MAGIC_NUMBER:
        kind = type(magic).__name__
        raise pickle.UnpicklingError(f"[load] '{source.label}' is a pickle of {kind}, not a file of torch.save")
    if (protocol := sequence.plain()) != PROTOCOL:
        raise RuntimeError(f"[load] '{source.label}': protocol {protocol!r:.40}, {PROTOCOL} is known")
    sequence.plain()  # about the machine; storages are little-endian anyway
    t = sequence.tensors
    value, sequence.at = unpickle(sequence.data, sequence.at, source.label, t.names, sequence.persistent, t)
    sequence.fill()
    source.end = source.begin + sequence.at
    return value


# ---- tar ----
def is_tar(head: bytes) -> bool:
    """Do these first 512 bytes of a file begin a tar archive?"""
    return head[257:262] == b"ustar"


class Tar:
    """The tar format: the members "storages", "tensors" and "pickle"."""

    def __init__(self, source: Source, locate: Locate) -> None:
        self.source, self.label = source, source.label
        self.tensors = Tensors(locate, lambda key, size: _core.empty(0))
        source.file.seek(source.begin)
        try:
            with tarfile.open(fileobj=source.file, mode="r:") as tar:
                members = {m.name: source.bytes(m.offset_data, m.size) for m in tar.getmembers() if m.isreg()}
        except (tarfile.TarError, ValueError, EOFError, OverflowError) as error:
            raise RuntimeError(f"[load] '{self.label}': failed reading tar archive: {error}") from None
        lacking = [name for name in ("storages", "tensors", "pickle") if name not in members]
        if lacking:
            raise RuntimeError(
                f"[load] '{self.label}': a tar archive without {', '.join(lacking)}: no file of torch.save"
            )
        self.members = members

    def take(self, data: memoryview, at: int, size: int) -> memoryview:
        if size < 0 or at + size > len(data):
            raise RuntimeError(f"[load] '{self.label}': a member ends at byte {len(data)}, {at + size} are needed")
        return data[at : at + size]

    def pickled(self, data: memoryview, at: int) -> tuple[Any, int]:
        return interpret(data, self.label, self.tensors.names, _nothing, at=at)

    def read_storages(self) -> None:
        data = self.members["storages"]
        count, at = self.pickled(data, 0)
        for _ in range(int(count)):
            (key, location, kind), at = self.pickled(data, at)
            if not isinstance(kind, StorageType) or kind.dtype is None:
                raise TypeError("a storage without a type")
            (elements,) = struct.unpack("<q", self.take(data, at, 8))
            size = elements * kind.dtype.itemsize
            content = self.take(data, at + 8, size)
            host = _core.asarray(bytearray(content)) if size else _core.empty(0, dtype=_core.uint8)
            self.tensors.add(str(key), kind.dtype, str(location), host)
            at += 8 + size
        views, at = self.pickled(data, at)
        for target, root, offset, elements in views:
            of = self.tensors.storages[str(root)]
            itemsize = of.dtype.itemsize if of.dtype else 1
            if not 0 <= offset <= offset + elements <= of.host.numel() // itemsize:
                raise ValueError(f"a view of {elements} elements from {offset} on")
            part = of.host[offset * itemsize : (offset + elements) * itemsize]
            self.tensors.add(str(target), of.dtype, of.location, part)

    def read_tensors(self) -> dict[int, Tensor]:
        from .tensors import FUNCTIONS

        data, made = self.members["tensors"], {}
        count, at = self.pickled(data, 0)
        for _ in range(int(count)):
            (key, storage, _), at = self.pickled(data, at)
            (ndim,) = struct.unpack("<i", self.take(data, at, 4))  # and 4 bytes that mean nothing
            at += 8
            numbers = struct.unpack(f"<{2 * ndim + 1}q", self.take(data, at, 16 * ndim + 8))
            at += 16 * ndim + 8
            whole = self.tensors.stand_in(self.tensors.storages[str(storage)])
            size, stride, offset = numbers[:ndim], numbers[ndim:-1], numbers[-1]
            rebuild = FUNCTIONS["torch._utils._rebuild_tensor"]
            made[int(key)] = rebuild(self.tensors, whole, offset, size, stride)
        return made


def read_tar(source: Source, locate: Locate, unpickle: Unpickle) -> Any:
    """The object in a tar archive.  UnpicklingError, RuntimeError: the file is damaged."""
    tar = Tar(source, locate)
    try:
        tar.read_storages()
        tensors = tar.read_tensors()
    except (TypeError, ValueError, LookupError, struct.error, _core.Error) as error:
        raise pickle.UnpicklingError(f"[load] '{source.label}': damaged tar archive: {error}") from error

    def persistent(pid: Any) -> Any:
        return pid[0] if isinstance(pid, tuple) else tensors[int(pid)]

    t = tar.tensors
    return unpickle(tar.members["pickle"], 0, source.label, t.names, persistent, t)[0]
