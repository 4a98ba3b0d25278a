"""Gradients: the modes of a thread, ``grad``, functions with a gradient of their own, checks."""

from __future__ import annotations

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
    "enable_grad",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "inference_mode",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
]


# ---- modes ----


class _Mode:
    """A setting of this thread, put back at the end: ``with mode:``, or a decorator."""

    def __init__(self, setter: Callable[[bool], bool], value: bool) -> None:
        self._setter = setter
        self._value = value
        self._before: list[bool] = []

    def __enter__(self) -> None:
        self._before.append(self._setter(self._value))

    def __exit__(self, *exception: object) -> None:
        self._setter(self._before.pop())

    def __call__(self, function: _F) -> _F:
        from functools import wraps

        setter, value = self._setter, self._value

        @wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with _Mode(setter, value):
                return function(*args, **kwargs)

        return inside  # type: ignore[return-value]


class _ModeFromNow(_Mode):
    """Set when it is made; ``with`` only says where it ends."""

    def __init__(self, setter: Callable[[bool], bool], value: bool) -> None:
        super().__init__(setter, value)
        super().__enter__()

    def __enter__(self) -> None:
        if not self._before:
            super().__enter__()


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
    """``no_grad`` under PyTorch's other name; unlike PyTorch's, its tensors can take part in a graph later."""
    if callable(mode):
        return _Mode(_core._set_grad_enabled, False)(mode)
    return _Mode(_core._set_grad_enabled, not mode and _core.is_grad_enabled())


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


# ---- functions with a gradient of their own ----


class _Context:
    """What ``forward`` leaves for ``backward``: saved tensors, and any attribute."""

    def __init__(self) -> None:
        self.saved_tensors: tuple[Tensor | None, ...] = ()
        self.needs_input_grad: tuple[bool, ...] = ()
        self._materialize = True
        self._constant: tuple[Tensor, ...] = ()

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keeps tensors for backward, where ``saved_tensors`` gives them back; one that was
        overwritten in between is an error there."""
        self.saved_tensors = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """These results do not require gradients."""
        self._constant = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """False: backward sees None, not zeros, for results that no gradient reached."""
        self._materialize = value


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

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """The gradients of the arguments, from those of the results."""
        raise NotImplementedError(
            "You must implement the backward function for your custom autograd.Function to use it in backward."
        )

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Computes ``forward(ctx, *args)`` and records it."""
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
        return results[0] if single else tuple(results)

    @classmethod
    def _record(cls, ctx: _Context, args: tuple[Any, ...], at: list[int], results: list[Any]) -> list[Any]:
        """The results as results of this function: a result that is no tensor, or is marked as
        constant, stays as it is."""
        mine = [k for k, y in enumerate(results) if isinstance(y, Tensor) and not any(y is c for c in ctx._constant)]
        kept = [s for s in ctx.saved_tensors if s is not None]
        places = [s is not None for s in ctx.saved_tensors]
        ctx.saved_tensors = ()  # the graph keeps them: a context that held a result would keep the graph alive for ever
        ctx._constant = ()
        shapes = [(results[k].shape, results[k].dtype, results[k].device) for k in mine]
        count = len(results)

        def walk(grads: tuple[Tensor | None, ...], needs: tuple[bool, ...], saved: tuple[Tensor, ...]) -> list[Any]:
            if ctx._materialize:
                grads = tuple(
                    _core.zeros(*shape, dtype=dtype, device=device) if g is None else g
                    for g, (shape, dtype, device) in zip(grads, shapes, strict=True)
                )
            each: list[Any] = [None] * count
            for k, g in zip(mine, grads, strict=True):
                each[k] = g
            given = iter(saved)
            ctx.saved_tensors = tuple(next(given) if there else None for there in places)
            try:
                found = cls.backward(ctx, *each)
            finally:
                ctx.saved_tensors = ()
            found = found if isinstance(found, tuple) else (found,)
            if len(found) < len(args) or any(g is not None for g in found[len(args) :]):
                raise RuntimeError(
                    f"function {cls.__name__}Backward returned an incorrect number of gradients (expected {len(args)},"
                    f" got {len(found)})"
                )
            return [found[i] for i in at]

        recorded = _core._record(cls.__name__, [args[i] for i in at], [results[k] for k in mine], kept, walk)
        for k, y in zip(mine, recorded, strict=True):
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
