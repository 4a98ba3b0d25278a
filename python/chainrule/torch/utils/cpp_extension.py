"""``torch.utils.cpp_extension``: C++ extensions of PyTorch cannot be loaded; each use says so."""

from __future__ import annotations

from typing import Any

from .._advice import message

CUDA_HOME = None


def _refused(name: str) -> Any:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(message(f"torch.utils.cpp_extension.{name}"))

    refuse.__name__ = name
    return refuse


load, load_inline = _refused("load"), _refused("load_inline")
CppExtension, CUDAExtension, BuildExtension = (
    _refused("CppExtension"),
    _refused("CUDAExtension"),
    _refused("BuildExtension"),
)
_get_build_directory, include_paths = _refused("_get_build_directory"), _refused("include_paths")
