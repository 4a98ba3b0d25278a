"""``torch.autograd.function``: Function and what decorates its methods."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import chainrule as cr
from chainrule import _core
from chainrule.autograd import Function as Function
from chainrule.autograd import _Context as FunctionCtx

__all__ = ["Function", "FunctionCtx", "InplaceFunction", "once_differentiable"]

InplaceFunction = Function


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """A backward whose own operations are not recorded: a derivative of what it returns is a RuntimeError."""

    def refuse(*_: Any) -> Any:
        raise RuntimeError("trying to differentiate twice a function that was marked with @once_differentiable")

    @wraps(backward)
    def run(ctx: Any, *grads: Any) -> Any:
        with cr.no_grad():
            found = backward(ctx, *grads)
        sources = [g for g in grads if isinstance(g, cr.Tensor) and g.requires_grad]
        results = list(found) if isinstance(found, tuple) else [found]
        at = [i for i, x in enumerate(results) if isinstance(x, cr.Tensor)]
        if not cr.is_grad_enabled() or not sources or not at:
            return found
        for i, x in zip(at, _core._record("Error", sources, [results[i] for i in at], [], refuse, ()), strict=True):
            results[i] = x
        return tuple(results)

    return run
