"""Calls that make tensors, look at them, and move them to another dtype or device."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import Any

from cases import ANY, FLOATS, LAYOUTS, PAIRS, SHAPES, Call, Cases, Dtype, X, call, listed, row, shaped


def created(*calls: Call) -> Cases:
    def cases() -> Iterator[Call]:
        for args, kwargs in calls:
            yield call(*args, **kwargs)
            for dtype in ("float64", "int32", "bool", "bfloat16"):
                yield call(*args, **kwargs, dtype=Dtype(dtype))
            yield call(*args, **kwargs, requires_grad=True)

    return cases


SIZES = [
    call(2, 3),
    call((2, 3)),
    call([2, 3]),
    call(),
    call(()),
    call(0),
    call((4, 0, 2)),
    call(size=(2, 3)),
    call(X((), "int64", 2, 3)),
    call(-1),
    call((2, -3)),
    call(2.0),
    call("2"),
    call(None),
    call(2, "3"),
    call((2, 3), 4),
    call(2, 3.5),
]
TO = [
    call(Dtype("float32")),
    call(Dtype("int64")),
    call("cpu"),
    call("cpu", Dtype("float32")),
    call(dtype=Dtype("float16")),
    call(device="cpu"),
    call(X((), "int32")),
    call(Dtype("bool"), copy=True),
    call("nowhere"),
    call(3.5),
    call(),
    call(Dtype("float32"), Dtype("float32")),
    call(device="cpu", dtype=Dtype("int8")),
    call(X((), "float32"), copy=True),
    call(Dtype("float32"), False, True),
]
like = created(
    *[call(X(shape, d, layout=layout)) for shape, d, layout in product(SHAPES, ("float64", "int64", "bool"), LAYOUTS)]
)
DATA: list[Any] = [
    1,
    2.5,
    True,
    [],
    [[]],
    [1, 2],
    [1, 2.5],
    [True, False],
    [True, 2],
    [[1, 2], [3, 4]],
    [[[]], [[]]],
    ((1, 2), [3, 4]),
    range(4),
    "1",
    None,
    [None],
    ["1"],
    [[1], [2, 3]],
    [[1], 2],
    {},
    {1},
    b"12",
    X((3, 5)),
    [X(()), X((), seed=1)],
    [X(()), 2],
    [math.nan, math.inf],
    10**12,
    [10**12],
    2**63,
    2**70,
]
row(
    "tensor",
    listed(
        *[call(v) for v in DATA],
        *[call([1, 0, 3], dtype=Dtype(d)) for d in ANY],
        *[call([1.5, 0, 3.9], dtype=Dtype(d)) for d in ANY],
        *[
            call([v], dtype=Dtype(d))
            for v, d in product((-1, -128, -129, -255, -256, 127, 128, 255, 256, 2**31, 2**32, 2**63), ANY)
        ],
        *[
            call([v], dtype=Dtype(d))
            for v, d in product((-1.0, -128.5, 127.5, 255.5, 1e20, float("inf"), float("nan")), ANY)
        ],
        call(),
        call(1, 2),
        call([1.5], requires_grad=True),
        call([1], requires_grad=True),
        call(1, dtype="float32"),
        call(1, device="nowhere"),
        call(1, device=3.5),
        call(1, requires_grad=1),
        call(data=[1.0]),
        call(1.5, device="cpu"),
    ),
)
row("zeros ones", created(*SIZES))
row("empty", created(*SIZES))
FILLED = [call((2,), 2**60 + 1), *[call((2,), X((), d, grad=False)) for d in ANY]]
row(
    "full",
    created(
        call((2, 3), 1),
        call((2, 3), 2.5),
        call([2], True),
        call((), 7),
        call((2, 0), 1),
        call(size=(2,), fill_value=3),
        *FILLED,
    ),
)
row(
    "arange",
    created(
        call(5),
        call(2, 7),
        call(0, 10, 3),
        call(0, 1, 0.25),
        call(5.0),
        call(0),
        call(10, 0, -3),
        call(1, 1),
        call(end=4),
        call(start=1, end=4),
        call(2, 7, step=2),
        call(2, 1),
        call(0, 5, 0),
        call(0, 5, -1),
        call("5"),
        call(),
        call(0.5, 3),
        call(None),
        call(1, None),
        call(X((), "int32", 5, 9)),
        call(X((), "float64", 1, 3, grad=False)),
        call(X((), "int64", 1, 2), X((), "int64", 7, 9), X((), "int64", 2, 3)),
        call(X((1,), "int64", 3, 4)),
    ),
)
row(
    "linspace",
    created(
        call(0, 1, 5),
        call(-2.5, 3, 7),
        call(0, 1, 1),
        call(0, 1, 0),
        call(5, 1, 3),
        call(0, 1, steps=4),
        call(start=0, end=1, steps=2),
        call(0, 1, -1),
        call(0, 1),
        call(0, 1, 2.5),
        *[
            call(*ends, 3)
            for ends in product(
                [X((), "int64"), X((), "float64", grad=False), -1.5],
                [X((), "float32", 4, 7, grad=False), X((), "int8", 5, 7), 9],
            )
        ],
        call(X((1,), grad=False), 2.5, 3),
        call(0, 1, X((), "int64", 3, 4)),
    ),
)
row(
    "eye",
    created(
        call(3), call(3, 5), call(0), call(3, 0), call(n=2), call(2, m=4), call(-1), call(2, -1), call(2.0), call()
    ),
)
row("rand randn", created(*SIZES))
row(
    "randint",
    created(
        call(5, (2, 3)),
        call(2, 7, (3,)),
        call(5, size=(2,)),
        call(low=2, high=5, size=(2,)),
        call(high=5, size=(2,)),
        call(5, 2, (2,)),
        call(5, 5, (2,)),
        call(0, (2,)),
        call(5),
        call(5, 3),
        call(2, 5, 3),
        call(1.5, (2,)),
        call(5, ()),
        call(5, (0,)),
        call(2, 7, [2, 3]),
    ),
)
row("zeros_like ones_like empty_like", like)
row("rand_like randn_like", created(*[call(X(shape, layout=layout)) for shape, layout in product(SHAPES, LAYOUTS)]))
row(
    "full_like",
    listed(
        *[call(X(shape, d), v) for shape, d, v in product(SHAPES, ANY, (1, 2.5, True))],
        call(X((3,)), 1, dtype=Dtype("int32")),
        call(X((3,))),
        call(X((3,)), "1"),
        call(X((3,)), fill_value=2),
    ),
)
row(
    "manual_seed",
    listed(call(7), call(0), call(-1), call(2**63), call(2**64 - 1), call("7"), call(), call(None), call(1.5)),
)
row(
    "numel nelement is_floating_point is_contiguous element_size dim",
    listed(*[call(X(s, d, layout=layout)) for s, d, layout in product(SHAPES, ANY, LAYOUTS)]),
)
row("is_tensor", listed(call(X((3,))), call(1), call([1]), call(None), call()))
row("size stride", shaped(call(), call(0), call(-1), call(dim=0), call(9), call(0.5), call("0"), call(None)))
row(
    "storage_offset",
    listed(*[call(X(s, layout=layout)) for s, layout in product([(3, 5), (), (7,), (2, 3, 5)], LAYOUTS)]),
)
row("data_ptr", listed())
row("item", listed(*[call(X(s, d, low=1)) for s, d in product([(), (1,), (1, 1), (0,), (3,)], ANY)]))
row("tolist", listed(*[call(X(s, d, layout=layout)) for s, d, layout in product(SHAPES, ANY, LAYOUTS)]))
row("to", shaped(*TO, shapes=[(3, 5)]))
row("cpu", shaped(call(), shapes=[(3, 5), ()]))
row("cuda gpu", listed())  # test_devices
row(
    "float double half bfloat16 int long short bool",
    listed(*[call(X(s, d, -2, 2, layout)) for s, d, layout in product(SHAPES, ANY, LAYOUTS)]),
)
row("contiguous clone detach", shaped(call()))
row("detach_", listed())
row(
    "requires_grad_",
    listed(
        call(X((3,), grad=False)),
        call(X((3,), grad=False), False),
        call(X((3,), "int64")),
        call(X((3,), grad=False), 1),
        call(X((3,), "int64"), False),
    ),
)
row("retain_grad backward", listed())  # test_autograd.py
row("as_subclass", listed())  # test_subclass.py
row(
    "as_tensor",
    listed(
        *[call(v) for v in (1, 2.5, True, [], [1, 2.5], [[1, 2], [3, 4]], X((3, 5)), "1")],
        call([1.5], dtype=Dtype("float64")),
        call(X((3, 5)), dtype=Dtype("int32")),
    ),
)
row(
    "asarray",
    listed(
        *[call(v) for v in (1, [1, 2.5], [[True]], X((3, 5)))],
        call([1.5], dtype=Dtype("float64")),
        call(X((3, 5)), copy=True),
    ),
)
row("is_grad_enabled get_num_threads", listed(call(), call(1)))
# What PyTorch has not, or not so; each has a test of its own.
row("set_float32_matmul_precision get_float32_matmul_precision", listed())
row(
    "set_num_threads set_default_device get_default_device memory_stats reset_peak_memory_stats empty_cache synchronize"
    " set_printoptions",
    listed(),
)  # settings
row("save load from_numpy from_dlpack numpy register_hook register_post_accumulate_grad_hook", listed())
row(
    "promote_types can_cast",
    listed(*[call(Dtype(d), Dtype(e)) for d, e in product(ANY, ANY)], call(Dtype("int64")), call(Dtype("int64"), 3)),
)
row(
    "result_type",
    listed(
        *[call(X((3,), d), v) for d, v in product(ANY, (1, 2.5, True, X((), "float64"), X((2,), "int8")))],
        call(1, 2.5),
        call(1),
        call("1", X((3,))),
    ),
)
row(
    "randint_like",
    listed(
        *[call(X(s, d), *v) for s, d, v in product(SHAPES, ("float64", "int64"), ((5,), (2, 7)))],
        call(X((3,)), 0),
        call(X((3,))),
        call(X((3,)), 1.5),
        call(X((3,)), 2, high=4),
    ),
)
row(
    "bernoulli",
    listed(
        *[call(X(s, d, 0, 1, layout, grad=False)) for s, d, layout in product(SHAPES, ANY, LAYOUTS)],
        call(X((3, 5), low=2)),
        call(X((3, 5), low=-2, high=-1)),
        *[call(X(s, d, grad=False), p) for s, d, p in product(SHAPES, ANY, (0, 0.3, 1))],
        call(X((3,)), 1.5),
        call(X((3,)), "1"),
        call(X((3,), grad=False), p=0.5),
    ),
)


def weights(shape: tuple[int, ...], dtype: str = "float64", low: float = 0.1, layout: str = "plain") -> X:
    return X(shape, dtype, low, 1, layout, grad=False)


row(
    "multinomial",
    listed(
        *[
            call(weights(s, d, layout=layout), 2, r)
            for s, d, layout, r in product([(5,), (3, 5), (2,)], FLOATS, LAYOUTS, (True, False))
        ],
        *[call(weights((3, 5)), n, r) for n, r in product((1, 5, 6, 0, -1), (True, False))],
        call(X((5,), low=0, high=2, kind="whole", grad=False), 5),  # more than there are weights above 0
        call(weights((0, 5)), 2),
        call(weights((0,)), 1),
        call(weights(()), 1),
        call(weights((2, 3, 5)), 1),
        call(X((5,), "int64", 1), 2),
        call(X((5,), low=-1, high=-0.5), 2),
        call(weights((5,)), num_samples=7, replacement=True),
        call(weights((5,)), 2.5),
        call(weights((5,)), "2"),
        call(weights((5,))),
    ),
)
row(
    "randperm",
    created(call(5), call(0), call(1), call(40), call(n=7), call(-1), call(2.5), call("3"), call(), call(None)),
)
row(
    "normal",
    listed(
        *[
            call(X(a, d, grad=False), X(b, d, 0, 2, layout, grad=False))
            for (a, b), d, layout in product(PAIRS, FLOATS, LAYOUTS)
        ],
        *[call(X(s, d, grad=False)) for s, d in product(SHAPES, FLOATS)],
        *[call(X(s, d, grad=False), 2.0) for s, d in product(SHAPES, FLOATS)],
        *[call(1.0, X(s, d, 0, 2, grad=False)) for s, d in product(SHAPES, FLOATS)],
        *[call(0.0, 1.0, size) for size in ((2, 3), (), (0, 2), [4])],
        call(0.0, 1.0, (2,), dtype=Dtype("float64")),
        call(0.0, 1.0, size=(2,), requires_grad=True),
        call(0.0, -1.0, (2,)),
        call(0.0, 1.0),
        call(X((3,), grad=False), -1.0),
        call(X((3,), grad=False), X((3,), low=-2, high=-1, grad=False)),
        call(X((3,), "int64"), 1.0),
        call("1", 1.0, (2,)),
        call(),
    ),
)


def fills(dtypes: list[str], *rest: Call) -> Cases:
    """Every shape, dtype and layout with the first arguments, then the others."""

    def cases() -> Iterator[Call]:
        args, kwargs = rest[0]
        for shape, dtype, layout in product(SHAPES, ANY, LAYOUTS):
            yield call(X(shape, dtype, layout=layout), *args, **kwargs)
        for dtype, (args, kwargs) in product(dtypes, rest):
            yield call(X((3, 5), dtype), *args, **kwargs)

    return cases


row(
    "uniform_",
    fills(
        FLOATS,
        call(),
        call(-1, 1),
        call(1, 1),
        call(2, 1),
        call(0, to=2),
        call(0, math.inf),
        call(math.nan, 1),
        call("0"),
        call(None),
    ),
)
row(
    "normal_",
    fills(FLOATS, call(), call(1, 2), call(0, 0), call(0, -1), call(std=2), call(mean=1), call(math.nan), call("0")),
)
row("log_normal_", fills(FLOATS, call(), call(1, 2), call(0, 0), call(0, -1), call(std=2), call("0")))
row("exponential_", fills(FLOATS, call(), call(2.5), call(0), call(-1), call(lambd=1), call(math.nan), call("1")))
row("cauchy_", fills(FLOATS, call(), call(1, 2), call(0, 0), call(0, -1), call(sigma=2), call("0")))
row(
    "geometric_",
    fills(ANY, call(0.5), call(0.01), call(0), call(1), call(-1), call(p=0.3), call(math.nan), call("0"), call()),
)
row(
    "bernoulli_",
    fills(
        ANY,
        call(),
        call(0.3),
        call(1),
        call(1.5),
        call(p=0),
        call(X((5,), low=0, high=1, grad=False)),
        call(X((2,), low=0, high=1)),
        call(X((5,), low=2)),
        call("1"),
    ),
)
row(
    "random_",
    fills(ANY, call(), call(2), call(0, 2), call(1, 2), call(0), call(2, 2), call(0, to=2), call(1.5), call("1")),
)
row("to_device", listed())  # the array API's: test_array_api.py
row(
    "new_zeros new_ones new_empty",
    listed(
        *[
            call(X((2,), d), *args, **kwargs)
            for d, (args, kwargs) in product(("float64", "int8"), [*SIZES, call(2, 3, dtype=Dtype("bool"))])
        ]
    ),
)
row(
    "new_full",
    listed(
        *[call(X((2,), d), (2, 3), v) for d, v in product(ANY, (1, 2.5, True))],
        call(X((2,)), 3, 1),
        call(X((2,)), (3,)),
        call(X((2,)), (3,), "1"),
    ),
)
row(
    "new_tensor",
    listed(
        *[call(X((2,), d), v) for d, v in product(("float64", "int8"), (1, 2.5, [1, 2], [True], [], "1"))],
        call(X((2,)), [1], dtype=Dtype("int8")),
    ),
)
row("type_as", listed(*[call(X((3, 5), d), X((2,), e)) for d, e in product(ANY, ANY)], call(X((3,)), "float32")))
