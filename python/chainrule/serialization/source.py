"""Where ``load`` reads from: a file or a file object, of known size, in memory or mapped."""

from __future__ import annotations

import io
import os
from typing import IO, TYPE_CHECKING, Any

from .. import _core
from .._core import Tensor

if TYPE_CHECKING:
    import mmap

__all__ = ["Source", "label_of"]


class Source:
    """A seekable file.  label: its name in messages; mapped: storages lie over the file."""

    def __init__(self, file: IO[bytes], label: str, mapped: bool) -> None:
        self.file, self.label = file, label
        self.begin = file.tell()
        self.size = self.end = file.seek(0, io.SEEK_END)  # end: of the object that was read
        self.map: mmap.mmap | None = None
        if mapped:
            import mmap

            self.map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        file.seek(self.begin)

    def bytes(self, start: int, size: int) -> memoryview:
        """``size`` bytes from ``start`` on."""
        if self.map is not None:
            return memoryview(self.map)[start : start + size]
        self.file.seek(start)
        return memoryview(self.file.read(size))

    def storage(self, start: int, size: int) -> Tensor:
        """The same as a tensor, uint8 (size).  RuntimeError: the file ends before."""
        if start + size > self.size:
            raise RuntimeError(f"[load] '{self.label}': {size} bytes from byte {start} on, in a file of {self.size}")
        if self.map is not None and size:
            return _core.asarray(memoryview(self.map)[start : start + size])
        made = _core.empty(size, dtype=_core.uint8)
        self.file.seek(start)
        to, done = memoryview(made), 0
        while done < size:
            piece: Any = self.file.read(min(size - done, 1 << 24)) if not hasattr(self.file, "readinto") else None
            if piece is None:
                count = self.file.readinto(to[done:])  # type: ignore[attr-defined]
            else:
                to[done : done + len(piece)], count = piece, len(piece)
            if not count:
                raise RuntimeError(f"[load] '{self.label}' became shorter while it was read")
            done += count
        return made


def label_of(f: Any) -> str:
    """A path, or what a file object is, for messages."""
    if isinstance(f, str | bytes | os.PathLike):
        return os.fsdecode(f)
    name = getattr(f, "name", None)
    return name if isinstance(name, str) else type(f).__name__
