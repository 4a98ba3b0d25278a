"""Files: ``save`` and ``load`` in PyTorch's format, safetensors, and shards.

``save(obj, "model.pt")`` writes any nest of dicts, lists, tuples, sets, tensors, parameters, sizes,
dtypes, devices, numbers and texts; ``torch.load`` reads it, and ``load`` reads what ``torch.save``
wrote, without PyTorch.  Tensors that share memory share it again after loading.  A path that ends in
.safetensors becomes a safetensors file, of a dict of tensors.

``load`` runs no code: a name in the file is looked up in a list of allowed names, and any other name
is an UnpicklingError.  ``add_safe_globals`` adds classes of the program to the list."""

from __future__ import annotations

import io
import os
import pickle
import stat
from collections.abc import Callable
from typing import Any

from .. import _core
from .._core import Device, Tensor
from .archive import read_directory
from .pickles import Foreign, add_safe_globals, clear_safe_globals, get_safe_globals, interpret, safe_globals
from .replace import replaced
from .sharded import find_index, load_sharded, save_sharded
from .source import Source, label_of
from .tensors import Locate, Tensors, locator

__all__ = [
    "add_safe_globals",
    "clear_safe_globals",
    "get_safe_globals",
    "load",
    "safe_globals",
    "save",
    "save_sharded",
]

PATHS = (str, bytes, os.PathLike)


# ---- save ----
def save(
    obj: object,
    f: Any,
    pickle_module: Any = None,
    pickle_protocol: int | None = None,
    _use_new_zipfile_serialization: bool | None = None,
) -> None:
    """Writes ``obj`` in PyTorch's zip format, from which ``torch.load`` reads it.

    f: a path, whose file is replaced when the new one is complete, or a file object with ``write``.
    A path that ends in .safetensors becomes a safetensors file; ``obj`` is then a dict str ->
    Tensor. Memory is written once for all tensors that share it, and as a whole: clone a small part
    of a large tensor first.  Gradients and graphs are not saved.  Objects of other classes, as
    whole modules, are pickled by the names of their classes, for ``load(weights_only=False)``.
    pickle_protocol: 2, which every reader knows.  _use_new_zipfile_serialization=False: the format
    before the zip format.
    TypeError: f is neither a path nor a file object.  ValueError: a name that ends in .gguf, the
    format that models write.  OSError: the file cannot be written."""
    from .writer import write_archive, write_legacy

    if pickle_module not in (None, pickle):
        raise ValueError(f"save(): pickle_module is Python's own pickle, not {pickle_module}")
    path = os.fsdecode(f) if isinstance(f, PATHS) else None
    protocol = 2 if pickle_protocol is None else pickle_protocol
    old = _use_new_zipfile_serialization is not None and not _use_new_zipfile_serialization
    if path is not None and path.endswith(".safetensors"):
        _core._save_safetensors(obj, f)
    elif path is not None and path.endswith(".gguf"):
        raise ValueError(f"save(): '{path}': a model writes a GGUF file, with its save_gguf")
    elif path is not None:
        with replaced(path, follow=True) as file:
            if old:
                write_legacy(obj, file, protocol)
            else:
                write_archive(obj, file, path, protocol)
    elif not callable(getattr(f, "write", None)):
        raise TypeError(f"save(): argument 'f' must be a path or a file object, not {type(f).__name__}")
    elif old:
        write_legacy(obj, f, protocol)
    else:
        write_archive(obj, f, None, protocol)


# ---- load ----
def _unpickle(
    data: memoryview,
    at: int,
    label: str,
    names: Callable[[str], Any],
    persistent: Callable[[Any], Any],
    context: Any,
) -> tuple[Any, int]:
    return interpret(data, label, names, persistent, context, at)


def _read_archive(source: Source, locate: Locate, unpickle: Any) -> Any:
    label = source.label
    records, source.end = read_directory(source.file, label, source.begin, source.size)
    if "data.pkl" not in records:
        raise RuntimeError(f"[load] '{label}': a zip archive without data.pkl: no file of torch.save")
    if "constants.pkl" in records:
        raise RuntimeError(f"[load] '{label}' is a TorchScript archive, which holds a program; save the state_dict")

    def content(name: str) -> bytes:
        return bytes(source.bytes(*records[name])) if name in records else b""

    byteorder = content("byteorder").decode("ascii", "replace") or "little"
    if byteorder not in ("little", "big"):
        raise RuntimeError(f"[load] '{label}': the byte order {byteorder!r:.40}")

    def storage(key: str, size: int) -> Tensor:
        record = records.get(f"data/{key}")
        if record is None:
            raise ValueError(f"there is no record 'data/{key}'")
        if not size <= record.size < size + 8:  # a typed storage may have a rest
            raise ValueError(f"the storage '{key}' has {size} bytes, its record {record.size}")
        return source.storage(record.start, size)

    tensors = Tensors(locate, storage, byteorder)
    data = source.bytes(*records["data.pkl"])
    return unpickle(data, 0, label, tensors.names, tensors.persistent, tensors)[0]


def _is_safetensors(head: bytes, size: int) -> bool:
    return len(head) > 8 and head[8:9] == b"{" and int.from_bytes(head[:8], "little") <= size - 8


def _read(source: Source, locate: Locate, unpickle: Any) -> Any:
    from .legacy import is_tar, read_sequence, read_tar

    source.file.seek(source.begin)
    head = source.file.read(512)
    if not head:
        raise EOFError(f"[load] '{source.label}': Ran out of input: the file is empty")
    if head[:4] == b"PK\3\4":
        return _read_archive(source, locate, unpickle)
    if source.map is not None:
        raise RuntimeError(
            f"[load] '{source.label}': mmap can only be used with files in the zip format, as torch.save writes them"
        )
    if is_tar(head):
        return read_tar(source, locate, unpickle)
    if head[:1] == b"\x80":
        return read_sequence(source, locate, unpickle)
    raise pickle.UnpicklingError(
        f"[load] '{source.label}' begins with {head[:8]!r}: it is neither a file of torch.save nor safetensors"
    )


def _tensors_on(map_location: Any, read: Callable[[Device | str | None], dict[str, Tensor]]) -> dict[str, Tensor]:
    """The tensors of a safetensors file, which names no devices, where they are to be."""
    if map_location is None or isinstance(map_location, str | Device):
        return read(map_location)
    locate = locator(map_location)
    return {name: locate(tensor, "cpu") for name, tensor in read(None).items()}


def _load_safetensors(path: Any, map_location: Any, mmap: bool | None) -> dict[str, Tensor]:
    tensors = _tensors_on(map_location, lambda device: _core._load_safetensors(path, device))
    return {name: x.clone() for name, x in tensors.items()} if mmap is False else tensors


def _load_path(f: Any, map_location: Any, mmap: bool | None, unpickle: Any) -> Any:
    path = os.fsdecode(f)
    kind = os.stat(f).st_mode
    index = find_index(path) if stat.S_ISDIR(kind) else path if path.endswith(".json") else None
    if index is not None and index.endswith(".json"):
        return load_sharded(index, lambda part: _load_safetensors(part, map_location, mmap))
    f = f if index is None else index
    if not stat.S_ISREG(kind) and index is None:  # a checkpoint's folder, or a mistake
        return _load_safetensors(f, map_location, mmap)
    with open(f, "rb") as file:
        head = file.read(9)
        if (
            head[:4] == b"GGUF"
            or _is_safetensors(head, os.fstat(file.fileno()).st_size)
            or os.fsdecode(f).endswith(".safetensors")
        ):
            return _load_safetensors(f, map_location, mmap)
        file.seek(0)
        source = Source(file, os.fsdecode(f), bool(mmap) and bool(head))
        return _read(source, locator(map_location), unpickle)


def _load_object(f: Any, map_location: Any, mmap: bool | None, unpickle: Any) -> Any:
    if mmap:
        raise ValueError(f"load(): mmap=True needs a path, not {type(f).__name__}")
    try:
        source = Source(f, label_of(f), False)
    except (AttributeError, io.UnsupportedOperation) as error:
        raise AttributeError(
            f"{error}. You can only load from a file that is seekable: read it into an io.BytesIO first"
        ) from None
    head = f.read(9)
    if not _is_safetensors(head, source.size - source.begin):
        found = _read(source, locator(map_location), unpickle)
        f.seek(source.end)
        return found
    import tempfile

    with tempfile.NamedTemporaryFile(suffix=".safetensors") as copy:
        copy.write(source.bytes(source.begin, source.size - source.begin))
        copy.flush()
        return _load_safetensors(copy.name, map_location, None)


def load(
    f: Any,
    map_location: Any = None,
    pickle_module: Any = None,
    weights_only: bool | None = True,
    mmap: bool | None = None,
) -> Any:
    """The object in a file of ``save`` or ``torch.save`` (zip, and the two older formats); the tensors
    of a safetensors or GGUF file, of the shards in a folder or of their index, or the weights in a
    checkpoint's folder, as a dict.  The content says which.

    f: a path or a seekable file object. map_location: the device for all tensors; a dict {device in
    the file: device here}; or a function (storage, device in the file) -> storage, which may return
    None; None: the device in the file. weights_only=False also unpickles objects of any class and
    runs code that the file names: only for files that you trust.  Classes of PyTorch become
    chainrule's.  mmap=True: tensors lie over the file, pages are read when they are touched, and
    writing does not change the file; safetensors always do, but with mmap=False. UnpicklingError:
    a damaged pickle, or a name that is not allowed. RuntimeError: a damaged archive, or a device
    that is not here.  A file object is then at the end of what was read, where another
    object may follow.  OSError: no such file, or damaged safetensors."""
    if weights_only is None or weights_only:
        if pickle_module is not None:
            raise RuntimeError(
                "Can not safely load weights when explicit pickle_module is specified: give weights_only=False"
            )
        unpickle: Any = _unpickle
    else:
        if pickle_module not in (None, pickle):
            raise ValueError(f"load(): pickle_module is Python's own pickle, not {pickle_module}")
        from .full import unpickle
    if not isinstance(f, PATHS) and not callable(getattr(f, "read", None)):
        raise TypeError(f"load(): argument 'f' must be a path or a file object, not {type(f).__name__}")
    try:
        return (_load_path if isinstance(f, PATHS) else _load_object)(f, map_location, mmap, unpickle)
    except Foreign as error:
        raise error.args[0] from None
