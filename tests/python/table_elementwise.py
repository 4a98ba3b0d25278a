"""Calls of elementwise functions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

from cases import (
    ANY,
    FLOATS,
    LAYOUTS,
    NUMBERS,
    PAIRS,
    SHAPES,
    WHOLES,
    Call,
    Cases,
    X,
    binary,
    both,
    call,
    listed,
    row,
    unary,
)


def wheres() -> Iterator[Call]:
    for (a, b), d in product(PAIRS, ("float64", "float32")):
        yield call(X(a, "bool", seed=5), X(a, d), X(b, d, seed=1))
        yield call(X(b, "bool", seed=5, layout="strided"), X(a, d, layout="transposed"), X(b, d, seed=1))
    for d, e in product(ANY, ANY):
        yield call(X((3, 5), "bool", seed=5), X((5,), d), X((3, 1), e))
    for v, w in product([1, 2.5, True], repeat=2):
        yield call(X((3, 5), "bool", seed=5), v, w)
        yield call(X((3, 5), "bool", seed=5), X((3, 5), "float16"), w)
        yield call(X((3, 5), "bool", seed=5), v, X((3, 5), "int32"))
    for shape, d in product(SHAPES, ANY):
        yield call(X(shape, d, -1, 2))
    yield call(X((3, 5), "bool"), X((3, 5)))
    yield call(X((3, 5)), X((3, 5)), X((3, 5)))
    yield call(X((3, 5), "uint8"), X((3, 5)), X((3, 5)))
    yield call(X((3, 5), "bool"), X((2, 5)), X((3, 5)))


def clamps() -> Iterator[Call]:
    for shape, dtype, layout in product(SHAPES, NUMBERS, LAYOUTS):
        yield call(X(shape, dtype, layout=layout), -1, 1)
    for d, low, high in product(NUMBERS, [None, -1, -0.5], [None, 1, 0.5]):
        yield call(X((3, 5), d), low, high)
        yield call(X((3, 5), d), min=low, max=high)
    for d, e in product(NUMBERS, NUMBERS):
        yield call(X((3, 5), d), X((5,), e, -1, 0), X((3, 1), e, 0, 1))
    yield call(X((3, 5)), X((5,), low=-1, high=0))
    yield call(X((3, 5)), None, X((5,), low=-1, high=0))
    yield call(X((3, 5)), max=2.0)
    yield call(X((3, 5)), 2.0, -2.0)
    yield call(X((3, 5)), math.nan, 1.0)
    yield call(X((3, 5)), 0.0, X((5,)))
    yield call(X((3, 5), "bool"), 0, 1)
    yield call(X((3, 130)), X((130,), kind="special", grad=False), X((), low=3, high=4))


def ternary(low: float = 0.3, high: float = 3, numbers: bool = False, value: bool = True) -> Cases:
    def cases() -> Iterator[Call]:
        for (a, b), d in product(PAIRS, ("float64", "float32")):
            yield call(X(a, d, low, high), X(b, d, low, high, seed=1), X(a, d, low, high, seed=2))
            yield call(
                X(b, d, low, high, "strided"), X(a, d, low, high, "transposed", seed=1), X(b, d, low, high, seed=2)
            )
        for d in ANY:
            yield call(X((3, 5), d, low, high), X((5,), d, low, high, seed=1), X((3, 1), d, low, high, seed=2))
            if numbers:
                yield call(X((3, 5), d, low, high), X((5,), d, low, high, seed=1), 0.3)
            if value:
                yield call(
                    X((3, 5), d, low, high), X((5,), d, low, high, seed=1), X((3, 1), d, low, high, seed=2), value=2
                )
                yield call(
                    X((3, 5), d, low, high), X((5,), d, low, high, seed=1), X((3, 1), d, low, high, seed=2), value=-0.5
                )
        yield call(X((3, 5)), X((2, 5)), X((3, 5)))
        yield call(X((3, 5)), X((3, 5), "float32"), X((3, 5)))
        yield call(X((3, 5)), X((3, 5)), 2.0)

    return cases


def powers() -> Iterator[Call]:
    yield from binary(0.3, 2, NUMBERS, [0, 1, 2, 3, 0.5, -1, -2, 2.5, -0.5])()
    for e in (0, 1, 2, 3, -1, 2.0):
        yield call(X((3, 5), low=-2, high=2), e)
        yield call(X((3, 5), "int64", 1), e)


def number_first(*numbers: float, dtypes: list[str] = NUMBERS) -> Cases:
    """A number as first operand; two numbers."""
    return listed(
        *[call(n, X((3, 5), d, 1, 4)) for n, d in product(numbers, dtypes)],
        call(3, 2.5),
        call(7, 2),
        call(True, X((3,), "bool")),
    )


def tensor_numbers(name: str) -> Cases:
    """A 0-d tensor where a number is wanted: taken, unless it requires grad or has axes."""
    return listed(
        *[
            call(X((3, 5), low=-4, high=4), **{name: X(s, d, 1, 3, grad=False)})
            for s, d in product([(), (1,)], ("float32", "int64"))
        ]
    )


signed = unary()
test2 = binary(-2, 2)
bits = binary(0, 7, [*WHOLES, "bool"], [1, 3, True])
shifts = binary(0, 5, WHOLES, [0, 1, 3])
arithmetic = number_first(2, 2.5, -0.5)
row(
    "add",
    both(
        binary(alpha=[2, -1, 0.5, True]),
        arithmetic,
        listed(call(2.0, X((3,)), alpha=3), call(X((3,)), X((3,)), alpha=X((), "int64"))),
    ),
)
row("sub subtract", both(binary(alpha=[2, -1, 0.5]), arithmetic, listed(call(2.0, X((3,)), alpha=3))))
row("mul multiply", both(binary(), arithmetic))
row(
    "div divide true_divide",
    both(
        binary(0.3, 3, rounding_mode=[None, "trunc", "floor", "up", 3]),
        arithmetic,
        listed(call(7, X((3,)), rounding_mode="floor")),
    ),
)
row("pow", both(powers, arithmetic))
row("clamp clip", clamps)
row("clamp_min clamp_max", binary(dtypes=NUMBERS))
row(
    "gelu",
    both(
        unary(dtypes=FLOATS, approximate=["none", "tanh", "other", 3]),
        listed(call(X((130,), "float32", kind="special", grad=False))),
    ),
)
row(
    "floor_divide remainder fmod",
    both(
        binary(0.5, 4, NUMBERS, [1, 2.5, -2]),
        number_first(2, 7.5, -3),
        listed(call(X((3, 5), "int32"), X((5,), "bool"))),
    ),
)
row("maximum minimum fmax fmin", binary(numbers=[]))
row("atan2 arctan2", binary(0.2, 3, numbers=[]))
row("copysign", binary())
row("hypot logaddexp logaddexp2 nextafter", binary(numbers=[]))
row("xlogy", both(binary(0.2, 4), number_first(2, 0.5)))
row("signbit", signed)
row("lerp", ternary(numbers=True, value=False))
row("addcmul addcdiv", ternary())
row("where", wheres)
row(
    "Tensor.where",
    lambda: (call(args[1], args[0], *args[2:]) for args, _ in wheres() if len(args) > 1 and isinstance(args[1], X)),
)
row(
    "copy_",
    listed(
        *[call(X(a, grad=False), X(b, e, seed=1)) for (a, b), e in product(PAIRS, ANY)],
        *[call(X((3,), d), 2.5) for d in ANY],
        call(X((3,), grad=False), "1"),
        call(X((3,), grad=False), None),
    ),
)
row(
    "fill_",
    listed(
        *[
            call(X(s, d, layout=layout, grad=False), v)
            for s, d, layout, v in product(SHAPES, ANY, LAYOUTS, (1, 2.5, True))
        ],
        call(X((3,)), "1"),
        call(X((3,)), [1]),
        call(X((3,), grad=False), X((), grad=False)),
        call(X((3,))),
    ),
)
row(
    "zero_", listed(*[call(X(s, d, layout=layout)) for s, d, layout in product(SHAPES, ANY, LAYOUTS)], call(X((3,)), 1))
)
row("abs absolute neg negative square relu", signed)
row("sign ceil floor trunc fix frac", signed)
rounded = unary(-99, 99, FLOATS, decimals=[2, 0, -1, -2, 1.5, True])
row("round", both(signed, rounded, listed(*[call(X((3, 5), d, -30, 30), decimals=n) for d in ANY for n in (1, -1)])))
row("exp exp2 expm1 sin cos atan arctan sinh cosh tanh asinh arcsinh erf erfc sigmoid deg2rad rad2deg sinc", signed)
row("log log2 log10 sqrt rsqrt reciprocal", unary(0.2, 4))
row("log1p", unary(-0.8, 3))
# without gradients: PyTorch's trigamma has 9 digits; test_special.py has the derivatives
row("digamma", listed(*[call(X(s, d, 0.3, 5, y, grad=False)) for s, d, y in product(SHAPES, ANY, LAYOUTS)]))
row("lgamma i0 i0e i1 i1e ndtr log_ndtr erfcx entr", signed)
row("erfinv", unary(-0.9, 0.9))
row("ndtri", unary(0.05, 0.95))
row("zeta", binary(1.5, 4, FLOATS))  # PyTorch's gradient for integer x is in their arithmetic
row("xlog1py", both(binary(0.2, 4), number_first(2, 0.5)))
row("tan", unary(-1.3, 1.3))
row("asin arcsin acos arccos atanh arctanh", unary(-0.9, 0.9))
row("acosh arccosh", unary(1.2, 4))
row("selu silu mish softsign hardsigmoid hardswish relu6 logsigmoid", unary(dtypes=FLOATS))
row("leaky_relu", both(unary(dtypes=FLOATS, negative_slope=[0.2, 1, -0.5, "a"]), tensor_numbers("negative_slope")))
row("elu celu", unary(dtypes=FLOATS, alpha=[0.5, 2, "a"]))
row("softplus", unary(dtypes=FLOATS, beta=[0.5, 2], threshold=[1, 0.5, "a"]))
row(
    "hardtanh",
    both(
        unary(dtypes=FLOATS, min_val=[-2, -0.5], max_val=[0.5, 2.5]),
        listed(call(X((3, 5), "uint8")), call(X((3, 5), "int8"), 0, 2.5)),
    ),
)
row("isnan isinf isposinf isneginf isfinite logical_not", signed)
row(
    "nan_to_num",
    both(
        unary(nan=[1.5, "a"], posinf=[3, 2.5], neginf=[-3]),
        listed(*[call(X((130,), d, kind="special", grad=False)) for d in FLOATS]),
    ),
)
row(
    "logit",
    both(unary(0.2, 0.8, eps=[0.3]), listed(call(X((3, 5), low=-1, high=2), 0.125), call(X((3, 5), low=-1, high=2)))),
)
row("eq ne lt le gt ge not_equal less less_equal greater greater_equal", test2)
row("logical_and logical_or logical_xor", binary(-1, 2, numbers=[]))
row("bitwise_and bitwise_or bitwise_xor", both(bits, number_first(2, 5, dtypes=WHOLES)))
row("bitwise_not", unary(dtypes=[*WHOLES, "bool"]))
row("bitwise_left_shift bitwise_right_shift", both(shifts, number_first(2, 5, dtypes=WHOLES)))
row("rsub", binary(alpha=[2, -1, 0.5]))
