"""``torch.func``: transforms of functions that are gradients; ``vmap`` calls a function for each slice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import chainrule as cr
from chainrule.nn.utils.stateless import functional_call as functional_call

from . import _names
from .autograd import functional
from .utils._pytree import tree_flatten, tree_map, tree_unflatten

__getattr__ = _names.forward(__name__)


def grad_and_value(func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that gives (gradient, value) of ``func`` with respect to an argument, or several; an argument may be
    a nest of tensors."""
    numbers = argnums if isinstance(argnums, tuple) else (argnums,)

    def run(*args: Any, **kwargs: Any) -> Any:
        full = list(args)
        leaves: list[Any] = []
        specs = []
        with cr.enable_grad():
            for i in numbers:
                below, spec = tree_flatten(full[i])
                below = [x.view_as(x) if x.requires_grad else x.detach().requires_grad_() for x in below]
                specs.append((i, spec, len(below)))
                leaves += below
                full[i] = tree_unflatten(below, spec)
            found = func(*full, **kwargs)
            value = found[0] if has_aux else found
            nested = any(isinstance(x, cr.Tensor) and x.requires_grad for x in tree_flatten((args, kwargs))[0])
            grads = cr.autograd.grad(value, leaves, create_graph=nested, materialize_grads=True)
        out, at = [], 0
        for _, spec, n in specs:
            out.append(tree_unflatten(grads[at : at + n], spec))
            at += n
        result = tuple(out) if isinstance(argnums, tuple) else out[0]
        value = value if nested else value.detach()
        return (result, (value, found[1])) if has_aux else (result, value)

    return run


def grad(func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that gives the gradient of ``func``."""

    def run(*args: Any, **kwargs: Any) -> Any:
        found = grad_and_value(func, argnums, has_aux)(*args, **kwargs)
        return (found[0], found[1][1]) if has_aux else found[0]

    return run


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """(func(*primals), f): f of a cotangent is the gradients of the primals."""
    xs = tuple(x.view_as(x) if x.requires_grad else x.detach().requires_grad_() for x in primals)
    with cr.enable_grad():
        found = func(*xs)
    y = found[0] if has_aux else found
    ys = y if isinstance(y, tuple | list) else (y,)

    def back(*cotangents: Any) -> Any:
        given = cotangents[0] if len(cotangents) == 1 and isinstance(cotangents[0], tuple | list) else cotangents
        return cr.autograd.grad(list(ys), list(xs), list(given), retain_graph=True, materialize_grads=True)

    value = tree_map(lambda t: t.detach(), y)
    return (value, back, found[1]) if has_aux else (value, back)


def jvp(func: Callable[..., Any], primals: Any, tangents: Any) -> Any:
    """(func(*primals), J tangents)"""
    return functional.jvp(func, tuple(primals), tuple(tangents))


def jacrev(func: Callable[..., Any], argnums: Any = 0) -> Callable[..., Any]:
    """A function that gives the Jacobian of ``func`` with respect to an argument, or several."""
    several = isinstance(argnums, tuple)
    numbers = argnums if several else (argnums,)

    def run(*args: Any) -> Any:
        def of(*chosen: Any) -> Any:
            full = list(args)
            for i, x in zip(numbers, chosen, strict=True):
                full[i] = x
            return func(*full)

        nested = any(isinstance(x, cr.Tensor) and x.requires_grad for x in args)
        inputs = tuple(args[i] for i in numbers) if several else args[argnums]
        return functional.jacobian(of, inputs, create_graph=nested)

    return run


jacfwd = jacrev


def hessian(func: Callable[..., Any], argnums: int = 0) -> Callable[..., Any]:
    """A function that gives the second derivatives of ``func`` with respect to an argument."""
    return jacrev(jacrev(func, argnums), argnums)


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """A function that calls ``func`` for each slice of its arguments along ``in_dims`` and stacks the results along
    ``out_dims``: one call after the other.  in_dims: an axis, or None for the same at each call, for all arguments
    or for each.  randomness: "same" random numbers for all calls, "different" ones, or the "error" that there are
    any."""
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")

    def run(*args: Any, **kwargs: Any) -> Any:
        dims = in_dims if isinstance(in_dims, tuple | list) else (in_dims,) * len(args)
        if len(dims) != len(args):
            raise ValueError(f"vmap: {len(dims)} in_dims for {len(args)} arguments")
        sizes = {x.shape[d] for a, d in zip(args, dims, strict=True) if d is not None for x in tree_flatten(a)[0]}
        if len(sizes) != 1:
            raise ValueError(
                f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sorted(sizes)}"
            )

        def slice_of(a: Any, d: Any, i: int) -> Any:
            return a if d is None else tree_map(lambda x: x.select(d, i), a)

        generator = cr.default_generator
        before = generator.get_state()
        calls = []
        for i in range(sizes.pop()):
            if i and randomness == "same":
                generator.set_state(before)
            calls.append(func(*(slice_of(a, d, i) for a, d in zip(args, dims, strict=True)), **kwargs))
            if randomness == "error" and not cr.equal(generator.get_state(), before):
                raise RuntimeError(
                    "vmap: called random operation while in randomness error mode. Please either use the 'same' or"
                    " 'different' randomness flags on vmap or perform the randomness operation out of vmap"
                )
        flat = [tree_flatten(y)[0] for y in calls]
        spec = tree_flatten(calls[0])[1]
        outs = out_dims if isinstance(out_dims, tuple | list) else (out_dims,) * len(flat[0])
        return tree_unflatten([cr.stack([row[k] for row in flat], outs[k]) for k in range(len(flat[0]))], spec)

    return run
