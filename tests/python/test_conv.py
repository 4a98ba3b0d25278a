"""Convolutions beside PyTorch: values, gradients, second gradients, errors, layers and their state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import chainrule as cr
import chainrule.nn.functional as F
import pytest
from chainrule import nn

torch = pytest.importorskip("torch")

# function, shapes of x and w, options
CALLS: list[tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ("conv1d", (2, 3, 17), (5, 3, 4), {}),
    ("conv1d", (3, 17), (5, 3, 4), {"stride": 3, "padding": 2}),
    ("conv1d", (2, 3, 17), (5, 3, 4), {"padding": "same", "dilation": 3}),
    ("conv1d", (2, 3, 17), (5, 3, 4), {"padding": "valid", "stride": (2,)}),
    ("conv1d", (1, 1, 131), (7, 1, 11), {"padding": 5}),
    ("conv2d", (2, 4, 9, 11), (6, 4, 3, 3), {"padding": 1}),
    ("conv2d", (4, 9, 11), (6, 4, 3, 3), {"padding": "same"}),
    ("conv2d", (2, 4, 9, 11), (6, 4, 2, 3), {"padding": (1, 2), "stride": (2, 3), "dilation": (1, 2)}),
    ("conv2d", (2, 4, 9, 11), (6, 2, 3, 3), {"groups": 2, "stride": 2}),
    ("conv2d", (2, 4, 9, 11), (8, 1, 3, 3), {"groups": 4, "padding": 1}),
    ("conv2d", (2, 4, 19, 21), (4, 1, 3, 3), {"groups": 4, "padding": 1, "stride": 2}),
    ("conv2d", (2, 4, 9, 11), (6, 4, 1, 1), {}),
    ("conv2d", (2, 4, 9, 11), (6, 4, 1, 1), {"stride": 2}),
    ("conv2d", (2, 3, 23, 25), (9, 3, 7, 7), {"stride": 2, "padding": 3}),
    ("conv2d", (0, 4, 9, 11), (6, 4, 3, 3), {}),
    ("conv2d", (2, 37, 13, 40), (41, 37, 3, 3), {"padding": 1}),
    ("conv3d", (2, 2, 4, 5, 6), (3, 2, 2, 3, 2), {"padding": 1, "stride": (1, 2, 1)}),
    ("conv3d", (2, 4, 5, 6), (4, 1, 2, 2, 2), {"groups": 2, "dilation": 2}),
    ("conv_transpose1d", (2, 3, 7), (3, 5, 4), {"stride": 2, "padding": 1, "output_padding": 1}),
    ("conv_transpose1d", (3, 7), (3, 5, 4), {"dilation": 3, "output_padding": 2}),
    ("conv_transpose2d", (2, 4, 5, 6), (4, 3, 4, 4), {"stride": 2, "padding": 1}),
    ("conv_transpose2d", (2, 4, 5, 6), (4, 3, 2, 3), {"groups": 2, "stride": (3, 1)}),
    ("conv_transpose2d", (2, 4, 5, 6), (4, 3, 3, 3), {"padding": 2, "dilation": 2}),
    ("conv_transpose2d", (2, 4, 5, 6), (4, 1, 3, 3), {"groups": 4, "stride": 2, "output_padding": (1, 0)}),
    ("conv_transpose3d", (2, 2, 3, 4, 3), (2, 3, 2, 3, 2), {"stride": (2, 1, 2), "padding": (0, 1, 1)}),
]
IDS = [f"{name}-{i}" for i, (name, *_) in enumerate(CALLS)]


def operands(x: tuple[int, ...], w: tuple[int, ...], out: int, dtype: Any) -> list[Any]:
    torch.manual_seed(5)
    return [torch.randn(s, dtype=dtype) for s in (x, w, (out,))]


def outputs(name: str, w: tuple[int, ...], options: dict[str, Any]) -> int:
    return w[1] * options.get("groups", 1) if "transpose" in name else w[0]


def ours(t: Any, grad: bool = True) -> cr.Tensor:
    return cr.tensor(t.detach().float().numpy(), dtype=getattr(cr, str(t.dtype).split(".")[1])).requires_grad_(grad)


def close(got: cr.Tensor | None, want: Any, what: str, tolerance: float) -> None:
    assert got is not None, what
    assert tuple(got.shape) == tuple(want.shape), f"{what}: {tuple(got.shape)}, PyTorch has {tuple(want.shape)}"
    if want.numel():
        error = (torch.tensor(got.float().tolist()) - want.float()).abs().max().item()
        limit = tolerance * max(1.0, want.abs().max().item())
        assert error <= limit, f"{what}: differs by {error}, at most {limit}"


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize(("name", "x", "w", "options"), CALLS, ids=IDS)
def test_values_and_gradients(
    name: str, x: tuple[int, ...], w: tuple[int, ...], options: dict[str, Any], dtype: str
) -> None:
    rounded = [t.to(getattr(torch, dtype)) for t in operands(x, w, outputs(name, w, options), torch.float32)]
    theirs = [t.double().requires_grad_() for t in rounded]
    mine = [ours(t) for t in rounded]
    tolerance = {"float32": 2e-5, "float64": 1e-12, "bfloat16": 1e-2}[dtype]
    want, got = getattr(torch.nn.functional, name)(*theirs, **options), getattr(F, name)(*mine, **options)
    close(got, want, "value", tolerance)
    cotangent = torch.randn(want.shape).to(getattr(torch, dtype))
    want.backward(cotangent.double())
    got.backward(ours(cotangent, False))
    for what, a, b in zip(("input", "weight", "bias"), mine, theirs, strict=True):
        close(a.grad, b.grad, f"gradient of {what}", 4 * tolerance)


@pytest.mark.parametrize(
    ("name", "x", "w", "options"),
    [
        ("conv1d", (2, 2, 5), (2, 2, 2), {"stride": 2, "padding": 1}),
        ("conv2d", (1, 2, 3, 4), (2, 1, 2, 2), {"groups": 2, "padding": (1, 0)}),
        ("conv3d", (1, 1, 2, 3, 2), (2, 1, 2, 2, 1), {"dilation": (1, 2, 1)}),
        ("conv_transpose2d", (1, 2, 2, 3), (2, 1, 2, 2), {"stride": 2, "output_padding": 1}),
    ],
)
def test_second_gradients(name: str, x: tuple[int, ...], w: tuple[int, ...], options: dict[str, Any]) -> None:
    inputs = [ours(t) for t in operands(x, w, outputs(name, w, options), torch.float64)]
    assert cr.autograd.gradcheck(lambda *t: getattr(F, name)(*t, **options), inputs)
    assert cr.autograd.gradgradcheck(lambda *t: getattr(F, name)(*t, **options), inputs)


def test_layouts() -> None:
    """Channels last, a part of a larger tensor, every other column, and a tensor backwards give the same."""
    x, w, b = operands((2, 5, 12, 14), (7, 5, 3, 3), 7, torch.float32)
    views: list[Callable[[Any], Any]] = [
        lambda t: t.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2),
        lambda t: t[:, 1:4, 2:, 3:-1],
        lambda t: t[:, :, :, ::2],
        lambda t: t.transpose(2, 3),
        lambda t: t[:1].expand(3, 5, 12, 14),
    ]
    for i, view in enumerate(views):
        v, k = view(x), w[:, 1:4] if i == 1 else w
        want = torch.nn.functional.conv2d(v, k, b, padding=1)
        mine = ours(x)
        got = F.conv2d(view(mine), ours(w)[:, 1:4] if i == 1 else ours(w), ours(b), padding=1)
        close(got, want, f"layout {i}", 1e-5)
        x.grad, _ = None, x.requires_grad_()
        torch.nn.functional.conv2d(view(x), k, b, padding=1).sin().sum().backward()
        got.sin().sum().backward()
        close(mine.grad, x.grad, f"gradient of layout {i}", 1e-4)
        x = x.detach()


BAD: list[tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ("conv2d", (1, 2, 2, 5), (3, 2, 3, 3), {}),  # kernel larger than the input
    ("conv2d", (1, 2, 5, 5), (3, 2, 3, 3), {"dilation": 3}),
    ("conv2d", (1, 3, 5, 5), (4, 3, 3, 3), {"groups": 2}),  # groups that do not divide
    ("conv2d", (1, 4, 5, 5), (3, 2, 3, 3), {"groups": 2}),
    ("conv2d", (1, 4, 5, 5), (4, 2, 3, 3), {"groups": 0}),
    ("conv2d", (1, 2, 5, 5), (3, 2, 3, 3), {"stride": 0}),
    ("conv2d", (1, 2, 5, 5), (3, 2, 3, 3), {"stride": (1, 0)}),
    ("conv2d", (1, 2, 5, 5), (3, 2, 3, 3), {"dilation": 0}),
    ("conv2d", (1, 2, 5, 5), (3, 2, 3, 3), {"padding": -1}),
    ("conv2d", (1, 2, 5, 5), (3, 2, 3, 3), {"padding": (1, 1, 1)}),
    ("conv2d", (1, 2, 5, 5), (3, 2, 3, 3), {"padding": "full"}),
    ("conv2d", (1, 2, 5, 5), (3, 2, 3, 3), {"padding": "same", "stride": 2}),
    ("conv2d", (2, 5), (3, 2, 3, 3), {}),  # axes
    ("conv2d", (1, 2, 5, 5, 5), (3, 2, 3, 3), {}),
    ("conv2d", (1, 2, 5, 5), (3, 2, 3), {}),
    ("conv1d", (1, 2, 5), (3, 4, 3), {}),  # channels
    ("conv_transpose1d", (1, 2, 5), (3, 4, 3), {}),
    ("conv_transpose1d", (1, 2, 5), (2, 3, 3), {"output_padding": 1}),
    ("conv_transpose1d", (1, 2, 5), (2, 3, 3), {"output_padding": -1}),
    ("conv_transpose1d", (1, 2, 2), (2, 3, 2), {"padding": 4}),
    ("conv_transpose2d", (1, 3, 5, 5), (3, 2, 2, 2), {"groups": 2}),
]


@pytest.mark.parametrize(("name", "x", "w", "options"), BAD)
def test_refused(name: str, x: tuple[int, ...], w: tuple[int, ...], options: dict[str, Any]) -> None:
    kinds = []
    for lib in (torch, cr):
        with pytest.raises(Exception) as info:
            getattr(lib.nn.functional, name)(lib.ones(x), lib.ones(w), **options)
        kinds.append(info.type)
    assert issubclass(kinds[1], kinds[0]), f"{kinds[1]}, PyTorch raises {kinds[0]}: {info.value}"


def test_messages() -> None:
    with pytest.raises(
        RuntimeError, match=r"\[conv2d\] the kernel is larger than the padded input along spatial axis 1: 3"
    ):
        F.conv2d(cr.ones(1, 1, 5, 2), cr.ones(1, 1, 3, 3))
    with pytest.raises(RuntimeError, match=r"\[conv1d\] the bias must be \(3,\): \(2,\)"):
        F.conv1d(cr.ones(1, 1, 5), cr.ones(3, 1, 3), cr.ones(2))
    with pytest.raises(RuntimeError, match=r"^\[conv1d\]"):
        F.conv1d(cr.ones(1, 1, 5), cr.ones(3, 1, 3, dtype=cr.float64))
    with pytest.raises(RuntimeError, match=r"^\[conv3d\] padding='same' needs stride 1: 2"):
        F.conv3d(cr.ones(1, 1, 5, 5, 5), cr.ones(3, 1, 3, 3, 3), stride=2, padding="same")
    with pytest.raises(RuntimeError, match=r"^\[conv_transpose2d\] stride must be an int or 2 ints: 3 ints"):
        F.conv_transpose2d(cr.ones(1, 1, 5, 5), cr.ones(1, 3, 3, 3), stride=(1, 2, 3))
    wrong: Any = "x"
    with pytest.raises(TypeError, match=r"^conv2d\(\): argument 'input' \(position 1\) must be Tensor, not str"):
        F.conv2d(wrong, cr.ones(3, 1, 3, 3))


LAYERS: list[tuple[str, tuple[Any, ...], dict[str, Any], tuple[int, ...]]] = [
    ("Conv1d", (4, 6, 3), {"padding": 1, "padding_mode": "reflect"}, (2, 4, 9)),
    ("Conv1d", (4, 6, 3), {"padding": "same", "dilation": 2, "bias": False}, (4, 9)),
    ("Conv2d", (4, 6, 3), {"stride": 2, "padding": (1, 2), "padding_mode": "circular"}, (2, 4, 9, 8)),
    ("Conv2d", (4, 6, (2, 3)), {"padding": "same", "padding_mode": "replicate"}, (2, 4, 9, 8)),
    ("Conv2d", (4, 4, 3), {"groups": 4, "padding": 1}, (2, 4, 9, 8)),
    ("Conv3d", (2, 4, 2), {"groups": 2, "padding": "valid"}, (2, 2, 3, 4, 5)),
    ("ConvTranspose1d", (4, 6, 3), {"stride": 2, "output_padding": 1}, (2, 4, 5)),
    ("ConvTranspose2d", (4, 6, 4), {"stride": 2, "padding": 1, "bias": False}, (2, 4, 5, 3)),
    ("ConvTranspose3d", (2, 4, 2), {"groups": 2, "dilation": 2}, (2, 2, 3, 2, 3)),
]


@pytest.mark.parametrize(("name", "args", "options", "shape"), LAYERS)
def test_layers(name: str, args: tuple[Any, ...], options: dict[str, Any], shape: tuple[int, ...]) -> None:
    torch.manual_seed(3)
    theirs, mine = getattr(torch.nn, name)(*args, **options), getattr(nn, name)(*args, **options)
    assert repr(mine) == repr(theirs)
    state = {k: ours(v, False) for k, v in theirs.state_dict().items()}
    assert list(mine.state_dict()) == list(state)
    bound = max(v.abs().max().item() for v in theirs.state_dict().values())
    assert mine.weight.abs().max().item() <= 1.2 * bound
    mine.load_state_dict(state)
    x = torch.randn(shape)
    close(mine(ours(x)), theirs(x), name, 1e-5)


def test_output_size() -> None:
    theirs, mine = (
        torch.nn.ConvTranspose2d(2, 3, 3, stride=2, padding=1),
        nn.ConvTranspose2d(2, 3, 3, stride=2, padding=1),
    )
    mine.load_state_dict({k: ours(v, False) for k, v in theirs.state_dict().items()})
    x = torch.randn(1, 2, 5, 6)
    for size in ([9, 11], [10, 12], [1, 3, 10, 11]):
        close(mine(ours(x), output_size=size), theirs(x, output_size=size), f"output_size={size}", 1e-5)
    for bad in ([8, 11], [11, 11], [9], [3, 9, 11]):
        with pytest.raises(ValueError):
            theirs(x, output_size=bad)
        with pytest.raises(ValueError, match=r"valid sizes range|must have 2 or 4"):
            mine(ours(x), output_size=bad)


@pytest.mark.parametrize(
    ("name", "args", "options"),
    [
        ("Conv2d", (3, 4, 3), {"groups": 2}),
        ("Conv2d", (4, 3, 3), {"groups": 2}),
        ("Conv2d", (4, 4, 3), {"groups": 0}),
        ("Conv2d", (4, 4, 3), {"padding": "full"}),
        ("Conv2d", (4, 4, 3), {"padding": "same", "stride": 2}),
        ("Conv2d", (4, 4, 3), {"padding_mode": "mirror"}),
        ("ConvTranspose2d", (4, 4, 3), {"padding_mode": "reflect"}),
    ],
)
def test_layers_refused(name: str, args: tuple[Any, ...], options: dict[str, Any]) -> None:
    for lib in (torch.nn, nn):
        with pytest.raises(ValueError):
            getattr(lib, name)(*args, **options)


INTEGERS = [
    (name, x, w, {k: v for k, v in options.items() if k != "padding" or not isinstance(v, str)})
    for name, x, w, options in CALLS
    if x[0]
]


@pytest.mark.parametrize("dtype", ["int64", "int32", "int16", "int8", "uint8"])
@pytest.mark.parametrize("case", INTEGERS, ids=[f"{name}-{i}" for i, (name, *_) in enumerate(INTEGERS)])
def test_integers(case: tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]], dtype: str) -> None:
    """As PyTorch's int64; narrower results wrap around, where PyTorch has them."""
    name, x, w, options = case
    torch.manual_seed(7)
    low = 0 if dtype == "uint8" else -9
    parts = [torch.randint(low, 10, s) for s in (x, w, (outputs(name, w, options),))]
    want = getattr(torch.nn.functional, name)(*parts, **options).to(getattr(torch, dtype))
    for bias in (True, False):
        if not bias:
            want = getattr(torch.nn.functional, name)(*parts[:2], **options).to(getattr(torch, dtype))
        mine = [cr.tensor(p.numpy()).to(getattr(cr, dtype)) for p in parts[: 2 + bias]]
        got = getattr(F, name)(*mine, **options)
        assert got.dtype is getattr(cr, dtype) and got.tolist() == want.tolist(), f"{name} {x} {w} {options} {bias}"


def test_integers_of_two_dtypes_are_refused() -> None:
    x, w = cr.ones(1, 2, 5, dtype=cr.int64), cr.ones(3, 2, 3, dtype=cr.int64)
    for other in (w.int(), w.float(), w.bool()):
        with pytest.raises((RuntimeError, TypeError)):
            F.conv1d(x, other)
    with pytest.raises((RuntimeError, TypeError)):
        F.conv1d(x, w, cr.ones(3))
    with pytest.raises((RuntimeError, TypeError)):
        F.conv1d(x.bool(), w.bool())


NOT_FINITE = [float("inf"), float("-inf"), float("nan")]


@pytest.mark.parametrize("value", NOT_FINITE, ids=["inf", "-inf", "nan"])
def test_infinities_stay_apart(value: float) -> None:
    """A convolution that is large enough for Winograd's sums: what one element spoils is what it meets."""
    torch.manual_seed(3)
    for kernel, stride, name in (
        (3, 1, "conv2d"),
        (4, 2, "conv2d"),
        (4, 2, "conv_transpose2d"),
        (3, 1, "conv_transpose2d"),
    ):
        parts = [torch.randn(2, 16, 24, 24), torch.randn(16, 16, kernel, kernel)]
        for which, at in ((0, (0, 3, 5, 8)), (0, (1, 0, 0, 0)), (1, (4, 2, 1, 1))):
            changed = [p.clone() for p in parts]
            changed[which][at] = value
            theirs = [p.double().requires_grad_() for p in changed]
            mine = [cr.tensor(p.numpy()).requires_grad_() for p in changed]
            want = getattr(torch.nn.functional, name)(*theirs, stride=stride, padding=1)
            got = getattr(F, name)(*mine, stride=stride, padding=1)
            want.sum().backward()
            got.sum().backward()
            pairs = [(got, want), *((m.grad, t.grad) for m, t in zip(mine, theirs, strict=True))]
            for k, (m, t) in enumerate(pairs):
                same = torch.allclose(torch.tensor(m.tolist()).double(), t, 1e-3, 1e-2, equal_nan=True)
                assert same, f"{name} {kernel} {stride}, {value} at {at} of operand {which}: tensor {k}"
