"""Tensors over memory of other owners: buffers, files, and memory that processes share."""

from __future__ import annotations

import os
from typing import Any
from weakref import finalize

import chainrule as cr


def over(memory: Any, dtype: cr.dtype) -> cr.Tensor:
    """A vector over memory with Python's buffer protocol."""
    codes: dict[cr.dtype, Any] = {
        cr.float32: "f",
        cr.float64: "d",
        cr.float16: "e",
        cr.uint8: "B",
        cr.int8: "b",
        cr.int16: "h",
    }
    codes |= {cr.int32: "i", cr.int64: "q", cr.bool: "?"}
    if dtype not in codes:
        raise NotImplementedError(f"no memory of another owner holds {dtype}: Python has no code for it")
    return cr.asarray(memoryview(memory).cast("B").cast(codes[dtype]), copy=False)


def from_file(
    filename: str, shared: bool | None = None, size: int | None = 0, *, dtype: cr.dtype | None = None, **options: Any
) -> cr.Tensor:
    """A vector of ``size`` elements over a file; shared: writing to it writes to the file."""
    from mmap import ACCESS_COPY, ACCESS_WRITE, mmap

    kind = dtype or cr.get_default_dtype()
    bytes_ = (size or 0) * kind.itemsize
    with open(filename, "r+b" if shared else "rb") as file:
        memory = mmap(file.fileno(), bytes_, access=ACCESS_WRITE if shared else ACCESS_COPY)
    return over(memory, kind)


# ---- shared memory: files that have no name once the tensor that made them is gone


def _mapped(path: str, shape: Any, dtype: cr.dtype) -> cr.Tensor:
    """A tensor over a file."""
    from mmap import mmap

    fd = os.open(path, os.O_RDWR)
    try:
        return over(mmap(fd, 0), dtype).view(shape)
    finally:
        os.close(fd)


def _remove(path: str, owner: int) -> None:
    if os.getpid() == owner and os.path.exists(path):
        os.unlink(path)


def share(t: cr.Tensor) -> cr.Tensor:
    """Moves the elements of a tensor to shared memory; the tensor itself."""
    from tempfile import mkstemp

    if getattr(t, "_shared", None) is not None or not t.numel():
        return t
    if t.device.type != "cpu":
        raise RuntimeError(f"share_memory_: the tensor is on {t.device}, and processes share the memory of the cpu")
    fd, path = mkstemp(prefix="chainrule-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    finalize(t, _remove, path, os.getpid())
    os.ftruncate(fd, t.nbytes)
    os.close(fd)
    shared = _mapped(path, t.shape, t.dtype)
    with cr.no_grad():
        shared.copy_(t.detach())
    t.data = shared
    t._shared = path  # type: ignore[attr-defined]
    return t


def opened(path: str, shape: Any, dtype: cr.dtype, kind: type, requires_grad: bool) -> cr.Tensor:
    """A tensor over shared memory that another process made."""
    t = _mapped(path, shape, dtype)
    found: cr.Tensor = t.requires_grad_(requires_grad) if kind is cr.Tensor else cr._core._alias(t, kind, requires_grad)
    found._shared = path  # type: ignore[attr-defined]
    return found
