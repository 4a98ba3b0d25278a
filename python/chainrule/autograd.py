"""Gradients: the modes of a thread, ``grad``, functions with a gradient of their own, checks."""

from __future__ import annotations

from _thread import _local

from . import _core
from ._core import Tensor

TYPE_CHECKING = False  # in place of typing's: importing typing takes longer than importing chainrule
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeVar, overload

    _F = TypeVar("_F", bound=Callable[..., Any])
    _Tensors = Tensor | Sequence[Tensor]
else:

    def overload(function):
        return function


__all__ = [
    "Function",
    "GradcheckError",
    "backward",
    "detect_anomaly",
    "disable_saved_tensors_hooks",
    "enable_grad",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "inference_mode",
    "no_grad",
    "save_on_cpu",
    "saved_tensors_hooks",
    "set_detect_anomaly",
    "set_grad_enabled",
]


# ---- modes ----


def _turns(mode: _Mode, generator: Any) -> Any:
    """A generator whose code runs in the mode, and whose caller does not, from one yield to the next."""
    try:
        with mode.again():
            given = generator.send(None)
        while True:
            try:
                answer = yield given
            except GeneratorExit:
                with mode.again():
                    generator.close()
                raise
            except BaseException as problem:
                with mode.again():
                    given = generator.throw(problem)
            else:
                with mode.again():
                    given = generator.send(answer)
    except StopIteration as end:
        return end.value


class _Turns:
    """The same for a coroutine: what ``await`` asks for."""

    def __init__(self, mode: _Mode, coroutine: Any) -> None:
        self._mode = mode
        self._coroutine = coroutine

    def __await__(self) -> Any:
        return _turns(self._mode, self._coroutine)


class _Mode:
    """A setting of this thread, put back at the end: ``with mode:``, or a decorator."""

    def __init__(self, setter: Callable[[Any], Any], value: Any) -> None:
        self._setter = setter
        self._value = value
        self._before: list[Any] = []

    def __enter__(self) -> None:
        self._before.append(self._setter(self._value))

    def __exit__(self, *exception: object) -> None:
        self._setter(self._before.pop())

    def again(self) -> _Mode:
        """The same setting for one block."""
        return _Mode(self._setter, self._value)

    def __call__(self, function: _F) -> _F:
        """The function, generator function or coroutine function, whose code runs in this mode."""
        from functools import wraps

        mode: Any = self.again()
        call: Any = function

        @wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with mode.again():
                return call(*args, **kwargs)

        @wraps(function)
        def generator(*args: Any, **kwargs: Any) -> Any:
            return (yield from _turns(mode, call(*args, **kwargs)))

        @wraps(function)
        async def coroutine(*args: Any, **kwargs: Any) -> Any:
            return await _Turns(mode, call(*args, **kwargs))

        @wraps(function)
        async def stream(*args: Any, **kwargs: Any) -> Any:
            steps = call(*args, **kwargs)
            try:
                while True:
                    try:
                        given = await _Turns(mode, steps.__anext__())
                    except StopAsyncIteration:
                        return
                    yield given
            finally:
                await _Turns(mode, steps.aclose())

        flags = getattr(getattr(function, "__code__", None), "co_flags", 0)  # importing inspect takes milliseconds
        kinds: Any = ((0x20, generator), (0x80, coroutine), (0x200, stream))
        return next((made for flag, made in kinds if flags & flag), inside)  # type: ignore[return-value]


class _ModeFromNow(_Mode):
    """Set when it is made; ``with`` only says where it ends, and a decorator puts it back at once."""

    def __init__(self, setter: Callable[[bool], bool], value: bool) -> None:
        super().__init__(setter, value)
        super().__enter__()

    def __enter__(self) -> None:
        if not self._before:
            super().__enter__()

    def __call__(self, function: _F) -> _F:
        if self._before:
            self.__exit__()
        return super().__call__(function)


@overload
def no_grad(function: None = None) -> _Mode: ...
@overload
def no_grad(function: _F) -> _F: ...
def no_grad(function: Any = None) -> Any:
    """Nothing is recorded inside: results do not require gradients.  ``with no_grad():``,
    ``@no_grad()`` or ``@no_grad``."""
    mode = _Mode(_core._set_grad_enabled, False)
    return mode if function is None else mode(function)


@overload
def enable_grad(function: None = None) -> _Mode: ...
@overload
def enable_grad(function: _F) -> _F: ...
def enable_grad(function: Any = None) -> Any:
    """Recording is on inside, also within ``no_grad``."""
    mode = _Mode(_core._set_grad_enabled, True)
    return mode if function is None else mode(function)


def set_grad_enabled(mode: bool) -> _Mode:
    """Recording on or off, from the call on; in ``with`` until its end."""
    return _ModeFromNow(_core._set_grad_enabled, mode)


@overload
def inference_mode(mode: bool = True) -> _Mode: ...
@overload
def inference_mode(mode: _F) -> _F: ...
def inference_mode(mode: Any = True) -> Any:
    """``no_grad`` under PyTorch's other name; unlike PyTorch's, its tensors can take part in a graph later.
    mode: False ends it inside, with recording on."""
    if callable(mode):
        return _Mode(_set_inference, (True, False))(mode)
    return _Mode(_set_inference, (mode, not mode))


_inference = _local()


def is_inference_mode_enabled() -> bool:
    """Does this thread run inside ``inference_mode``?"""
    return getattr(_inference, "on", False)


def _set_inference(new: tuple[bool, bool]) -> tuple[bool, bool]:
    """Inference mode, recording -> as they were"""
    before = is_inference_mode_enabled(), _core._set_grad_enabled(new[1])
    _inference.on = new[0]
    return before


def detect_anomaly(check_nan: bool = True) -> _Mode:
    """Inside, the first op that makes a NaN or an infinity, forward or backward, raises a
    RuntimeError that names it and the line it stands in."""
    return _Mode(_core._set_anomaly, check_nan)


def set_detect_anomaly(mode: bool, check_nan: bool = True) -> _Mode:
    """``detect_anomaly`` from the call on; in ``with`` until its end."""
    return _ModeFromNow(_core._set_anomaly, mode and check_nan)


# ---- gradients ----


def _list(x: _Tensors) -> list[Tensor]:
    return [x] if isinstance(x, Tensor) else list(x)


def grad(
    outputs: _Tensors,
    inputs: _Tensors,
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool | None = None,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:
    """The gradients of the sum of ``outputs``, each weighted by its cotangent in ``grad_outputs``,
    with respect to ``inputs``: one each, of its shape.  Nothing is added to .grad.

    retain_graph (as create_graph when absent): the graph can be walked again.  create_graph: the
    gradients have gradients. An input that outputs do not depend on is a RuntimeError, or None with
    allow_unused, or zeros with materialize_grads."""
    of, to = _list(outputs), _list(inputs)
    if allow_unused is False and materialize_grads:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
        )
    cotangents: Sequence[Tensor | None] = (
        [None] * len(of)
        if grad_outputs is None
        else [grad_outputs]
        if isinstance(grad_outputs, Tensor)
        else grad_outputs
    )
    for x in to:
        if not x.requires_grad:
            raise RuntimeError("One of the differentiated Tensors does not require grad")
    keep = create_graph if retain_graph is None else retain_graph
    grads: tuple[Tensor | None, ...] = _core._gradients(of, to, tuple(cotangents), keep, create_graph)
    if materialize_grads:
        return tuple(_core.zeros_like(x) if g is None else g for g, x in zip(grads, to, strict=True))
    if not allow_unused and any(g is None for g in grads):
        raise RuntimeError(
            "One of the differentiated Tensors appears to not have been used in the graph. Set allow_unused=True if"
            " this is the desired behavior."
        )
    return grads


def backward(
    tensors: _Tensors,
    grad_tensors: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: _Tensors | None = None,
) -> None:
    """Adds the gradients of the sum of ``tensors``, each weighted by its cotangent in
    ``grad_tensors``, to .grad of the leaves, or of ``inputs`` only."""
    of = _list(tensors)
    cotangents: Sequence[Tensor | None] = [None] * len(of) if grad_tensors is None else _list(grad_tensors)  # type: ignore[arg-type]
    if len(cotangents) != len(of):
        raise RuntimeError("got different number of tensors and gradients")
    to = None if inputs is None else _list(inputs)
    if len(of) == 1:
        of[0].backward(cotangents[0], retain_graph, create_graph, to)
        return
    total: Tensor | None = None
    for y, g in zip(of, cotangents, strict=True):
        if g is None and y.numel() != 1:
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
        weighted = y.sum() if g is None else (y * g).sum()
        total = weighted if total is None else total + weighted
    if total is not None:
        total.backward(None, retain_graph, create_graph, to)


# ---- hooks of saved tensors ----


class saved_tensors_hooks:  # noqa: N801, PyTorch's name
    """``with saved_tensors_hooks(pack, unpack):`` what operations inside save for their backward pass is
    ``pack(tensor)``, of any type, and ``unpack`` of that is the tensor again, of the same shape and dtype.  The
    innermost pair is used.  A compiled step cannot be recorded inside."""

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook
        self._before: list[Any] = []

    def __enter__(self) -> None:
        message = getattr(_refusals, "message", None)
        if message is not None:
            raise RuntimeError(message)
        self._before.append(_core._set_saved_hooks((self.pack_hook, self.unpack_hook)))

    def __exit__(self, *exception: object) -> None:
        _core._set_saved_hooks(self._before.pop())


class save_on_cpu(saved_tensors_hooks):  # noqa: N801, PyTorch's name
    """What operations inside save waits in the host's memory for the backward pass.  pin_memory changes nothing."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__(lambda x: (x.device, x.cpu()), lambda kept: kept[1].to(kept[0]))


class disable_saved_tensors_hooks:  # noqa: N801, PyTorch's name
    """``with disable_saved_tensors_hooks(message):`` a pair of hooks inside is a RuntimeError with this message."""

    def __init__(self, error_message: str) -> None:
        self._message = error_message
        self._before: list[str | None] = []

    def __enter__(self) -> None:
        hooks = _core._set_saved_hooks(None)
        _core._set_saved_hooks(hooks)
        if hooks is not None:
            raise RuntimeError(self._message)
        self._before.append(getattr(_refusals, "message", None))
        _refusals.message = self._message

    def __exit__(self, *exception: object) -> None:
        _refusals.message = self._before.pop()


_refusals = _local()


class _Packed:
    """A saved tensor in the form that a hook gave it."""

    def __init__(self, hooks: Any, tensor: Tensor) -> None:
        with no_grad():
            self._kept = hooks[0](tensor.detach())
        self._unpack = hooks[1]

    def open(self) -> Any:
        x = self._unpack(self._kept)
        if not isinstance(x, Tensor):
            kind = type(x).__name__
            raise TypeError(f"Output of saved tensor unpack_hook expected to be a Tensor but got result of type {kind}")
        return x


# ---- functions with a gradient of their own ----


class _Context:
    """What ``forward`` leaves for ``backward``: saved tensors, and any attribute."""

    def __init__(self) -> None:
        self.needs_input_grad: tuple[bool, ...] = ()
        self._given: tuple[Tensor | _Packed | None, ...] | None = ()  # None: freed
        self._for_forward: tuple[Tensor | None, ...] | None = None
        self._versions: list[int] = []
        self._materialize = True
        self._constant: tuple[Tensor, ...] = ()
        self._written: tuple[Tensor, ...] = ()

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keeps tensors for backward, where ``saved_tensors`` gives them back as they are: inputs are the same
        objects.  One that was written in place in between is an error there."""
        for x in tensors:
            if x is not None and not isinstance(x, Tensor):
                raise TypeError(f"save_for_backward can only save variables, but got {type(x).__name__}")
        self._given = tensors
        self._versions = [0 if x is None else x._version for x in tensors]

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Keeps tensors for ``jvp``, where ``saved_tensors`` are these."""
        self._for_forward = tensors

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """What save_for_backward kept."""
        if self._given is None:
            raise RuntimeError(
                "Trying to backward through the graph a second time (or directly access saved tensors after they have"
                " already been freed). Specify retain_graph=True if you need to backward through the graph a second"
                " time."
            )
        for x, version in zip(self._given, self._versions, strict=True):
            if isinstance(x, Tensor) and x._version != version:
                raise RuntimeError(
                    "one of the variables needed for gradient computation has been modified by an inplace operation:"
                    f" [{x.dtype} {list(x.shape)}] is at version {x._version}; expected version {version} instead"
                )
        return tuple(x.open() if isinstance(x, _Packed) else x for x in self._given)

    saved_variables = saved_tensors

    def mark_dirty(self, *tensors: Tensor) -> None:
        """These inputs were written in place, and are among the results."""
        self._written = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """These results do not require gradients."""
        self._constant = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """False: backward sees None, not zeros, for results that no gradient reached."""
        self._materialize = value


def _is_one_of(x: object, those: Sequence[object]) -> bool:
    return any(x is y for y in those)


class Function:
    """An operation with a gradient of its own.  A subclass defines two static methods, and is used by ``apply``::

        class Cube(Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * x * x

            @staticmethod
            def backward(ctx, grad):
                (x,) = ctx.saved_tensors
                return 3 * x * x * grad

        y = Cube.apply(x)

    ``backward`` takes one gradient for each result and returns one for each argument of ``forward``: a Tensor, or None.
    """

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Takes ``ctx`` and the arguments of ``apply``; returns a Tensor or a tuple of results."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Where forward takes no ctx: called after it, to save the tensors that backward needs."""
        raise NotImplementedError("setup_context is not implemented.")

    _pure = False  # does backward read nothing but ctx and its arguments?
    generate_vmap_rule = False  # inside vmap: forward and backward run on samples, as other functions do

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any) -> Any:
        """Inside vmap, in place of forward: all samples at once.  info has batch_size and randomness; in_dims the
        mapped axis of each argument, or None.  Returns (results, out_dims)."""
        raise NotImplementedError("vmap is not implemented.")

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        """Forward mode: the tangents of the results from those of the arguments."""
        raise NotImplementedError("jvp is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """The gradients of the arguments, from those of the results."""
        raise NotImplementedError(
            "You must implement the backward function for your custom autograd.Function to use it in backward."
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Computes ``forward(ctx, *args)`` and records it; arguments by name take their places in args."""
        if kwargs:
            from inspect import signature

            first = (None,) if cls.setup_context is Function.setup_context else ()
            bound = signature(cls.forward).bind(*first, *args, **kwargs)
            bound.apply_defaults()
            args = bound.args[len(first) :]
        if _core._transform_depth() and any(isinstance(x, Tensor) and _core._level_of(x) for x in args):
            from . import _transformed

            return _transformed.apply(cls, args, Function, _Context)
        ctx = _Context()
        at = [i for i, x in enumerate(args) if isinstance(x, Tensor)]
        ctx.needs_input_grad = tuple(isinstance(x, Tensor) and x.requires_grad for x in args)
        with no_grad():
            if cls.setup_context is Function.setup_context:
                output = cls.forward(ctx, *args)
            else:
                output = cls.forward(*args)
                cls.setup_context(ctx, args, output)
        single = not isinstance(output, tuple)
        results = [output] if single else list(output)
        if _core.is_grad_enabled() and any(ctx.needs_input_grad):
            results = cls._record(ctx, args, at, results)
        else:  # an input that was not written is a result of its own
            given = [args[i] for i in at if not _is_one_of(args[i], ctx._written)]
            results = [_core.detach(y) if _is_one_of(y, given) else y for y in results]
        return results[0] if single else tuple(results)

    @classmethod
    def _record(cls, ctx: _Context, args: tuple[Any, ...], at: list[int], results: list[Any]) -> list[Any]:
        """The results as results of this function: a result that is not a tensor, or is marked as
        constant, stays as it is; an input that was written stays the same object."""
        if not all(_is_one_of(x, results) for x in ctx._written):
            raise RuntimeError("Some elements marked as dirty during the forward method were not returned as output.")
        mine = [k for k, y in enumerate(results) if isinstance(y, Tensor) and not _is_one_of(y, ctx._constant)]
        written = tuple(_is_one_of(results[k], ctx._written) for k in mine)
        kinds = [(y.shape, y.dtype, y.device) if isinstance(y, Tensor) else None for y in results]
        # A context that held a result would keep the graph alive for ever: the graph keeps these, ctx the others.
        given = list(ctx._given or ())
        positions = [i for i, x in enumerate(given) if _is_one_of(x, [results[k] for k in mine])]
        saved = [x for x in (given[i] for i in positions) if isinstance(x, Tensor)]
        for i in positions:
            given[i] = None
        hooks = _core._set_saved_hooks(None)
        _core._set_saved_hooks(hooks)
        if hooks is not None:
            given = [_Packed(hooks, x) if isinstance(x, Tensor) else x for x in given]
        ctx._constant = ctx._written = ()
        ctx._given = tuple(given)

        def walk(
            grads: tuple[Tensor | None, ...], needs: tuple[bool, ...], found: tuple[Tensor, ...], frees: bool
        ) -> list[Any]:
            if not cls._pure:
                _core._record_recomputes(cls.__name__)
            each: list[Any] = [None] * len(kinds)
            for k, g in zip(mine, grads, strict=True):
                each[k] = g
            if ctx._materialize:
                for k, kind in enumerate(kinds):
                    if each[k] is None and kind is not None:
                        each[k] = _core.zeros(*kind[0], dtype=kind[1], device=kind[2])
            kept = ctx._given
            if kept is not None:
                now = list(kept)
                for i, x in zip(positions, found, strict=True):
                    now[i], ctx._versions[i] = x, x._version  # the graph has checked its version
                ctx._given = tuple(now)
            try:
                dx = cls.backward(ctx, *each)
            finally:
                ctx._given = None if frees and kept else kept
            dx = dx if isinstance(dx, tuple) else (dx,)
            if len(dx) < len(args) or any(d is not None for d in dx[len(args) :]):
                raise RuntimeError(
                    f"function {cls.__name__}Backward returned an incorrect number of gradients (expected {len(args)},"
                    f" got {len(dx)})"
                )
            return [dx[i] for i in at]

        outputs = [results[k] for k in mine]
        recorded = _core._record(cls.__name__, [args[i] for i in at], outputs, saved, walk, written)
        for k, y, stays in zip(mine, recorded, written, strict=True):
            if not stays:
                results[k] = y
        return results


# ---- checks ----


class GradcheckError(RuntimeError):
    """A gradient that is not the derivative."""


def _check(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Any],
    eps: float,
    atol: float,
    rtol: float,
    raise_exception: bool,
    second: bool,
) -> bool:
    args = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    at = [i for i, x in enumerate(args) if isinstance(x, Tensor) and x.requires_grad]
    if not at:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of the them have"
            " requires_grad=True."
        )

    def call(*tensors: Tensor) -> list[Tensor]:
        full: list[Any] = list(args)
        for i, x in zip(at, tensors, strict=True):
            full[i] = x
        output = func(*full)
        return [
            y
            for y in ([output] if isinstance(output, Tensor) else output)
            if isinstance(y, Tensor) and y.is_floating_point()
        ]

    checked = [args[i] for i in at]
    for k in range(len(call(*checked))):
        try:
            _core._gradcheck(lambda *tensors, k=k: call(*tensors)[k], checked, eps, atol, rtol, second)
        except RuntimeError as problem:
            if not str(problem).startswith("[grad"):  # not a verdict: func's own
                raise
            if raise_exception:
                raise GradcheckError(str(problem)) from None
            return False
    return True


def gradcheck(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Any],
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
) -> bool:
    """Compares the gradients of ``func(*inputs)`` with central differences, element by element,
    under a random cotangent. Inputs that require gradients must be float64.  True, or
    GradcheckError that names input, position and both values."""
    return _check(func, inputs, eps, atol, rtol, raise_exception, False)


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Any],
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
) -> bool:
    """The same for the gradients of the gradients; they are compared with differences of the
    gradients, so run ``gradcheck`` too."""
    return _check(func, inputs, eps, atol, rtol, raise_exception, True)
