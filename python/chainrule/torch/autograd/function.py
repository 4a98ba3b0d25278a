"""``torch.autograd.function``: Function and what decorates its methods."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import chainrule as cr
from chainrule.autograd import Function as Function
from chainrule.autograd import _Context as FunctionCtx

__all__ = ["Function", "FunctionCtx", "InplaceFunction", "once_differentiable"]

InplaceFunction = Function


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """A backward whose own operations are not recorded."""

    @wraps(backward)
    def run(ctx: Any, *grads: Any) -> Any:
        with cr.no_grad():
            return backward(ctx, *grads)

    return run
