"""``chainrule.func``: transforms of functions, nested in any order: ``vmap``, gradients, forward mode.

``vmap`` and ``jvp`` run the function once, over tensors that stand for all samples or for a value with its tangent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from . import _core
from ._core import Tensor
from ._pytree import TreeSpec, _broadcast_to_and_flatten, tree_flatten, tree_map, tree_unflatten
from ._transformed import LEVELS, VmapInfo
from .autograd import enable_grad
from .nn.utils.stateless import functional_call as functional_call

__all__ = [
    "functional_call",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "stack_module_state",
    "value_and_grad",
    "vjp",
    "vmap",
]

Function = Callable[..., Any]
Argnums = int | tuple[int, ...]


# ---- vmap


def _said(in_dims: Any) -> str:
    return f"vmap(f, in_dims={in_dims}, ...)(<inputs>)"


def _size_of(dim: Any, x: Any, in_dims: Any) -> int:
    """How many samples an argument has along its mapped axis."""
    if not isinstance(dim, int) or isinstance(dim, bool):
        raise ValueError(
            f"{_said(in_dims)}: Got in_dim={dim} for an input but in_dim must be either an integer dimension or None."
        )
    if not isinstance(x, Tensor):
        raise ValueError(
            f"{_said(in_dims)}: Got in_dim={dim} for an input but the input is of type {type(x)}. We"
            " cannot vmap over non-Tensor arguments, please use None as the respective in_dim"
        )
    if not -x.ndim <= dim < x.ndim:
        raise ValueError(
            f"{_said(in_dims)}: Got in_dim={dim} for some input, but that input is a Tensor of"
            f" dimensionality {x.ndim} so expected in_dim to satisfy -{x.ndim} <= in_dim < {x.ndim}."
        )
    return x.shape[dim]


def _mapped(in_dims: Any, args: tuple[Any, ...]) -> tuple[list[Any], list[Any], TreeSpec, int]:
    """The leaves of the arguments, the mapped axis of each or None, their spec, the number of samples."""
    if not isinstance(in_dims, int | tuple | list):
        raise ValueError(
            f"{_said(in_dims)}: expected `in_dims` to be int or a (potentially nested) tuple matching the"
            f" structure of inputs, got: {type(in_dims)}."
        )
    if not args:
        raise ValueError(
            f"{_said(in_dims)}: got no inputs. Maybe you forgot to add inputs, or you are trying to vmap"
            " over a function with no inputs. The latter is unsupported."
        )
    leaves, spec = tree_flatten(args)
    dims = _broadcast_to_and_flatten(tuple(in_dims) if isinstance(in_dims, list) else in_dims, spec)
    if dims is None:
        raise ValueError(f"{_said(in_dims)}: in_dims is not compatible with the structure of inputs: {spec!r}")
    sizes = [_size_of(d, x, in_dims) for d, x in zip(dims, leaves, strict=True) if d is not None]
    if not sizes:
        raise ValueError(f"{_said(in_dims)}: at least one input must be mapped: all in_dims are None")
    if len(set(sizes)) > 1:
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes"
            f" {sizes} for the mapped dimension"
        )
    return leaves, dims, spec, sizes[0]


def _left(y: Any, dim: Any, level: int) -> Any:
    """A result behind the transform, its samples along ``dim``."""
    if not isinstance(y, Tensor):
        raise ValueError(f"vmap(f, ...): `f` must only return Tensors, got type {type(y)} as a return.")
    if dim is not None:
        return _core._vmap_leave(y, dim, level)
    if _core._vmap_has(y, level):
        raise ValueError(
            "vmap(f, ...): Got out_dims=None for a result that differs from sample to sample: out_dims must be its axis"
        )
    return y


def _out_dims(out_dims: Any, outputs: Any, spec: TreeSpec) -> list[Any]:
    if isinstance(outputs, Tensor) and isinstance(out_dims, tuple | list) and len(out_dims) == 1:
        out_dims = out_dims[0]
    dims = _broadcast_to_and_flatten(tuple(out_dims) if isinstance(out_dims, list) else out_dims, spec)
    if dims is None or not all(d is None or (isinstance(d, int) and not isinstance(d, bool)) for d in dims):
        raise ValueError(
            f"vmap(f, ..., out_dims={out_dims}): out_dims is not compatible with the structure of outputs:"
            f" an axis or None for each of {spec!r}"
        )
    return dims


def _run(
    func: Function,
    leaves: Sequence[Any],
    dims: Sequence[Any],
    spec: TreeSpec,
    size: int,
    out_dims: Any,
    randomness: str,
    kwargs: dict[str, Any],
) -> tuple[list[Any], list[Any], TreeSpec]:
    level = _core._vmap_begin(size, randomness)
    LEVELS[level] = VmapInfo(size, randomness)
    try:
        inner = [x if d is None else _core._vmap_enter(x, d, level) for x, d in zip(leaves, dims, strict=True)]
        outputs = func(*tree_unflatten(inner, spec), **kwargs)
        flat, out_spec = tree_flatten(outputs)
        outs = _out_dims(out_dims, outputs, out_spec)
        return [_left(y, d, level) for y, d in zip(flat, outs, strict=True)], outs, out_spec
    finally:
        _core._transform_end(level)
        del LEVELS[level]


def vmap(
    func: Function, in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *, chunk_size: int | None = None
) -> Function:
    """A function that maps ``func`` over an axis of its arguments: one run of ``func``, in which each op works on all
    samples.  in_dims: the axis, or None for the same in all, for all arguments or for each, or a nest as they are;
    out_dims: where the axis is in the results.  randomness: "same" random numbers for all samples, "different" ones,
    or the "error" that there are any.  chunk_size: so many samples at a time."""
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
    if chunk_size is not None and chunk_size < 1:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @wraps(func)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        leaves, dims, spec, size = _mapped(in_dims, args)
        step = size if chunk_size is None else min(chunk_size, size)
        if step >= size:
            flat, _, out_spec = _run(func, leaves, dims, spec, size, out_dims, randomness, kwargs)
            return tree_unflatten(flat, out_spec)
        parts = []
        for start in range(0, size, step):
            n = min(step, size - start)
            part = [x if d is None else x.narrow(d, start, n) for x, d in zip(leaves, dims, strict=True)]
            flat, outs, out_spec = _run(func, part, dims, spec, n, out_dims, randomness, kwargs)
            parts.append(flat)
        joined = [
            ys[0] if d is None else _core.cat(ys, d) for d, ys in zip(outs, zip(*parts, strict=True), strict=True)
        ]
        return tree_unflatten(joined, out_spec)

    return mapped


# ---- gradients


def _numbers(argnums: Argnums, n: int) -> list[int]:
    """Positions from the front."""
    numbers = argnums if isinstance(argnums, tuple) else (argnums,)
    if not all(isinstance(i, int) and not isinstance(i, bool) for i in numbers):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {argnums!r}")
    if not numbers:
        raise RuntimeError("argnums must be non-empty")
    for i in numbers:
        if not -n <= i < n:
            raise RuntimeError(f"Got argnum={i}, but only {n} positional inputs were provided.")
    found = [i % n for i in numbers]
    if len(set(found)) < len(found):
        raise RuntimeError(f"argnums elements must be unique, got: {argnums!r}")
    return found


class _Leaves:
    """Chosen arguments as the tensors that a gradient is asked for."""

    def __init__(self, argnums: Argnums, args: tuple[Any, ...]) -> None:
        self.single = not isinstance(argnums, tuple)
        self.full = list(args)
        self.tensors: list[Tensor] = []
        self.specs = []
        for i in _numbers(argnums, len(args)):
            below, spec = tree_flatten(args[i])
            if not all(isinstance(x, Tensor) for x in below):
                raise TypeError(f"grad: argument {i} must be a Tensor or a nest of Tensors")
            below = [_core._grad_enter(x) for x in below]
            self.tensors += below
            self.specs.append(spec)
            self.full[i] = tree_unflatten(below, spec)

    def nest(self, values: Sequence[Any]) -> Any:
        """Values of the leaves in the form of the arguments."""
        at, found = 0, []
        for spec in self.specs:
            found.append(tree_unflatten(values[at : at + spec.num_leaves], spec))
            at += spec.num_leaves
        return found[0] if self.single else tuple(found)

    def nested(self, outputs: list[Tensor]) -> bool:
        """Do the results depend on outer leaves, so that gradients and values belong to an outer graph?"""
        return _core._grad_nested([y for y in outputs if isinstance(y, Tensor)], self.tensors)

    def gradients(self, outputs: list[Tensor], cotangents: list[Tensor], retain: bool, record: bool) -> list[Tensor]:
        grads = _core._grad_leave(outputs, cotangents, self.tensors, retain or record, record)
        return [_core.zeros_like(x) if g is None else g for g, x in zip(grads, self.tensors, strict=True)]


def _plain(x: Any) -> Any:
    return _core._ungraph(x) if isinstance(x, Tensor) else x


def _pair(found: Any, has_aux: bool, name: str) -> tuple[Any, Any]:
    if not has_aux:
        return found, None
    if not (isinstance(found, tuple) and len(found) == 2):
        raise RuntimeError(f"{name}: the function is expected to return (output, aux) when has_aux=True")
    return found


def grad_and_value(func: Function, argnums: Argnums = 0, has_aux: bool = False) -> Function:
    """A function that gives (gradient, value) of ``func``, whose value is a 0-d tensor, with respect to one argument or
    several, each a Tensor or a nest of them.  has_aux: func gives (value, aux), and the result is
    (gradient, (value, aux))."""

    @wraps(func)
    def run(*args: Any, **kwargs: Any) -> Any:
        outer = _core.is_grad_enabled()
        with enable_grad():
            leaves = _Leaves(argnums, args)
            value, aux = _pair(func(*leaves.full, **kwargs), has_aux, "grad")
            if not isinstance(value, Tensor):
                raise RuntimeError(f"Expected f(*args) to return a Tensor, got {type(value).__name__}")
            if value.ndim:
                raise RuntimeError(
                    f"Expected f(*args) to return a scalar tensor, got tensor with {value.ndim} dims."
                    " Maybe you wanted to use the vjp or jacrev APIs instead?"
                )
            nested = outer and leaves.nested([value, *tree_flatten(aux)[0]])
            grads = leaves.gradients([value], [], False, nested)
        if not nested:
            value, aux = _plain(value), tree_map(_plain, aux)
        return leaves.nest(grads), (value, aux) if has_aux else value

    return run


def value_and_grad(func: Function, argnums: Argnums = 0, has_aux: bool = False) -> Function:
    """``grad_and_value``, the value first."""

    @wraps(func)
    def run(*args: Any, **kwargs: Any) -> Any:
        gradient, value = grad_and_value(func, argnums, has_aux)(*args, **kwargs)
        return value, gradient

    return run


def grad(func: Function, argnums: Argnums = 0, has_aux: bool = False) -> Function:
    """A function that gives the gradient of ``func``; with has_aux (gradient, aux)."""

    @wraps(func)
    def run(*args: Any, **kwargs: Any) -> Any:
        gradient, value = grad_and_value(func, argnums, has_aux)(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return run


def vjp(func: Function, *primals: Any, has_aux: bool = False) -> Any:
    """(func(*primals), f), where f of the cotangents of the results gives those of the primals: one, or a tuple.
    has_aux: func gives (output, aux), and aux is the third."""
    outer = _core.is_grad_enabled()
    with enable_grad():
        leaves = _Leaves(tuple(range(len(primals))), primals)
        output, aux = _pair(func(*leaves.full), has_aux, "vjp")
        flat, spec = tree_flatten(output)
        if not flat or not all(isinstance(y, Tensor) for y in flat):
            raise RuntimeError("vjp(f, *primals): Expected f to be a function that has non-empty output of Tensors")
        nested = outer and leaves.nested([*flat, *tree_flatten(aux)[0]])

    def back(*cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        given = cotangents[0] if len(cotangents) == 1 else cotangents
        found, of = tree_flatten(given)
        if of != spec and not (isinstance(output, Tensor) and len(found) == 1):
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of outputs"
                f" to the function. cotangents: {of!r}, primal output: {spec!r}"
            )
        record = nested or any(v.requires_grad for v in found) if create_graph is None else create_graph
        return leaves.nest(leaves.gradients(flat, found, retain_graph, record and _core.is_grad_enabled()))

    value = output if nested else tree_map(_plain, output)
    return (value, back, aux if nested else tree_map(_plain, aux)) if has_aux else (value, back)


# ---- forward mode


def _value(y: Any, level: int) -> Any:
    return _core._jvp_leave(y, level)[0] if isinstance(y, Tensor) else y


def jvp(func: Function, primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False) -> Any:
    """(func(*primals), its derivative along ``tangents``), in one run.  has_aux: func gives (output, aux), and aux is
    the third.  strict: RuntimeError where a result depends on no primal."""
    if not isinstance(primals, tuple) or not isinstance(tangents, tuple):
        raise RuntimeError("jvp(f, primals, tangents): Expected primals and tangents to be tuples")
    xs, spec = tree_flatten(primals)
    ts, of = tree_flatten(tangents)
    if spec != of:
        raise RuntimeError(
            "jvp(f, primals, tangents): Expected primals and tangents to have the same python structure."
            f" For example, if primals is a tuple of 3 tensors, tangents also must be. Got {spec!r} and"
            f" {of!r}"
        )
    if not xs or not all(isinstance(x, Tensor) for x in (*xs, *ts)):
        raise RuntimeError("jvp(f, primals, tangents): Expected primals and tangents to be nests of Tensors")
    level = _core._jvp_begin()
    try:
        duals = [_core._jvp_enter(x, t, level) for x, t in zip(xs, ts, strict=True)]
        output, aux = _pair(func(*tree_unflatten(duals, spec)), has_aux, "jvp")
        flat, out_spec = tree_flatten(output)
        if not flat or not all(isinstance(y, Tensor) for y in flat):
            raise RuntimeError(
                "jvp(f, primals, tangents): Expected f to be a function that has non-empty output of Tensors"
            )
        if strict and not all(_core._level_of(y) == level for y in flat):
            raise RuntimeError(
                "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs."
                " This is not allowed with strict=True."
            )
        pairs = [_core._jvp_leave(y, level) for y in flat]
        aux = tree_map(lambda y: _value(y, level), aux)
    finally:
        _core._transform_end(level)
    value, tangent = (tree_unflatten([p[k] for p in pairs], out_spec) for k in range(2))
    return (value, tangent, aux) if has_aux else (value, tangent)


def linearize(func: Function, *primals: Any) -> tuple[Any, Function]:
    """(func(*primals), f), where f of tangents is the derivative along them at the primals.  func runs once, in forward
    mode; f is the linear part of what it recorded, as the transpose of its transpose."""
    zeros = tree_map(_core.zeros_like, primals)

    def tangent(*tangents: Any) -> Any:
        value, found = jvp(func, primals, tangents)
        return found, value

    unused, back, output = vjp(tangent, *zeros, has_aux=True)
    _, forth = vjp(back, tree_map(_core.zeros_like, unused))
    xs, spec = tree_flatten(primals)

    def push(*tangents: Any) -> Any:
        ts, of = tree_flatten(tangents)
        if of != spec:
            raise RuntimeError(
                "linearize: Expected the tangents given to jvp_fn to have the same argument pytree structure as"
                f" primals. Got {of!r} and {spec!r}"
            )
        for i, (x, t) in enumerate(zip(xs, ts, strict=True)):
            if x.shape != t.shape or x.dtype != t.dtype:
                raise RuntimeError(
                    f"linearize: Expected the tangents given to jvp_fn to be as the primals: tangent {i} is {t.dtype}"
                    f" {tuple(t.shape)}, the primal {x.dtype} {tuple(x.shape)}"
                )
        return forth(tangents)[0]

    return output, push


# ---- derivatives as matrices


def _basis(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The unit vectors of a space that is the sum of the spaces of these tensors: in the axis 0 of each."""
    total, at, found = sum(x.numel() for x in tensors), 0, []
    for x in tensors:
        n = x.numel()
        unit = _core.zeros(total, n, dtype=x.dtype, device=x.device)
        unit[at : at + n].fill_diagonal_(1)
        found.append(unit.reshape(total, *x.shape))
        at += n
    return found


def _select(func: Function, argnums: Argnums, args: tuple[Any, ...], kwargs: Any) -> tuple[Function, tuple[Any, ...]]:
    """The function of the chosen arguments only, and these."""
    numbers = _numbers(argnums, len(args))

    def of(*chosen: Any) -> Any:
        full = list(args)
        for i, x in zip(numbers, chosen, strict=True):
            full[i] = x
        return func(*full, **kwargs)

    return of, tuple(args[i] for i in numbers)


def jacrev(
    func: Function,
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Function:
    """A function that gives the Jacobian of ``func`` by reverse mode, all rows of it at once: for each result a nest as
    the arguments, of the shape of the result and then of the argument."""

    @wraps(func)
    def run(*args: Any, **kwargs: Any) -> Any:
        of, chosen = _select(func, argnums, args, kwargs)
        output, back, *aux = vjp(of, *chosen, has_aux=has_aux)
        ys, out_spec = tree_flatten(output)
        xs, in_spec = tree_flatten(chosen)
        units = tree_unflatten(_basis(ys), out_spec)
        rows = tree_flatten(vmap(back, chunk_size=chunk_size)(units))[0] if sum(y.numel() for y in ys) else None
        found, at = [], 0
        for y in ys:
            n = y.numel()
            parts = [
                _core.zeros(*y.shape, *x.shape, dtype=x.dtype)
                if rows is None
                else rows[k].narrow(0, at, n).reshape(*y.shape, *x.shape)
                for k, x in enumerate(xs)
            ]
            nest = tree_unflatten(parts, in_spec)
            found.append(nest if isinstance(argnums, tuple) else nest[0])
            at += n
        result = tree_unflatten(found, out_spec)
        return (result, aux[0]) if has_aux else result

    return run


def jacfwd(func: Function, argnums: Argnums = 0, has_aux: bool = False, *, randomness: str = "error") -> Function:
    """``jacrev`` by forward mode, all columns of the Jacobian at once."""

    @wraps(func)
    def run(*args: Any, **kwargs: Any) -> Any:
        of, chosen = _select(func, argnums, args, kwargs)
        xs, in_spec = tree_flatten(chosen)
        if not all(isinstance(x, Tensor) for x in xs):
            raise RuntimeError("jacfwd: Expected all chosen arguments to be Tensors or nests of them")
        specs: list[TreeSpec] = []

        def push(*units: Any) -> Any:
            found = jvp(of, chosen, tree_unflatten(list(units), in_spec), has_aux=has_aux)
            flat, spec = tree_flatten(found[1])
            rest, of_rest = tree_flatten(found[2] if has_aux else ())
            specs.extend((spec, of_rest))
            return tuple(flat), tuple(rest)

        columns, rest = vmap(push, randomness=randomness, out_dims=(-1, None))(*_basis(xs))
        found = []
        for column in columns:
            at, parts = 0, []
            for x in xs:
                n = x.numel()
                parts.append(column.narrow(-1, at, n).reshape(*column.shape[:-1], *x.shape))
                at += n
            nest = tree_unflatten(parts, in_spec)
            found.append(nest if isinstance(argnums, tuple) else nest[0])
        result = tree_unflatten(found, specs[0])
        return (result, tree_unflatten(rest, specs[1])) if has_aux else result

    return run


def hessian(func: Function, argnums: Argnums = 0) -> Function:
    """A function that gives the second derivatives of ``func``: forward mode over reverse mode."""
    return jacfwd(jacrev(func, argnums), argnums)


# ---- many models as one


def stack_module_state(models: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """(parameters, buffers) of modules of one class, each a stack of theirs, for ``vmap`` over ``functional_call``.
    Parameters are leaves that want a gradient where all of theirs do."""
    modules = list(models)
    if not modules:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if not (all(m.training for m in modules) or not any(m.training for m in modules)):
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if any(type(m) is not type(modules[0]) for m in modules):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")

    def stacked(each: list[dict[str, Any]]) -> dict[str, Any]:
        return {name: _stacked([d[name] for d in each]) for name in each[0]}

    return stacked([dict(m.named_parameters()) for m in modules]), stacked([dict(m.named_buffers()) for m in modules])


def _stacked(tensors: list[Tensor]) -> Tensor:
    wanted = [x.requires_grad for x in tensors]
    if any(wanted) and not all(wanted):
        raise RuntimeError(f"Expected {len(wanted)} tensors to have consistent .requires_grad state")
    return _core.stack([x.detach() for x in tensors]).requires_grad_(all(wanted))
