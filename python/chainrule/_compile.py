"""``compile``: a step or a module that is recorded once and replayed (include/chainrule/plan.h).

The first call of a signature runs as it is, because a first step makes moments.  The second call is
recorded, later ones replay its kernels.  Both give the same bits."""

from __future__ import annotations

import copy
import functools
import os
import warnings
import weakref
from collections.abc import Callable, Container, Iterator
from typing import Any

from . import _core, _guards, _trace
from ._core import Tensor
from ._noted import Planned, noted
from .nn.module import Module

__all__ = ["compile"]

MOST_PLANS = 8  # signatures of a function that are kept
MOST_TRIES = 32  # recordings of steps that still do other work than later, or whose plans were never replayed
MOST_READY = 2  # plans of a signature: of a module in training and in use, say


def _picture(x: Any) -> Any:
    """A nest as a person would compare it with another: tensors by their layouts."""
    if isinstance(x, Tensor):
        return (Tensor, x.dtype, x.device, tuple(x.shape), tuple(x.strides), x.requires_grad)
    if isinstance(x, list | tuple):
        return (type(x), *[_picture(part) for part in x])
    if isinstance(x, dict):
        return (dict, *[(key, _picture(value)) for key, value in x.items()])
    return (type(x), repr(x))


def _leaves(x: Any) -> Iterator[Any]:
    """What a nest holds, in order."""
    if isinstance(x, list | tuple | dict):
        for part in x.values() if isinstance(x, dict) else x:
            yield from _leaves(part)
    else:
        yield x


def _rebuild(x: Any, leaf: Callable[[Any], Any], kept: Container[int] = ()) -> Any:
    """The nest x with ``leaf`` of each of its leaves.  kept: identities of containers that count as leaves."""
    if isinstance(x, list | tuple) and id(x) not in kept:
        parts = [_rebuild(part, leaf, kept) for part in x]
        return type(x)(*parts) if hasattr(x, "_fields") else type(x)(parts)
    if type(x) is dict and id(x) not in kept:
        return {key: _rebuild(value, leaf, kept) for key, value in x.items()}
    if isinstance(x, dict) and id(x) not in kept:  # with what a subclass adds
        made = copy.copy(x)
        for key, value in x.items():
            made[key] = _rebuild(value, leaf, kept)
        return made
    return leaf(x)


class _Made(int):
    """In the nest of a step's results: the position of a tensor that each run makes."""


class _Given(int):
    """The same: of an argument that the step returns."""


class _Kept(weakref.ref[Tensor]):
    """The same: a tensor from outside, which may end."""


class _Grad:
    """The same: the gradient of an argument or of a tensor from outside."""

    def __init__(self, of: _Given | _Kept) -> None:
        self.of = of


class _Ready:
    """A plan, when it fits, and where its results go."""

    def __init__(self, plan: Any, outputs: int, result: Any, walk: _guards.Walk) -> None:
        self.plan, self.outputs, self.result, self.walk = plan, outputs, result, walk
        self.guards = walk.capsule
        _core._guards_plan(self.guards, plan, outputs)
        walk.let_go()
        self.single = type(result) is _Made
        self.replayed = False

    def made_in(self, result: Any) -> list[Tensor]:
        """The tensors of a result of the step itself that a replay makes, in its order."""
        pairs = zip(_leaves(self.result), _leaves(result), strict=False)
        found = {int(place): x for place, x in pairs if type(place) is _Made}
        return [found[i] for i in range(self.outputs)]

    def results(self, made: list[Tensor], given: list[Tensor]) -> Any:
        def place(x: Any) -> Any:
            if type(x) is _Kept:
                return x()
            return made[x] if type(x) is _Made else given[x] if type(x) is _Given else x

        def leaf(x: Any) -> Any:  # calls itself nowhere: a cycle would keep `made` until the next garbage collection
            return place(x.of).grad if type(x) is _Grad else place(x)

        return _rebuild(self.result, leaf, self.walk.reached)


class _Plan:
    """What is known of one signature: the code that its step runs, plans, or why there is none."""

    def __init__(self, kept: Any, picture: Any) -> None:
        self.kept = kept  # objects that the signature names by identity: they must not be freed
        self.picture = picture  # of the arguments and modes
        self.trace = _trace.Trace()
        self.ready: tuple[_Ready, ...] = ()  # the latest first
        self.refused = ""
        self.tries = 0  # recordings that came too early
        self.idle = 0  # recordings in a row that were never replayed
        # process -> who records there, or follows the first call: at most one, others run the function
        self.recorders: dict[int, object] = {}

    @property
    def plan(self) -> Any:
        return self.ready[0].plan if self.ready else None


class Compiled(Planned):
    """The plans of one function.  quiet: no warning where it runs without one.  check: replays are compared with it."""

    def __init__(self, f: Callable[..., Any], fullgraph: bool, quiet: bool = False, check: bool = False) -> None:
        self.check = check or os.environ.get("CHAINRULE_COMPILE_CHECK", "") not in ("", "0")
        self.f, self.fullgraph, self.quiet, self.warned = f, fullgraph, quiet, quiet
        self.plans: dict[Any, _Plan] = {}
        self.last: _Plan | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tensors: list[Tensor] = []
        signature: Any = _core._signature((args, kwargs), tensors)
        if signature is None:
            return self.f(*args, **kwargs)
        found = self.plans.get(signature)
        if found is None:
            return self._first(signature, args, kwargs)
        self.last = found
        if found.refused:
            return self.f(*args, **kwargs)
        for ready in found.ready:
            if self.check:
                trial = _core._plan_trial(ready.guards, tensors)
                if trial is None:
                    continue
                ready.replayed = True
                result = self.f(*args, **kwargs)
                _core._trial_compare(trial, ready.made_in(result))
                return result
            made = _core._plan_run(ready.guards, tensors)
            if made is not None:
                ready.replayed = True
                return made[0] if ready.single else ready.results(made, tensors)
        me = object()
        if found.recorders.setdefault(os.getpid(), me) is not me:
            return self.f(*args, **kwargs)
        try:
            return self._record(found, tensors, args, kwargs)
        finally:
            del found.recorders[os.getpid()]

    @property
    def refused(self) -> bool:
        """Does the signature that was called last run without a plan for ever?"""
        return self.last is not None and bool(self.last.refused)

    def _first(self, signature: Any, args: Any, kwargs: Any) -> Any:
        modes = _core.is_grad_enabled(), _core._autocasting() and _core._autocast_dtype("cpu")
        picture = _picture(args), _picture(kwargs), modes
        if len(self.plans) < MOST_PLANS:
            objects = [x for x in _leaves((args, kwargs)) if not isinstance(x, Tensor)]
            new = _Plan(objects, picture)
            new.recorders[os.getpid()] = new  # nobody records while the first call is followed
            if self.plans.setdefault(signature, new) is not new:
                return self.f(*args, **kwargs)
            try:
                with new.trace:
                    return self.f(*args, **kwargs)
            finally:
                new.recorders.clear()
        elif not self.warned:
            self.warned = True
            warnings.warn(
                f"compile: {MOST_PLANS} signatures of {_name(self.f)} are kept, and others run without a plan;"
                f" what changes: {_difference(next(reversed(self.plans.values())).picture, picture)}",
                stacklevel=4,
            )
        return self.f(*args, **kwargs)

    def _record(self, found: _Plan, tensors: list[Tensor], args: Any, kwargs: Any) -> Any:
        if found.ready:
            found.idle = 0 if found.ready[0].replayed else found.idle + 1
        if found.idle == MOST_TRIES:
            what = found.ready[0].walk.changed()
            why = f"{what} is another" if what else _UNLIKE
            self._refuse(found, f"[compile] no call fits the plan of the call before, {MOST_TRIES} times: {why}")
            return self.f(*args, **kwargs)
        roots = [(_name(self.f), self.f), *(("an argument", x) for x in found.kept)]
        noted.entries.clear()
        try:
            before = _guards.Walk(found.trace, roots)
        except _trace.Refused as e:
            self._refuse(found, f"[compile] {e}")
            return self.f(*args, **kwargs)
        before.let_go()
        known = len(found.trace.codes)
        _core._record_begin(tensors)
        try:
            with found.trace:
                result = self.f(*args, **kwargs)
        except BaseException:
            _core._record_cancel()
            raise
        try:
            self._plan(found, roots, before, known, tensors, result)
        except (_trace.Refused, RuntimeError) as e:
            _core._record_cancel()
            found.tries += 1
            if not isinstance(e, _Early) and "run a step before" not in str(e) or found.tries == MOST_TRIES:
                self._refuse(found, f"[compile] {e}" if isinstance(e, _trace.Refused) else str(e))
        return result

    def _plan(
        self, found: _Plan, roots: Any, before: _guards.Walk, known: int, given: list[Tensor], result: Any
    ) -> None:
        """Keeps the plan of the step that this thread has recorded."""
        changed = before.changed()
        early = any(origin != _trace.OWN for origin, _ in [*found.trace.codes.values()][known:])
        walk = _guards.Walk(found.trace, roots)
        source: dict[int, Any] = {id(x): _Kept(x) for x in walk.captured}
        source |= {id(x): _Given(i) for i, x in enumerate(given)}
        outputs: list[Tensor] = []

        def leaf(x: Any) -> Any:
            if isinstance(x, Tensor) and id(x) not in source:
                owner = _core._grad_owner(x)
                if owner is not None and id(owner) in source and owner.grad is x:
                    source[id(x)] = _Grad(source[id(owner)])
                else:
                    source[id(x)] = _Made(len(outputs))
                    outputs.append(x)
            elif not isinstance(x, Tensor) and type(x) not in _guards.PLAIN and id(x) not in walk.reached:
                kind = type(x).__name__
                raise _trace.Refused(f"the step returns a {kind}: return tensors, numbers or nests of them")
            return source[id(x)] if isinstance(x, Tensor) else x

        nest = _rebuild(result, leaf, walk.reached)
        plan = _core._record_end(outputs, walk.captured)
        if escaped := _core._plan_info(plan)[4]:
            raise _trace.Refused(f"{escaped} tensors that {_name(self.f)} makes are kept outside: return them instead")
        if changed:
            raise _trace.Refused(f"the step changes {changed}, which a replay would not: return the value instead")
        if early:
            raise _Early("the step runs other code than the call before")
        ready = (_Ready(plan, len(outputs), nest, walk), *found.ready)
        found.ready = tuple(x for x in ready if not x.walk.retired)[:MOST_READY]

    def _refuse(self, found: _Plan, why: str) -> None:
        found.refused = why
        if self.fullgraph:
            raise _core.Error(why)
        if not self.quiet:
            warnings.warn(f"compile: {_name(self.f)} runs without a plan: {why}", stacklevel=5)

    def __reduce__(self) -> Any:
        """A copy of what keeps it has none, and makes its own."""
        return type(None), ()

    def lacks(self) -> str:
        """Why there is no plan of the signature that was called last; empty: there is one."""
        if self.last is None or (self.last.plan is None and not self.last.refused):
            return "no plan: the function has not been called twice with one signature"
        return self.last.refused and f"no plan: {self.last.refused}"

    def explain(self) -> str:
        """The plan of the signature that was called last, one line a kernel, also printed; waits for the loops that
        the system's C compiler makes of fused kernels."""
        if not self.lacks() and self.last:
            _core._plan_wait(self.last.plan)
        text = self.lacks() or _core._plan_text(self.last and self.last.plan)
        print(text)
        return text


class _Early(RuntimeError):
    """The step does other work than it will do later: it is recorded again."""


_UNLIKE = "arguments share memory in another way, other parameters train, or gradients are there or not"


def _name(f: Any) -> str:
    return getattr(f, "__qualname__", type(f).__name__)


def _difference(a: Any, b: Any, where: str = "the arguments") -> str:
    """The first part in which two signatures differ."""
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            if x != y:
                names = {0: "positional arguments", 1: "keyword arguments", 2: "modes"}
                inner = names.get(i, where) if where == "the arguments" else where
                return _difference(x, y, inner)
    return f"{where}: {a} and {b}"


class OptimizedModule(Module):
    """A module whose calls replay plans; everything else is the module's own."""

    def __init__(self, module: Module, fullgraph: bool, check: bool) -> None:
        super().__init__()
        self.__dict__["_orig_mod"] = module
        self.__dict__["_compiled"] = Compiled(module.__call__, fullgraph, check=check)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__dict__["_compiled"](*args, **kwargs)

    def __getattribute__(self, name: str) -> Any:
        own = ("_orig_mod", "_compiled", "explain", "__call__", "__class__", "__dict__", "__repr__")
        if name in own:
            return object.__getattribute__(self, name)
        return getattr(object.__getattribute__(self, "__dict__").get("_orig_mod") or super(), name)

    def __setattr__(self, name: str, value: Any) -> None:
        module = self.__dict__.get("_orig_mod")
        if module is None:
            super().__setattr__(name, value)
        else:
            setattr(module, name, value)

    def __repr__(self) -> str:
        return repr(self.__dict__["_orig_mod"])

    def explain(self) -> str:
        """The plan of the signature that was called last, one line a kernel; also printed."""
        return self.__dict__["_compiled"].explain()  # type: ignore[no-any-return]


def compile(  # noqa: A001, PyTorch's name
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    mode: str | None = None,
    backend: Any = None,
    options: Any = None,
    disable: bool = False,
    check: bool = False,
) -> Any:
    """A function or module that records its kernels at the second call of a signature and replays them later, with the
    same bits.  The function may contain backward() and the step of an optimizer; also a decorator.  fullgraph: an Error
    where a step cannot be recorded, instead of a warning.  dynamic, mode, backend and options change nothing.

    A replay reads parameters, gradients and moments as they are at the call. A change of anything else that the
    function reads by a name (numbers, attributes, containers, hooks, other tensors) makes it record again. A function
    that reads a clock, a file or an iterator, or changes what it reads, runs as it is, with a warning; so does one
    with an ``autograd.Function`` of the user whose backward pass is outside. A result that
    the loss does not use has a gradient of zeros: NaN where its derivative is infinite.

    check, or CHAINRULE_COMPILE_CHECK=1 in the environment: each replay is taken back, the function itself runs, and
    its results, gradients and all that it writes are compared with the replay's, bit by bit. An Error names a
    difference."""
    if model is None:
        return functools.partial(compile, fullgraph=fullgraph, disable=disable, check=check)
    if disable:
        return model
    if isinstance(model, Module):
        return OptimizedModule(model, fullgraph, check)
    if not callable(model):
        raise TypeError(f"compile(): a function or a Module, not {type(model).__name__}")
    compiled = Compiled(model, fullgraph, check=check)

    @functools.wraps(model)
    def step(*args: Any, **kwargs: Any) -> Any:
        return compiled(*args, **kwargs)

    step.explain = compiled.explain  # type: ignore[attr-defined]
    step._compiled = compiled  # type: ignore[attr-defined]
    return step
