"""Pickles of any class, for ``load(weights_only=False)``: Python's own unpickler, with PyTorch's names
taken for chainrule's.  It runs code that the file names."""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from .pickles import Allowed

__all__ = ["unpickle"]


def _class_here(name: str) -> Any:
    """chainrule's class or function of a name of PyTorch's; None: there is none."""
    from .. import _core, nn, optim

    for module in (nn, optim, optim.lr_scheduler, nn.functional, nn.init, _core):
        if hasattr(module, name) and not name.startswith("_"):
            return getattr(module, name)
    return None


class Unpickler(pickle.Unpickler):
    """names, persistent, context: as of ``pickles.interpret``."""

    def __init__(
        self, file: io.BytesIO, names: Callable[[str], Any], persistent: Callable[[Any], Any], context: Any
    ) -> None:
        super().__init__(file)
        self.names, self.persistent, self.context = names, persistent, context

    def persistent_load(self, pid: Any) -> Any:
        return self.persistent(pid)

    def find_class(self, module: str, name: str) -> Any:
        if module.partition(".")[0] != "torch":
            return super().find_class(module, name)
        if name in CLASSES:
            return CLASSES[name]()
        found = self.names(f"{module}.{name}")
        if isinstance(found, Allowed):
            return partial(found.call, self.context)
        found = _class_here(name) if found is None else found
        if found is not None:
            return found
        if "torch" in sys.modules:  # of a script that uses it
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"chainrule has no {module}.{name}")


def _tensor_class() -> Any:
    from .. import Tensor

    return Tensor


def _parameter_class() -> Any:
    from ..nn.parameter import Parameter

    return Parameter


CLASSES = {"Tensor": _tensor_class, "Parameter": _parameter_class}


def unpickle(
    data: memoryview,
    at: int,
    label: str,
    names: Callable[[str], Any],
    persistent: Callable[[Any], Any],
    context: Any,
) -> tuple[Any, int]:
    """The object of a pickle, and where the pickle ends."""
    file = io.BytesIO(data[at:])
    try:
        return Unpickler(file, names, persistent, context).load(), at + file.tell()
    except pickle.UnpicklingError as error:
        raise pickle.UnpicklingError(f"[load] '{label}': {error}") from None
