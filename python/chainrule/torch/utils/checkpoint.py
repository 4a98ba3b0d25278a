"""Activation checkpointing under PyTorch's names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import chainrule as cr
from chainrule import _core, amp

from .. import _names

__getattr__ = _names.forward(__name__)
__all__ = ["CheckpointFunction", "checkpoint", "checkpoint_sequential", "get_device_states", "set_device_states"]


class _Recomputed(cr.autograd.Function):
    """Runs a function without a graph, and again with one in backward."""

    @staticmethod
    def forward(ctx: Any, function: Callable[..., Any], kwargs: dict[str, Any], keep: bool, *args: Any) -> Any:
        ctx.function, ctx.kwargs, ctx.keep = function, kwargs, keep
        ctx.state = cr.get_rng_state()
        kinds = {x.device.type for x in args if isinstance(x, cr.Tensor)} if _core._autocasting() else ()
        ctx.casts = [amp.autocast(k, amp.get_autocast_dtype(k), amp.is_autocast_enabled(k), False) for k in kinds]
        ctx.at = [i for i, x in enumerate(args) if isinstance(x, cr.Tensor)]
        ctx.rest = [None if i in ctx.at else x for i, x in enumerate(args)]
        ctx.save_for_backward(*[args[i] for i in ctx.at])
        return function(*args, **kwargs)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        args = list(ctx.rest)
        for i, x, needs in zip(ctx.at, ctx.saved_tensors, [ctx.needs_input_grad[3 + i] for i in ctx.at], strict=True):
            args[i] = x.detach().requires_grad_(needs)
        with cr.random.fork_rng(enabled=ctx.keep), cr.enable_grad(), ExitStack() as casts:
            for region in ctx.casts:
                casts.enter_context(region)
            if ctx.keep:
                cr.set_rng_state(ctx.state)
            found = ctx.function(*args, **ctx.kwargs)
        results = [found] if isinstance(found, cr.Tensor) else list(found)
        wanted = [
            (y, g)
            for y, g in zip(results, grads, strict=True)
            if isinstance(y, cr.Tensor) and y.requires_grad and g is not None
        ]
        if wanted:
            cr.autograd.backward([y for y, _ in wanted], [g for _, g in wanted])
        return (None, None, None, *[args[i].grad if i in ctx.at else None for i in range(len(args))])


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
    """``function(*args, **kwargs)`` without its intermediate tensors: backward runs it again to have them.
    preserve_rng_state: with the same random numbers."""
    if not cr.is_grad_enabled():
        return function(*args, **kwargs)
    anchor = cr.zeros((), requires_grad=True)  # so that parameters get gradients where no argument requires one
    return _Recomputed.apply(_Dropped(function), kwargs, preserve_rng_state, *args, anchor)


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


class _Dropped:
    """A function without its last argument."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args[:-1], **kwargs)


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
