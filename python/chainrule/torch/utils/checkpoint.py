"""Activation checkpointing under PyTorch's names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, nullcontext
from copy import copy
from typing import Any

import chainrule as cr
from chainrule import _core, amp

from .. import _names

__getattr__ = _names.forward(__name__)
__all__ = ["CheckpointFunction", "checkpoint", "checkpoint_sequential", "get_device_states", "set_device_states"]


def _tensors(x: Any) -> list[cr.Tensor]:
    """The tensors of graphs in tuples, lists and dictionaries."""
    if isinstance(x, cr.Tensor):
        return [x] if x.requires_grad else []
    items = x.values() if isinstance(x, dict) else x if isinstance(x, (list, tuple)) else ()
    return [t for item in items for t in _tensors(item)]


def _with(x: Any, tensors: Iterator[cr.Tensor]) -> Any:
    """x with others in the places of these tensors."""
    if isinstance(x, cr.Tensor):
        return next(tensors) if x.requires_grad else x
    if isinstance(x, dict):
        y: Any = copy(x)
        for key, value in x.items():
            y[key] = _with(value, tensors)
        return y
    if isinstance(x, (list, tuple)):
        found = [_with(v, tensors) for v in x]
        return type(x)(*found) if hasattr(x, "_fields") else type(x)(found)
    return x


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
    context_fn: Any = None,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """``function(*args, **kwargs)`` without its intermediate tensors: backward runs it again to have them, and goes on
    in the graph of that run, so second derivatives and hooks inside are those of the function.
    preserve_rng_state: with the same random numbers."""
    if not cr.is_grad_enabled():
        return function(*args, **kwargs)
    contexts = context_fn() if context_fn is not None else (nullcontext(), nullcontext())
    given = [x for x in (*args, *kwargs.values()) if isinstance(x, cr.Tensor)]
    versions = [x._version for x in given]
    kinds = {x.device.type for x in given} if _core._autocasting() else ()
    casts = [amp.autocast(k, amp.get_autocast_dtype(k), amp.is_autocast_enabled(k), False) for k in kinds]
    state, mark = cr.get_rng_state(), _core._graph_mark()

    def run_again(grads: tuple[cr.Tensor | None, ...], needs: Any, saved: Any, frees: bool) -> list[None]:
        _core._record_recomputes("checkpoint")
        if versions != [x._version for x in given]:
            raise RuntimeError("an argument of a function under checkpoint was modified by an inplace operation")
        with cr.random.fork_rng(enabled=preserve_rng_state), cr.enable_grad(), ExitStack() as within:
            for region in (*casts, contexts[1]):
                within.enter_context(region)
            if preserve_rng_state:
                cr.set_rng_state(state)
            results = _tensors(function(*args, **kwargs))
        if len(results) != len(grads):
            raise RuntimeError(
                f"checkpoint: the function gave {len(grads)} tensors that require gradients the first time,"
                f" {len(results)} the second"
            )
        for y, g in zip(results, grads, strict=True):
            if g is not None:
                _core._backward_through(y, g)
        return [None] * len(needs)

    with contexts[0]:
        found = function(*args, **kwargs)
    results = _tensors(found)
    return _with(found, iter(_core._record_again("checkpoint", mark, results, run_again))) if results else found


class CheckpointFunction:
    """``checkpoint`` as PyTorch's reversible networks call it."""

    @staticmethod
    def apply(run_function: Callable[..., Any], preserve_rng_state: bool, *args: Any) -> Any:
        return checkpoint(run_function, *args, use_reentrant=True, preserve_rng_state=preserve_rng_state)


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The tensors outside the graph, each with its requires_grad."""
    return tuple(x.detach().requires_grad_(x.requires_grad) if isinstance(x, cr.Tensor) else x for x in inputs)


def get_device_states(*args: Any) -> tuple[list[int], list[cr.Tensor]]:
    """The numbers of the GPUs that hold the arguments, and their states: one generator serves all devices."""
    found = sorted({x.device.index or 0 for x in args if isinstance(x, cr.Tensor) and x.is_cuda})
    return found, [cr.get_rng_state() for _ in found]


def set_device_states(devices: Sequence[int], states: Sequence[cr.Tensor], *, device_type: str | None = None) -> None:
    """Continues where the states were taken."""
    for state in states:
        cr.set_rng_state(state)


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """Runs modules in a row, all but the last of ``segments`` parts as checkpoints."""
    modules: Sequence[Any] = list(functions.children()) if isinstance(functions, cr.nn.Module) else list(functions)
    size = len(modules) // segments

    def run(part: Sequence[Any]) -> Callable[[Any], Any]:
        def forward(x: Any) -> Any:
            for module in part:
                x = module(x)
            return x

        return forward

    for i in range(segments - 1):
        input = checkpoint(run(modules[i * size : (i + 1) * size]), input, **kwargs)
    return run(modules[(segments - 1) * size :])(input)
