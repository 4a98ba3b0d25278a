"""``autograd.Function`` inside vmap and forward mode: by its own rules, or by a rule of vmap made of its methods."""

from __future__ import annotations

from typing import Any, NamedTuple

from . import _core
from ._core import Tensor

LEVELS: dict[int, VmapInfo] = {}  # of each vmap that runs


class VmapInfo(NamedTuple):
    """What ``Function.vmap`` is told."""

    batch_size: int
    randomness: str


def values_of(x: Tensor) -> Tensor:
    """The numbers of all samples, outside all transforms, for a check that raises an error."""
    while level := _core._level_of(x):
        x = _core._vmap_leave(x, 0, level) if level in LEVELS else _core._jvp_leave(x, level)[0]
    return x


def of_values(f: Any, x: Tensor) -> Tensor:
    """f of integers, which takes any axes in front: it may read them, since it sees those of all samples."""
    level = _core._level_of(x)
    if level not in LEVELS:
        return f(x)  # type: ignore[no-any-return]
    return _core._vmap_enter(of_values(f, _core._vmap_leave(x, 0, level)), 0, level)


def _each(f: Any, results: Any) -> Any:
    return tuple(map(f, results)) if isinstance(results, tuple) else f(results)


def apply(cls: Any, args: tuple[Any, ...], base: Any, new_context: Any) -> Any:
    """``cls.apply(*args)``, some of whose arguments are inside a transform.  base: Function."""
    level = max(_core._level_of(x) for x in args if isinstance(x, Tensor))
    if cls.setup_context is base.setup_context:
        raise RuntimeError(
            "In order to use an autograd.Function with transforms (vmap, grad, jvp, jacrev, ...), it must override the"
            f" setup_context staticmethod: {cls.__name__}"
        )
    return (
        _mapped(cls, args, level, base, new_context) if level in LEVELS else _dual(cls, args, level, base, new_context)
    )


# ---- vmap


def _mapped(cls: Any, args: tuple[Any, ...], level: int, base: Any, new_context: Any) -> Any:
    own = cls.vmap is not base.vmap
    if own and cls.generate_vmap_rule:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it has both generate_vmap_rule=True and an overridden vmap"
            " staticmethod. Please set generate_vmap_rule=False or delete the overridden vmap staticmethod."
        )
    if not own and not cls.generate_vmap_rule:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it does not have vmap support. Please override and implement"
            " the vmap staticmethod or set generate_vmap_rule=True."
        )
    has = [isinstance(x, Tensor) and _core._vmap_has(x, level) for x in args]
    values = [_core._vmap_leave(x, 0, level) if mapped else x for x, mapped in zip(args, has, strict=True)]
    in_dims = tuple(0 if mapped else None for mapped in has)
    if own:
        results, dims = cls.vmap(LEVELS[level], in_dims, *values)
    else:
        results, dims = _made(cls, in_dims, LEVELS[level], base, new_context).apply(*values), 0
    if not isinstance(results, tuple):
        return results if dims is None else _core._vmap_enter(results, dims, level)
    each = dims if isinstance(dims, tuple) else (dims,) * len(results)
    return tuple(y if d is None else _core._vmap_enter(y, d, level) for y, d in zip(results, each, strict=True))


class _Level:
    """A level of vmap around calls of the methods."""

    def __init__(self, info: VmapInfo) -> None:
        self.info = info

    def __enter__(self) -> _Level:
        self.id = _core._vmap_begin(*self.info)
        LEVELS[self.id] = self.info
        return self

    def __exit__(self, *exception: object) -> None:
        _core._transform_end(self.id)
        del LEVELS[self.id]

    def enter(self, x: Any, mapped: bool = True) -> Any:
        return _core._vmap_enter(x, 0, self.id) if mapped and isinstance(x, Tensor) else x

    def leave(self, x: Any) -> Any:
        return _core._vmap_leave(x, 0, self.id) if isinstance(x, Tensor) else x


def _made(cls: Any, in_dims: tuple[int | None, ...], info: VmapInfo, base: Any, new_context: Any) -> Any:
    """The function over all samples whose methods are those of cls, mapped.  It is used once."""
    inner = new_context()  # of cls, with tensors in it only while a method runs
    kept: list[list[Any]] = [[], []]  # what it saved for backward and for jvp, all samples of each
    mapped: list[list[bool]] = [[], []]  # or the one of all samples

    def run(level: _Level, method: Any, which: int, given: tuple[Any, ...], saved: tuple[Any, ...]) -> Any:
        inner._given = tuple(level.enter(x, m) for x, m in zip(saved, mapped[which], strict=True))
        inner._versions = [0 if x is None else x._version for x in inner._given]
        found = method(inner, *[level.enter(g) for g in given])
        inner._given = ()
        return tuple(map(level.leave, found)) if isinstance(found, tuple) else (level.leave(found),)

    class Mapped(base):  # type: ignore[misc]
        generate_vmap_rule = True

        @staticmethod
        def forward(*values: Any) -> Any:
            with _Level(info) as level:
                args = tuple(level.enter(x, d is not None) for x, d in zip(values, in_dims, strict=True))
                results = cls.forward(*args)
                cls.setup_context(inner, args, results)
                for k, saved in enumerate((inner._given or (), inner._for_forward or ())):
                    mapped[k] = [isinstance(x, Tensor) and _core._vmap_has(x, level.id) for x in saved]
                    kept[k] = [level.leave(x) if m else x for x, m in zip(saved, mapped[k], strict=True)]
                inner._given = ()
                return _each(level.leave, results)

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            inner.needs_input_grad = ctx.needs_input_grad
            ctx.save_for_backward(*kept[0])
            if inner._for_forward is not None:
                ctx.save_for_forward(*kept[1])

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            with _Level(info) as level:
                dx = run(level, cls.backward, 0, grads, ctx.saved_tensors)
            return tuple(
                d.sum(0) if isinstance(d, Tensor) and axis is None else d for d, axis in zip(dx, in_dims, strict=True)
            )  # what all samples share has the sum of their gradients

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> Any:
            spread = [
                t.expand(info.batch_size, *t.shape) if isinstance(t, Tensor) and axis is None else t
                for t, axis in zip(tangents, in_dims, strict=True)
            ]
            with _Level(info) as level:
                return run(level, cls.jvp, inner._for_forward is not None, tuple(spread), ctx.saved_tensors)

    Mapped.__name__ = cls.__name__
    if cls.jvp is base.jvp:
        Mapped.jvp = base.jvp  # type: ignore[method-assign]
    return Mapped


# ---- forward mode


def _dual(cls: Any, args: tuple[Any, ...], level: int, base: Any, new_context: Any) -> Any:
    if cls.jvp is base.jvp:
        raise RuntimeError(f"You tried to use forward mode through {cls.__name__}, which has no jvp staticmethod.")
    primals: list[Any] = []
    tangents: list[Any] = []
    for x in args:
        pair = _core._jvp_leave(x, level) if isinstance(x, Tensor) else (x, None)
        primals.append(pair[0])
        tangents.append(pair[1] if isinstance(x, Tensor) and x.is_floating_point() else None)
    results = cls.apply(*primals)
    ctx = new_context()
    ctx.needs_input_grad = tuple(isinstance(x, Tensor) and x.requires_grad for x in primals)
    cls.setup_context(ctx, tuple(primals), results)
    if ctx._for_forward is not None:
        ctx._given = ctx._for_forward
        ctx._versions = [0 if x is None else x._version for x in ctx._given]
    found = cls.jvp(ctx, *tangents)
    if not isinstance(results, tuple):
        found = found[0] if isinstance(found, tuple) else found
        return results if found is None else _core._jvp_enter(results, found, level)
    return tuple(y if t is None else _core._jvp_enter(y, t, level) for y, t in zip(results, found, strict=True))
