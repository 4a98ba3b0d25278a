"""Weights in several safetensors files, with an index: ``model-00001-of-00002.safetensors``, ... and
``model.safetensors.index.json``, which says the file of each tensor.  Hugging Face's layout."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from typing import Any

from .. import _core
from .._core import Tensor
from .replace import replaced

__all__ = ["find_index", "load_sharded", "save_sharded"]

INDEX = ".safetensors.index.json"
UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "B": 1, "": 1}


def bytes_of(size: int | str) -> int:
    """5_000_000 of "5MB".  ValueError: no size."""
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)", str(size).strip())
    if not found or found[2].upper() not in UNITS or float(found[1]) <= 0:
        raise ValueError(f"max_shard_size is a number of bytes or a text as '5GB', not {size!r}")
    return int(float(found[1]) * UNITS[found[2].upper()])


def save_sharded(
    tensors: Mapping[str, Tensor],
    folder: str | os.PathLike[str],
    max_shard_size: int | str = "5GB",
    prefix: str = "model",
) -> list[str]:
    """Writes tensors into ``folder`` as safetensors files of at most ``max_shard_size`` each (a larger
    tensor has a file of its own), in their order, and an index; one file without an index where all
    fit in.  Returns the names of the files.  The index is written last, and files of an earlier save
    are removed after it."""
    most = bytes_of(max_shard_size)
    shards: list[dict[str, Tensor]] = [{}]
    size = 0
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise TypeError(f"save_sharded(): '{name}' is a {type(tensor).__name__}, not a Tensor")
        if shards[-1] and size + tensor.nbytes > most:
            shards.append({})
            size = 0
        shards[-1][name] = tensor
        size += tensor.nbytes
    count = len(shards)
    names = [f"{prefix}-{i:05d}-of-{count:05d}.safetensors" for i in range(1, count + 1)]
    names = names if count > 1 else [f"{prefix}.safetensors"]
    os.makedirs(folder, exist_ok=True)
    for file, shard in zip(names, shards, strict=True):
        _core._save_safetensors(shard, os.path.join(folder, file))
    index = os.path.join(folder, prefix + INDEX)
    if count > 1:
        total = sum(tensor.nbytes for tensor in tensors.values())
        places = {name: file for file, shard in zip(names, shards, strict=True) for name in shard}
        with replaced(index) as f:
            f.write(json.dumps({"metadata": {"total_size": total}, "weight_map": places}, indent=2).encode())
    elif os.path.exists(index):
        os.remove(index)
    shard_of_ours = re.compile(rf"{re.escape(prefix)}(-\d{{5}}-of-\d{{5}})?\.safetensors")
    for old in os.listdir(folder):
        if shard_of_ours.fullmatch(old) and old not in names:
            os.remove(os.path.join(folder, old))
    return names


def find_index(folder: str) -> str | None:
    """The index, or the only safetensors file, in a folder; None: it has neither.  OSError: it has several."""
    files = sorted(os.listdir(folder))
    found = [f for f in files if f.endswith(INDEX)] or [f for f in files if f == "model.safetensors"]
    if len(found) > 1:
        raise OSError(f"[load] '{folder}' has several indices: {', '.join(found)}")
    return os.path.join(folder, found[0]) if found else None


def load_sharded(index: str, read: Callable[[str], dict[str, Tensor]]) -> dict[str, Tensor]:
    """The tensors of all files of an index, in its order.  OSError: it is damaged, names files outside
    of its folder, or a file lacks a tensor."""
    try:
        with open(index, encoding="utf-8") as f:
            places: Any = json.load(f)["weight_map"]
        if not isinstance(places, dict):
            raise TypeError("weight_map is not an object")
        for name, file in places.items():
            if not isinstance(file, str) or os.path.basename(file) != file or file in ("", ".", ".."):
                raise ValueError(f"'{name}' is in {file!r}, which is not a file of its folder")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise OSError(f"[load] '{index}' is not an index of safetensors files: {error}") from None
    folder = os.path.dirname(index)
    parts = {file: read(os.path.join(folder, file)) for file in dict.fromkeys(places.values())}
    lacking = [f"'{name}' in {file}" for name, file in places.items() if name not in parts[file]]
    if lacking:
        raise OSError(f"[load] '{index}' names tensors that are not there: {', '.join(lacking[:5])}")
    return {name: parts[file][name] for name, file in places.items()}
