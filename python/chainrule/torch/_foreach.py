"""``torch._foreach_add(tensors, ...)`` and its relatives: the method of this name of each tensor of a list."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import chainrule as cr

# Methods that take a number by keyword only, where _foreach_* take it, or one for each tensor, as the last argument.
_VALUED = ("addcmul", "addcdiv")


def _lists(name: str, tensors: Any, args: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """The arguments of each call: a list has one for each tensor, anything else serves all."""
    if not isinstance(tensors, list | tuple):
        raise TypeError(f"{name}(): argument 'self' must be a list or tuple of Tensors, not {type(tensors).__name__}")
    if not tensors:
        raise RuntimeError(f"{name}: Tensor list must have at least one tensor.")
    for i, t in enumerate(tensors):
        if not isinstance(t, cr.Tensor):
            raise TypeError(f"{name}(): element {i} of argument 'self' must be Tensor, not {type(t).__name__}")
    for x in args:
        if isinstance(x, list | tuple) and len(x) != len(tensors):
            raise RuntimeError(
                f"{name}: Tensor lists must have the same number of tensors, got {len(tensors)} and {len(x)}"
            )
    each = [x if isinstance(x, list | tuple) else [x] * len(tensors) for x in args]
    return list(zip(tensors, *each, strict=True))


def _run(name: str, tensors: Any, *args: Any, **options: Any) -> Any:
    op = name.removeprefix("_foreach_")
    method = getattr(cr.Tensor, op)
    last = options.pop("scalars", options.pop("value", None)) if op.rstrip("_") in _VALUED else None
    calls = _lists(name, tensors, args if last is None else (*args, last))
    for key in ("scalars", "weights", "weight", "other", "exponent"):  # the same arguments by name
        if key in options:
            value = options.pop(key)
            calls = [(*call, *x[1:]) for call, x in zip(calls, _lists(name, tensors, (value,)), strict=True)]
    if op.rstrip("_") in _VALUED and len(calls[0]) == 4:
        results = [method(t, a, b, value=_number(v)) for t, a, b, v in calls]
    else:
        results = [method(*call, **options) for call in calls]
    return tensors if name.endswith("_") else results


def _number(x: Any) -> Any:
    return x.item() if isinstance(x, cr.Tensor) else x


def function(name: str) -> Callable[..., Any]:
    """The function ``_foreach_<method>``.  AttributeError: tensors have no such method."""
    getattr(cr.Tensor, name.removeprefix("_foreach_"))
    return partial(_run, name)
