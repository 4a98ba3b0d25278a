"""Subclasses of Tensor: ``Tensor.__torch_function__``, which a subclass may override, and a way to leave it out."""

from __future__ import annotations

from . import _core
from ._core import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing takes longer to import than all else here
    from typing import Any

__all__ = ["DisableTorchFunctionSubclass"]


def torch_function(
    cls: Any, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
) -> Any:
    """What a function or method of tensors gives where an argument is of a subclass: its result, in the subclass.
    NotImplemented: another argument's type is not a base of this one."""
    if not all(issubclass(cls, t) for t in types):
        return NotImplemented
    found = _core._disabled_torch_function_impl(func, types, args, kwargs or {})
    return _core._as_class(found, cls)


class DisableTorchFunctionSubclass:
    """In a ``with`` results are Tensors, and no ``__torch_function__`` is asked."""

    def __enter__(self) -> None:
        _core._plain_results(1)

    def __exit__(self, *exception: object) -> None:
        _core._plain_results(-1)


Tensor.__torch_function__ = classmethod(torch_function)  # type: ignore[method-assign, assignment]
