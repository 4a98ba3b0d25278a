"""``chainrule.nn.utils.stateless``: a module called with other parameters than its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..._core import Tensor
from ..module import BUFFER, PARAMETER, TRANSIENT, Module

__all__ = ["functional_call"]


def functional_call(
    module: Module,
    parameters_and_buffers: Mapping[str, Tensor] | Sequence[Mapping[str, Tensor]],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """``module(*args, **kwargs)`` with these tensors instead of its parameters and buffers, by
    full name; gradients reach them.  args: a tuple, or the one argument. tie_weights: a tensor that
    the module has under several names is replaced under all. strict: all must be given.  A buffer
    that the module assigns anew is not kept."""
    given: dict[str, Tensor] = {}
    for some in [parameters_and_buffers] if isinstance(parameters_and_buffers, Mapping) else parameters_and_buffers:
        if double := given.keys() & some.keys():
            raise ValueError(
                f"{sorted(double)} appear in multiple dictionaries; behavior of functional call is ambiguous"
            )
        given |= some
    homes = {
        f"{start}.{name}" if start else name: (part, name)
        for start, part in module.named_modules(remove_duplicate=False)
        for name, value in part._own(PARAMETER, BUFFER, TRANSIENT)
        if value is not None
    }
    before = {key: part._value_of(name) for key, (part, name) in homes.items()}
    unexpected, missing = [k for k in given if k not in homes], [k for k in homes if k not in given]
    if tie_weights:
        names: dict[int, list[str]] = {}
        for key in given.keys() & homes.keys():
            names.setdefault(id(before[key]), []).append(key)
        if several := [sorted(keys) for keys in names.values() if len({id(given[key]) for key in keys}) > 1]:
            raise ValueError(
                f"functional_call got multiple values for keys {several[0]}, which are tied. Consider using"
                " tie_weights=False"
            )
        shared = {id(value): given[key] for key, value in before.items() if key in given}
        given |= {k: shared[i] for k in missing if (i := id(before[k])) in shared}
        missing = [k for k in missing if k not in given]
    if strict and (unexpected or missing):
        problems = [
            f"{what} key(s): {', '.join(keys)}."
            for what, keys in (("Unexpected", unexpected), ("Missing", missing))
            if keys
        ]
        raise RuntimeError(f"Error(s) in reparametrizing for {type(module).__name__}: " + " ".join(problems))
    if unexpected:
        raise AttributeError(f"{type(module).__name__} has no parameter or buffer {unexpected[0]}")
    try:
        for key, value in given.items():
            part, name = homes[key]
            part._store_as(name, value)
        return module(*(() if args is None else args if isinstance(args, tuple) else (args,)), **(kwargs or {}))
    finally:
        for key in given:
            part, name = homes[key]
            part._store_as(name, before[key])
