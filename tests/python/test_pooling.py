"""Pooling, resampling and normalization by channel against PyTorch's: values, positions, gradients, and that both
refuse with a matching kind of error; second derivatives by differences."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import chainrule as cr
import pytest
from cases import WHOLES, X
from chainrule import nn
from chainrule.nn import functional as F
from compare import compare, differ
from test_nn import Case, case, compare_modules, label, needs_torch, same, to_torch, torch, twins

pytestmark = pytest.mark.filterwarnings("ignore")

LINE, PLANE, BOX = X((2, 3, 11)), X((2, 3, 7, 9)), X((2, 2, 5, 6, 7))
TIES = X((2, 3, 7, 9), kind="whole", low=0, high=2)
TURNED, HALF = X((2, 3, 7, 9), layout="transposed"), X((2, 3, 7, 9), "bfloat16")


def call(name: str, *args: Any, **kwargs: Any) -> Case:
    return name, args, kwargs, []


FUNCTIONS: list[Case] = [
    *(call(f"max_pool{n}d", x, 2) for n, x in enumerate((LINE, PLANE, BOX), 1)),
    *(call(f"max_pool{n}d", x, 3, 2, 1, return_indices=True) for n, x in enumerate((LINE, PLANE, BOX), 1)),
    *(call("max_pool2d", x, 3, 2, 1, return_indices=True) for x in (TIES, TURNED, X((3, 7, 9), "float32"), HALF)),
    call("max_pool2d", X((2, 3, 7, 9), kind="special"), 3, 2, 1, return_indices=True),
    call("max_pool2d", PLANE, (3, 2), (2, 3), (1, 0), (2, 1), True, return_indices=True),
    call("max_pool2d", PLANE, 2, (), ceil_mode=True),
    call("max_pool2d", PLANE, 5, 1, 2),
    call("max_pool1d", LINE, 4, 3, 2, 1, True, return_indices=True),
    call("max_pool3d", BOX, (2, 3, 1), (1, 2, 2), (1, 1, 0), (2, 1, 1), True, return_indices=True),
    *(
        call(f"max_pool{len(shape) - 2}d", x, *options, return_indices=True)
        for dtype in WHOLES
        for shape in ((2, 3, 7, 9), (2, 2, 5, 6, 7))
        for x in (X(shape, dtype, low=0, high=4),)
        for options in ((2,), (3, 2, 1), (3, 1, 0, 2), (3, 2, 1, 1, True))
    ),
    *(
        call(f"avg_pool{len(shape) - 2}d", X(shape, "int64", low=-20, high=20), *options)
        for shape in ((2, 3, 11), (2, 3, 7, 9), (2, 2, 5, 6, 7))
        for options in ((2,), (3, 2, 1), (3, 2, 1, False, False), (3, 2, 1, True), (3, 2, 1, True, False))
    ),
    call("avg_pool2d", X((2, 3, 7, 9), "int64", low=-20, high=20), 3, 2, 1, divisor_override=4),
    call("max_pool2d", X((0, 3, 7, 9)), 2),
    call("max_pool2d_with_indices", PLANE, 2),
    call("max_pool2d", PLANE, 8),  # larger than the input
    call("max_pool2d", PLANE, 3, 2, 2),  # pad more than half the window
    call("max_pool2d", PLANE, 3, 0),
    call("max_pool2d", PLANE, 0),
    call("max_pool2d", PLANE, 3, 1, -1),
    call("max_pool2d", PLANE, 3, 1, 0, 0),
    call("max_pool2d", PLANE, (2, 2, 2)),
    call("max_pool2d", X((7, 9)), 2),
    call("max_pool1d", PLANE, 2),
    call("max_pool2d", X((2, 3, 0, 9)), 2),
    *(call(f"avg_pool{n}d", x, 2) for n, x in enumerate((LINE, PLANE, BOX), 1)),
    *(call(f"avg_pool{n}d", x, 3, 2, 1, True) for n, x in enumerate((LINE, PLANE, BOX), 1)),
    *(call(f"avg_pool{n}d", x, 3, 2, 1, True, False) for n, x in enumerate((LINE, PLANE, BOX), 1)),
    *(call("avg_pool2d", x, (3, 2), (1, 2), (1, 0), divisor_override=5) for x in (TURNED, HALF)),
    call("avg_pool2d", X((2, 3, 7, 9), kind="special"), 3, 2, 1),
    call("avg_pool2d", PLANE, 7, 1, 3),
    call("avg_pool2d", X((0, 3, 7, 9)), 2),
    call("avg_pool2d", PLANE, 8),
    call("avg_pool2d", PLANE, 3, 2, 2),
    call("avg_pool2d", PLANE, 3, 0),
    call("avg_pool2d", PLANE, 2, divisor_override=0),
    *(call(f"lp_pool{n}d", x, 2.0, 3, 2) for n, x in enumerate((LINE, PLANE, BOX), 1)),
    call("lp_pool2d", X((2, 3, 7, 9), low=0.1), 3.0, (2, 3), ceil_mode=True),
    *(call(f"adaptive_avg_pool{n}d", x, 3) for n, x in enumerate((LINE, PLANE, BOX), 1)),
    *(call("adaptive_avg_pool2d", x, (4, None)) for x in (PLANE, TURNED, HALF)),
    call("adaptive_avg_pool2d", PLANE, 1),
    call("adaptive_avg_pool2d", PLANE, (13, 11)),
    call("adaptive_avg_pool2d", PLANE, (1, 2, 3)),
    call("adaptive_avg_pool2d", PLANE, -1),
    call("adaptive_avg_pool2d", X((7, 9)), 2),
    *(call(f"adaptive_max_pool{n}d", x, 3, True) for n, x in enumerate((LINE, PLANE, BOX), 1)),
    *(call("adaptive_max_pool2d", x, (4, None), True) for x in (PLANE, TURNED, TIES, HALF)),
    call("adaptive_max_pool2d", X((2, 3, 7, 9), kind="special"), (4, 2), True),
    call("adaptive_max_pool2d", X((3, 6, 8)), (3, 4), True),
    call("adaptive_max_pool2d", PLANE, -1),
    *(call("interpolate", x, s) for x, s in ((LINE, 5), (LINE, 23), (PLANE, (14, 18)), (PLANE, 5), (BOX, (3, 9, 14)))),
    *(call("interpolate", PLANE, scale_factor=s) for s in (2, 0.6, (1.7, 2.3))),
    *(call("interpolate", PLANE, scale_factor=s, mode="nearest-exact") for s in (2, 0.6, (1.7, 2.3))),
    *(call("interpolate", x, 4, mode="area") for x in (LINE, PLANE, BOX)),
    *(call("interpolate", x, scale_factor=0.5, mode="area") for x in (LINE, PLANE, BOX)),
    *(
        call("interpolate", x, mode=m, align_corners=c, **s)
        for x, m in ((LINE, "linear"), (PLANE, "bilinear"), (BOX, "trilinear"), (PLANE, "bicubic"))
        for c in (None, True)
        for s in (
            {"size": 4},
            {"scale_factor": 2},
            {"scale_factor": 1.7},
            {"scale_factor": 0.3, "recompute_scale_factor": True},
        )
    ),
    *(call("interpolate", x, scale_factor=2, mode="bilinear") for x in (TURNED, HALF, X((2, 3, 7, 9), "float16"))),
    *(call("interpolate", PLANE, s, mode="bilinear", antialias=True) for s in ((3, 4), (2, 20), (7, 9), 1)),
    *(call("interpolate", PLANE, s, mode="bicubic", antialias=True) for s in ((3, 4), (2, 20), (7, 9), 1)),
    call("interpolate", PLANE, (3, 4), mode="bilinear", antialias=True, align_corners=True),
    call("interpolate", X((2, 3, 1, 1)), 4, mode="bilinear", align_corners=True),
    call("interpolate", X((2, 3, 4, 4), "uint8"), (7, 3)),
    call("interpolate", X((0, 3, 4, 4)), 2, mode="bilinear"),
    call("interpolate", PLANE),
    call("interpolate", PLANE, 2, 2),
    call("interpolate", PLANE, (1, 2, 3)),
    call("interpolate", PLANE, scale_factor=(1.0, 2.0, 3.0)),
    call("interpolate", PLANE, 0),
    call("interpolate", PLANE, -2, mode="bilinear"),
    call("interpolate", PLANE, scale_factor=0.01),
    call("interpolate", PLANE, 4, mode="linear"),
    call("interpolate", PLANE, 4, mode="cubic"),
    call("interpolate", X((7, 9)), 4),
    call("interpolate", PLANE, 4, align_corners=True),
    call("interpolate", PLANE, 4, antialias=True),
    call("interpolate", PLANE, 4, recompute_scale_factor=True),
    call("upsample", PLANE, scale_factor=2, mode="bilinear"),
    call("upsample_bilinear", PLANE, 5),
    call("upsample_nearest", PLANE, 5),
    *(call("local_response_norm", x, s, 0.3, 0.75, 2.0) for x in (LINE, PLANE, BOX) for s in (1, 2, 3)),
    call("local_response_norm", X((2, 3)), 2),
    *(call("instance_norm", x) for x in (LINE, PLANE, BOX, TURNED, HALF, X((0, 3, 4)))),
    call("instance_norm", X((2, 3, 1))),
    call("instance_norm", PLANE, weight=X((3,), seed=1), bias=X((3,), seed=2)),
    call("batch_norm", PLANE, None, None, X((3,), seed=1), X((3,), seed=2), True),
    call("batch_norm", TURNED, X((3,), seed=4, grad=False), X((3,), low=1, grad=False), X((3,), seed=1), None, True),
    call("batch_norm", HALF, None, None, X((3,), "bfloat16", seed=1), X((3,), "bfloat16", seed=2), True),
    call("batch_norm", X((2, 3, 7, 9), "float32"), X((3,), "float32", seed=4, grad=False),
         X((3,), "float32", low=1, grad=False), X((3,), "float32", seed=1), X((3,), "float32", seed=2)),
    call("batch_norm", PLANE, None, None),
    call("batch_norm", PLANE, X((4,), grad=False), X((4,), grad=False)),
    call("batch_norm", PLANE, None, None, X((4,)), None, True),
    call("batch_norm", X((1, 3)), None, None, None, None, True),
    call("batch_norm", X((0, 3, 4)), None, None, None, None, True),
    call("group_norm", PLANE, 3, X((3,), seed=1), X((3,), seed=2)),
]  # fmt: skip


@needs_torch
@pytest.mark.parametrize("c", FUNCTIONS, ids=label)
def test_function_is_pytorchs(c: Case) -> None:
    name, args, kwargs, _ = c
    found = compare(getattr(F, name), getattr(torch.nn.functional, name), torch, (args, kwargs))
    assert found is None, f"{name}: {found}"


@needs_torch
@pytest.mark.parametrize("n", [1, 2, 3])
def test_unpooling_is_pytorchs(n: int) -> None:
    shape = (2, 3, 7, 8, 9)[: 2 + n]
    for batch in (True, False):
        for kernel, stride, padding, sizes in ((2, None, 0, (list(shape[2:]),)), (3, 2, 1, (shape, list(shape[2:])))):
            x = X(shape if batch else shape[1:])
            results = []
            for lib, f in ((cr, F), (torch, torch.nn.functional)):
                t = x.make(lib, None).requires_grad_()
                y, index = getattr(f, f"max_pool{n}d")(t, kernel, stride, padding, return_indices=True)
                for size in sizes if batch else sizes[-1:]:
                    z = getattr(f, f"max_unpool{n}d")(y, index, kernel, stride, padding, size)
                    results.append((z, lib.autograd.grad((z * z).sum(), t, retain_graph=True)[0]))
            half = len(results) // 2
            for ours, theirs in zip(results[:half], results[half:], strict=True):
                assert (found := differ("unpooled", ours, theirs, torch)) is None, found


def test_unpooling_refuses() -> None:
    y, index = F.max_pool2d(cr.ones(1, 2, 4, 4), 2, return_indices=True)
    calls: list[tuple[Callable[[], Any], type[Exception], str]] = [
        (lambda: F.max_unpool2d(y, index + 16, 2), RuntimeError, "invalid max index"),
        (lambda: F.max_unpool2d(y, index[:, :1], 2), RuntimeError, "shape of indices"),
        (lambda: F.max_unpool2d(y, index.to(cr.int32), 2), RuntimeError, "int64"),
        (lambda: F.max_unpool2d(y, index, 2, output_size=(9, 9)), ValueError, "invalid output_size"),
        (lambda: F.max_unpool2d(y, index, 2, output_size=(4,)), ValueError, "elements"),
    ]
    for wrong, error, text in calls:
        with pytest.raises(error, match=text):
            wrong()


@needs_torch
def test_fractional_pooling_is_pytorchs() -> None:
    for n, shape in ((2, (2, 3, 9, 11)), (3, (2, 3, 7, 8, 9))):
        u = X((2, 3, n), low=0, high=1, seed=5, grad=False)
        for whole, size in ((2, (4, 5, 3)), (3, (2, 4, 1)), ((2, 3, 2), (5, 1, 4))):
            kernel = whole if isinstance(whole, int) else whole[:n]
            pairs = []
            for lib, f in ((cr, F), (torch, torch.nn.functional)):
                t = X(shape).make(lib, None).requires_grad_()
                y, index = getattr(f, f"fractional_max_pool{n}d")(
                    t, kernel, size[:n], return_indices=True, _random_samples=u.make(lib, None)
                )
                pairs.append((y, index, lib.autograd.grad((y * y).sum(), t)[0]))
            assert (found := differ("fractional", pairs[0], pairs[1], torch)) is None, f"{n} {kernel} {size}: {found}"
    assert F.fractional_max_pool2d(cr.ones(2, 9, 9), 2, output_ratio=0.5).shape == (2, 4, 4)
    with pytest.raises(ValueError, match="either"):
        F.fractional_max_pool2d(cr.ones(2, 9, 9), 2)
    with pytest.raises(RuntimeError, match="too large"):
        F.fractional_max_pool2d(cr.ones(2, 9, 9), 4, 8)


MODULES: list[Case] = [
    *(case(f"MaxPool{n}d", 3, 2, 1, of=[x]) for n, x in enumerate((LINE, PLANE, BOX), 1)),
    case("MaxPool2d", (2, 3), ceil_mode=True, of=[PLANE]),
    case("MaxPool2d", kernel_size=2, stride=2, return_indices=True, of=[PLANE]),
    *(case(f"AvgPool{n}d", 3, 2, 1, of=[x]) for n, x in enumerate((LINE, PLANE, BOX), 1)),
    case("AvgPool2d", (2, 3), divisor_override=3, of=[PLANE]),
    case("AvgPool1d", 2, of=[LINE]),
    *(case(f"LPPool{n}d", 2, 3, of=[x]) for n, x in enumerate((LINE, PLANE, BOX), 1)),
    *(case(f"Adaptive{k}Pool{n}d", 2, of=[x]) for n, x in enumerate((LINE, PLANE, BOX), 1) for k in ("Avg", "Max")),
    case("AdaptiveAvgPool2d", (None, 3), of=[PLANE]),
    case("AdaptiveMaxPool2d", (2, 3), return_indices=True, of=[PLANE]),
    case("Upsample", scale_factor=2, mode="bilinear", align_corners=True, of=[PLANE]),
    case("Upsample", 5, of=[LINE]),
    case("Upsample", scale_factor=(2, 1.5), mode="bicubic", of=[PLANE]),
    case("UpsamplingNearest2d", scale_factor=2, of=[PLANE]),
    case("UpsamplingBilinear2d", (3, 4), of=[PLANE]),
    case("LocalResponseNorm", 3, of=[PLANE]),
    case("BatchNorm3d", 2, of=[BOX]),
    case("BatchNorm2d", 3, of=[TURNED]),
    *(case(f"InstanceNorm{n}d", x.shape[1], of=[x]) for n, x in enumerate((LINE, PLANE, BOX), 1)),
    *(
        case(f"InstanceNorm{n}d", x.shape[1], affine=True, track_running_stats=True, of=[x])
        for n, x in enumerate((LINE, PLANE, BOX), 1)
    ),
    case("InstanceNorm2d", 3, affine=True, of=[X((3, 5, 4))]),
]


@needs_torch
@pytest.mark.parametrize("c", MODULES, ids=label)
def test_module_is_pytorchs(c: Case) -> None:
    name, args, kwargs, of = c
    mine, theirs = twins(name, args, kwargs)
    assert repr(mine) == repr(theirs)
    for training in (True, False):
        for module in (mine, theirs):
            module.train(training)
            module.zero_grad()
        compare_modules(mine, theirs, of)
    theirs.load_state_dict({k: to_torch(v) for k, v in mine.state_dict().items()})
    for k, v in theirs.state_dict().items():
        same(k, mine.state_dict()[k], v)


@needs_torch
def test_reprs_are_pytorchs() -> None:
    for name, args in (
        ("MaxUnpool1d", (2,)),
        ("MaxUnpool2d", (3, 2, 1)),
        ("MaxUnpool3d", ((2, 3, 2),)),
        ("FractionalMaxPool2d", (2, 4)),
        ("SyncBatchNorm", (5,)),
        ("InstanceNorm1d", (5,)),
        ("BatchNorm3d", (5,)),
    ):
        assert repr(getattr(nn, name)(*args)) == repr(getattr(torch.nn, name)(*args))


@needs_torch
def test_modules_refuse_what_pytorch_does() -> None:
    for name, args, x in (
        ("InstanceNorm2d", (3,), X((2, 3))),
        ("InstanceNorm2d", (4, 1e-5, 0.1, True), PLANE),
        ("InstanceNorm1d", (3,), X((2, 3, 1))),
        ("BatchNorm3d", (3,), PLANE),
        ("FractionalMaxPool2d", (2,), PLANE),
        ("FractionalMaxPool2d", (2, None, 1.5), PLANE),
        ("MaxPool2d", (9,), PLANE),
    ):
        kinds = []
        for lib in (cr, torch):
            with pytest.raises((RuntimeError, ValueError)) as e:
                getattr(lib.nn, name)(*args).double()(x.make(lib, None))
            kinds.append(e.type.__mro__)
        assert set(kinds[1]) - {object} <= set(kinds[0]) | {Exception}, f"{name}{args}: {kinds}"


def test_sync_batch_norm_takes_over() -> None:
    net: Any = nn.Sequential(nn.BatchNorm1d(3), nn.Sequential(nn.BatchNorm2d(2, affine=False), nn.ReLU()))
    first = net[0]
    net = nn.SyncBatchNorm.convert_sync_batchnorm(net)
    assert type(net[0]) is type(net[1][0]) is nn.SyncBatchNorm
    assert net[0].weight is first.weight and net[0].running_mean is first.running_mean
    x = cr.randn(5, 3)
    assert net[0](x).tolist() == nn.BatchNorm1d(3)(x).tolist()


def test_batch_norm_of_large_means() -> None:
    """Statistics are not differences of large sums."""
    x = cr.tensor([[1e6 + i % 7, 3.0 - i % 3] for i in range(4200)], dtype=cr.float32)
    y = F.batch_norm(x, None, None, training=True, eps=0.0)
    assert abs(y[:, 0].square().mean().item() - 1) < 1e-4 and abs(y[:, 0].mean().item()) < 1e-3
    var = cr.zeros(2)
    F.batch_norm(x, cr.zeros(2), var, training=True, momentum=1.0)
    assert math.isclose(var[0].item(), 4 * 4200 / 4199, rel_tol=1e-4)


def unpooled(x: cr.Tensor) -> cr.Tensor:
    y, index = F.max_pool2d(x, 2, return_indices=True)
    return F.max_unpool2d(y, index, 2, output_size=(4, 5)) ** 3


SECOND: dict[str, Callable[..., Any]] = {
    "max_pool2d": lambda x: F.max_pool2d(x, 3, 2, 1) ** 3,
    "avg_pool2d": lambda x: F.avg_pool2d(x, 3, 2, 1, True, False) ** 3,
    "adaptive_max_pool2d": lambda x: F.adaptive_max_pool2d(x, (2, 3)) ** 3,
    "lp_pool2d": lambda x: F.lp_pool2d(x, 3.0, 2),
    "max_unpool2d": unpooled,
    "bicubic": lambda x: F.interpolate(x, (7, 3), mode="bicubic") ** 3,
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
    "instance_norm": F.instance_norm,
    "local_response_norm": lambda x: F.local_response_norm(x, 2),
}


@pytest.mark.parametrize("name", SECOND)
def test_second_derivatives(name: str) -> None:
    x = X((1, 2, 4, 5), low=0.5, seed=9).make(cr, None).requires_grad_()
    assert cr.autograd.gradcheck(SECOND[name], (x,)) and cr.autograd.gradgradcheck(SECOND[name], (x,))


def test_nearest_of_any_dtype() -> None:
    mask = cr.tensor([[[[True, False], [False, True]]]])
    assert F.interpolate(mask, (2, 4)).tolist() == [[[[True, True, False, False], [False, False, True, True]]]]
    labels: Any = cr.arange(4).reshape(1, 1, 4)
    assert F.interpolate(labels, 2).tolist() == [[[0, 2]]]


def test_windows_without_an_element_are_refused() -> None:
    with pytest.raises(RuntimeError, match="no element"):
        F.max_pool1d(cr.ones(1, 1, 1), 2, 1, 2, 4)


@pytest.mark.parametrize("dtype", [cr.float32, cr.float64, cr.bfloat16])
@pytest.mark.parametrize("shape", [(3, 4, 2063), (2, 3, 5, 7), (2, 16, 514), (1, 2, 4, 1100), (1, 1, 2)])
def test_windows_of_two_without_positions(shape: tuple[int, ...], dtype: cr.dtype) -> None:
    """The values have a path of their own where no positions are wanted; NaN wins in both halves of a window."""
    cr.manual_seed(3)
    x = cr.randn(*shape).to(dtype)
    flat = x.view(-1)
    for i in range(0, flat.numel(), 7):
        flat[i] = (math.nan, math.inf, -math.inf)[i % 3]
    pool = F.max_pool1d if len(shape) == 3 else F.max_pool2d
    cases: tuple[dict[str, Any], ...] = ({}, {"stride": 2, "ceil_mode": True}, {"padding": 1}, {"stride": 1})
    for options in cases:
        y, _ = pool(x, 2, **options, return_indices=True)
        assert cr.equal(pool(x, 2, **options).nan_to_num(3.5), y.nan_to_num(3.5)), options


def test_messages_name_the_call() -> None:
    x = cr.ones(1, 2, 5, 5)
    with pytest.raises(RuntimeError, match=r"\[max_pool2d\] the kernel is larger than the padded input"):
        F.max_pool2d(x, 9)
    with pytest.raises(RuntimeError, match=r"\[avg_pool1d\] the stride must be 1 or more: 0"):
        F.avg_pool1d(x[0], 2, 0)
    with pytest.raises(RuntimeError, match=r"\[max_pool3d\] kernel_size must be an int or 3 ints, got 2"):
        F.max_pool3d(x, (2, 2))
