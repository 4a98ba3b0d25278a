"""``torch._C``: the few parts inside PyTorch that other packages call and that have a meaning here."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import chainrule as cr

from . import _names, legacy
from .legacy import _TensorMeta as _TensorMeta

__getattr__ = _names.forward(__name__, names={"_LinAlgError": "chainrule.torch.linalg"})


def _parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
    """(device, dtype, non_blocking, memory_format) of the arguments of ``Tensor.to``."""
    names = {"device": None, "dtype": None, "non_blocking": False, "memory_format": None, "copy": False}
    found, rest = names | kwargs, list(args)
    if rest and isinstance(rest[0], cr.Tensor):
        found["device"], found["dtype"] = rest[0].device, rest.pop(0).dtype
    elif rest and not isinstance(rest[0], cr.dtype):
        found["device"] = rest.pop(0)
    if rest and (rest[0] is None or isinstance(rest[0], cr.dtype)):
        found["dtype"] = rest.pop(0)
    if rest:
        found["non_blocking"] = rest.pop(0)
    device = None if found["device"] is None else legacy.device(found["device"])
    return device, found["dtype"], bool(found["non_blocking"]), found["memory_format"]


_nn = SimpleNamespace(_parse_to=_parse_to)
Generator, Size, device, dtype = cr.Generator, cr.Size, legacy.device, cr.dtype
Node = cr.Node


def _disabled_torch_function_impl(func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """What a subclass of Tensor names to keep plain results."""
    return func(*args, **(kwargs or {}))
