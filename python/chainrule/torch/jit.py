"""``torch.jit``: functions and modules as they are; chainrule's ops are compiled already."""

from __future__ import annotations

from typing import Any, Final

from chainrule.nn import Module as ScriptModule

from . import _names

__getattr__ = _names.forward(__name__)
__all__ = [
    "Final",
    "ScriptModule",
    "export",
    "freeze",
    "ignore",
    "is_scripting",
    "is_tracing",
    "script",
    "trace",
    "unused",
]


def script(obj: Any, *args: Any, **options: Any) -> Any:
    """The function, class or module as it is."""
    return obj


def trace(func: Any, example_inputs: Any = None, *args: Any, **options: Any) -> Any:
    """The function or module as it is; it is called once with the example, as PyTorch does."""
    if example_inputs is not None:
        func(*(example_inputs if type(example_inputs) in (tuple, list) else (example_inputs,)))
    return func


def freeze(mod: Any, *args: Any, **options: Any) -> Any:
    """The module as it is."""
    return mod


optimize_for_inference = freeze
trace_module = freeze


def export(fn: Any) -> Any:
    """The method as it is."""
    return fn


script_method = interface = export


def ignore(drop: Any = False, **options: Any) -> Any:
    """A decorator, with or without arguments: the function as it is."""
    return drop if callable(drop) else lambda fn: fn


unused = ignore


def annotate(the_type: Any, the_value: Any) -> Any:
    """The value."""
    return the_value


def isinstance(obj: Any, target_type: Any) -> bool:  # noqa: A001, PyTorch's name
    """Python's isinstance, also of list[int] and the like by their origin."""
    import builtins

    return builtins.isinstance(obj, getattr(target_type, "__origin__", target_type))


def is_scripting() -> bool:
    """False: Python runs the function."""
    return False


is_tracing = is_scripting


def save(m: Any, f: Any, *args: Any, **options: Any) -> None:
    """NotImplementedError: there are no script modules to save."""
    raise NotImplementedError(
        "torch.jit.save writes a program of PyTorch's; save the weights with torch.save(model.state_dict(), path)"
    )


def load(f: Any, *args: Any, **options: Any) -> Any:
    """NotImplementedError: there are no script modules to load."""
    raise NotImplementedError(
        f"torch.jit.load: {f} is a program of PyTorch's; load the weights with model.load_state_dict(torch.load(path))"
    )
