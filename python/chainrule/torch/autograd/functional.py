"""Products with Jacobians, and whole Jacobians and Hessians, by rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import chainrule as cr

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

Tensors = Any  # a Tensor, or a tuple of them


def _tuple(x: Tensors) -> tuple[cr.Tensor, ...]:
    return tuple(x) if isinstance(x, tuple | list) else (x,)


def _like(x: tuple[Any, ...], template: Tensors) -> Any:
    return x if isinstance(template, tuple | list) else x[0]


def _leaves(inputs: Tensors, create_graph: bool) -> tuple[cr.Tensor, ...]:
    """Inputs that require gradients: their own, in a graph that shall go on, else leaves."""
    if create_graph:
        return tuple(x.view_as(x) if x.requires_grad else x.detach().requires_grad_() for x in _tuple(inputs))
    return tuple(x.detach().requires_grad_() for x in _tuple(inputs))


def _grad(outputs: Any, inputs: Any, cotangents: Any, create_graph: bool, strict: bool) -> tuple[cr.Tensor, ...]:
    """The gradients, zeros where there is none."""
    pairs = [(y, g) for y, g in zip(outputs, cotangents, strict=True) if y.requires_grad]
    found: tuple[cr.Tensor | None, ...] = (None,) * len(inputs)
    if pairs:
        found = cr.autograd.grad(
            [y for y, _ in pairs], inputs, [g for _, g in pairs], True, create_graph, allow_unused=True
        )
    if strict and any(g is None for g in found):
        raise RuntimeError("The output of the user-provided function is independent of an input (strict=True).")
    return tuple(cr.zeros_like(x) if g is None else g for x, g in zip(inputs, found, strict=True))


def jacobian(
    func: Callable[..., Any],
    inputs: Tensors,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """d func(*inputs) / d inputs : of an output (...) and an input (...') the shape is (..., ...')."""
    with cr.enable_grad():
        xs = _leaves(inputs, create_graph)
        output = func(*xs)
        rows = []
        for y in _tuple(output):
            each: list[list[cr.Tensor]] = [[] for _ in xs]
            for k in range(y.numel()):
                one = cr.zeros(y.numel(), dtype=y.dtype, device=y.device)
                one[k] = 1
                for column, g in zip(each, _grad([y], xs, [one.view(y.shape)], create_graph, strict), strict=True):
                    column.append(g)
            rows.append(
                tuple(
                    cr.stack(column).view((*y.shape, *x.shape)) if column else cr.zeros((*y.shape, *x.shape))
                    for column, x in zip(each, xs, strict=True)
                )
            )
    return _like(tuple(_like(row, inputs) for row in rows), output)


def hessian(
    func: Callable[..., Any],
    inputs: Tensors,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The second derivatives of a function with one number as its result."""

    def gradient(*xs: cr.Tensor) -> Any:
        y = func(*xs)
        if not isinstance(y, cr.Tensor) or y.numel() != 1:
            raise RuntimeError("The function given to hessian should return a single Tensor with a single element.")
        found = _grad([y], xs, [cr.ones_like(y)], True, strict)
        return _like(found, inputs)

    return jacobian(gradient, inputs, create_graph, strict)


def _cotangent(v: Tensors, template: Tensors, what: str) -> tuple[cr.Tensor, ...]:
    if v is None:
        if len(_tuple(template)) != 1 or _tuple(template)[0].numel() != 1:
            raise RuntimeError(f"The vector v can only be None if {what} is a single Tensor with a single element.")
        return (cr.ones_like(_tuple(template)[0]),)
    vs = _tuple(v)
    if [x.shape for x in vs] != [x.shape for x in _tuple(template)]:
        raise RuntimeError(
            f"v has sizes {[tuple(x.shape) for x in vs]}, {what} {[tuple(x.shape) for x in _tuple(template)]}"
        )
    return vs


def vjp(
    func: Callable[..., Any], inputs: Tensors, v: Tensors = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """(func(*inputs), v^T J)"""
    with cr.enable_grad():
        xs = _leaves(inputs, create_graph)
        output = func(*xs)
        ys = _tuple(output)
        found = _grad(ys, xs, _cotangent(v, output, "the output"), create_graph, strict)
    return output if create_graph else _like(tuple(y.detach() for y in ys), output), _like(found, inputs)


def jvp(
    func: Callable[..., Any], inputs: Tensors, v: Tensors = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """(func(*inputs), J v), by two walks backward: v^T J is linear in v, and its gradient is J v."""
    with cr.enable_grad():
        xs = _leaves(inputs, create_graph)
        vs = _cotangent(v, inputs, "the input")
        output = func(*xs)
        ys = _tuple(output)
        dummies = tuple(cr.zeros_like(y).requires_grad_() for y in ys)
        back = _grad(ys, xs, dummies, True, strict)
        found = _grad(back, dummies, vs, create_graph, False)
    return output if create_graph else _like(tuple(y.detach() for y in ys), output), _like(found, output)


def vhp(
    func: Callable[..., Any], inputs: Tensors, v: Tensors = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """(func(*inputs), v^T H) of a function with one number as its result."""
    with cr.enable_grad():
        xs = _leaves(inputs, create_graph)
        vs = _cotangent(v, inputs, "the input")
        y = func(*xs)
        first = _grad([y], xs, [cr.ones_like(y)], True, strict)
        found = _grad(first, xs, vs, create_graph, False)
    return y if create_graph else y.detach(), _like(found, inputs)


hvp = vhp  # the Hessian is symmetric
