"""repr and format: equal to PyTorch's, over many shapes, dtypes and values where PyTorch is
installed; stored strings otherwise."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Iterator
from typing import Any

import chainrule as cr
import pytest

try:
    import torch
except ImportError:
    torch = None

needs_torch = pytest.mark.skipif(torch is None, reason="PyTorch is not installed")
FLOATS = ["float64", "float32", "float16", "bfloat16"]
DTYPES = [*FLOATS, "int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64", "bool"]


@pytest.fixture(autouse=True)
def default_options() -> Iterator[None]:
    yield
    set_options(profile="default")


def set_options(**options: Any) -> None:
    cr.set_printoptions(**options)
    if torch is not None:
        torch.set_printoptions(**options)


def comparable(text: str) -> str:
    """Our dtypes have longer names, so that a suffix may stand in the next line."""
    return re.sub(r",\s+(?=(dtype|size|requires_grad|grad_fn)=)", ", ", text.replace("chainrule.", "torch."))


STORED: list[tuple[Callable[[], cr.Tensor], str]] = [
    (lambda: cr.tensor([[1.0, 2.0], [3.0, 4.0]]), "tensor([[1., 2.],\n        [3., 4.]])"),
    (lambda: cr.tensor(1.5), "tensor(1.5000)"),
    (lambda: cr.tensor(-3), "tensor(-3)"),
    (lambda: cr.tensor([True, False]), "tensor([ True, False])"),
    (lambda: cr.tensor([0.5, -12.25, 100.0]), "tensor([  0.5000, -12.2500, 100.0000])"),
    (lambda: cr.tensor([1e-5, 1.0]), "tensor([1.0000e-05, 1.0000e+00])"),
    (lambda: cr.tensor([1.0, 1001.0]), "tensor([1.0000e+00, 1.0010e+03])"),
    (lambda: cr.tensor([1.0, 1000.0]), "tensor([   1., 1000.])"),
    (lambda: cr.tensor([1.0, math.nan, -math.inf]), "tensor([1., nan, -inf])"),
    (lambda: cr.tensor([0.5, math.nan]), "tensor([0.5000,    nan])"),
    (lambda: cr.tensor([]), "tensor([])"),
    (lambda: cr.zeros(2, 0), "tensor([], size=(2, 0))"),
    (lambda: cr.zeros(0, dtype=cr.int64), "tensor([], dtype=chainrule.int64)"),
    (lambda: cr.zeros(2, 0, dtype=cr.bool), "tensor([], size=(2, 0), dtype=chainrule.bool)"),
    (lambda: cr.ones(2, dtype=cr.float64), "tensor([1., 1.], dtype=chainrule.float64)"),
    (lambda: cr.ones(2, requires_grad=True), "tensor([1., 1.], requires_grad=True)"),
    (lambda: cr.ones(2, requires_grad=True) * 2, "tensor([2., 2.], grad_fn=<MulBackward0>)"),
    (
        lambda: cr.ones(2, requires_grad=True).log_softmax(0),
        "tensor([-0.6931, -0.6931], grad_fn=<LogSoftmaxBackward0>)",
    ),
    (lambda: cr.ones(1, device="ref"), "tensor([1.], device='ref')"),
    (lambda: cr.arange(1001), "tensor([   0,    1,    2,  ...,  998,  999, 1000])"),
    (
        lambda: cr.zeros(501, 2),
        (
            "tensor([[0., 0.],\n        [0., 0.],\n        [0., 0.],\n        ...,\n        [0., 0.],\n        [0.,"
            " 0.],\n        [0., 0.]])"
        ),
    ),
    (lambda: cr.zeros(2, 1, 2), "tensor([[[0., 0.]],\n\n        [[0., 0.]]])"),
    (
        lambda: cr.ones(22),
        "tensor([1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1.,\n        1., 1., 1., 1.])",
    ),
]


@pytest.mark.parametrize("case", range(len(STORED)))
def test_stored(case: int) -> None:
    make, wanted = STORED[case]
    assert repr(make()) == wanted


KINDS: dict[str, Any] = {
    "normal": lambda r: r.gauss(0, 1),
    "whole": lambda r: round(r.gauss(0, 1) * r.choice([1, 100, 1e4, 1e9])),
    "large": lambda r: r.gauss(0, 1e9),
    "small": lambda r: r.gauss(0, 1) * 10.0 ** -r.choice([3, 4, 5, 10]),
    "orders": lambda r: r.gauss(0, 1) * 10.0 ** r.randint(-5, 5),
    "special": lambda r: r.choice([math.nan, math.inf, -math.inf, 0.0, -0.0, 0.5, 1.0]),
    "zeros": lambda r: r.choice([0.0, -0.0]),
    "limits": lambda r: r.choice([1000, 1001, 1e-4, 9.9e-5, 1, 0.1, 1e8, 1.00000001e8, -1, 0, 0.5, 99.99995]),
}


def options_of(r: random.Random) -> dict[str, Any]:
    if r.random() < 0.6:
        return {"profile": "default"}
    return {
        "precision": r.choice([None, 0, 2, 8]),
        "threshold": r.choice([None, 10, 100]),
        "edgeitems": r.choice([None, 1, 2, 5]),
        "linewidth": r.choice([None, 20, 40, 120]),
        "sci_mode": r.choice([None, None, True, False]),
        "profile": r.choice([None, "default", "short", "full"]),
    }


@needs_torch
@pytest.mark.parametrize("hundred", range(6))
def test_as_pytorch(hundred: int) -> None:
    for seed in range(100 * hundred, 100 * hundred + 100):
        compare(seed)


def compare(seed: int) -> None:
    r = random.Random(seed)
    dtype = r.choice(DTYPES)
    shape = [
        r.choice([0, 1, 2, 3, 5, 7, 8, 11, 30] if r.random() < 0.9 else [1100, 400, 13])
        for _ in range(r.choice([0, 1, 1, 2, 2, 3, 4, 5]))
    ]
    while math.prod(shape) > 5000:
        shape[shape.index(max(shape))] = 2
    kind = r.choice(list(KINDS)) if dtype in FLOATS else "integers"
    values = [KINDS[kind](r) if dtype in FLOATS else r.randint(0, 120) for _ in range(math.prod(shape))]
    wide = {"float64": "float64", "bool": "bool"}.get(
        dtype, "float32" if dtype in FLOATS else "int64"
    )  # PyTorch rounds to 16 bits by way of float32
    theirs = torch.tensor(values, dtype=getattr(torch, wide)).to(getattr(torch, dtype)).reshape(shape)
    ours = cr.tensor(values, dtype=getattr(cr, wide)).to(getattr(cr, dtype)).reshape(shape)
    if len(shape) >= 2 and r.random() < 0.3:
        theirs, ours = theirs.transpose(0, 1), ours.transpose(0, 1)
    if dtype in FLOATS and r.random() < 0.3:
        theirs.requires_grad_()
        ours.requires_grad_()
    options = options_of(r)
    set_options(**options)
    assert comparable(repr(ours)) == comparable(repr(theirs)), f"seed {seed}: {kind} {dtype} {shape}, {options}"


OPS: list[Any] = [
    lambda x: x * 2,
    lambda x: x + x,
    lambda x: x - 1,
    lambda x: x / 2,
    lambda x: -x,
    lambda x: x.exp(),
    lambda x: x.sum(),
    lambda x: x.relu(),
    lambda x: x.softmax(0),
    lambda x: x.log_softmax(0),
    lambda x: x.clone(),
    lambda x: x.reshape(2, 1),
    lambda x: x.detach(),
]


@needs_torch
@pytest.mark.parametrize("case", range(len(OPS)))
def test_op_names_as_pytorch(case: int) -> None:
    assert repr(OPS[case](cr.ones(2, requires_grad=True))) == repr(OPS[case](torch.ones(2, requires_grad=True)))


def test_format() -> None:
    assert (
        f"{cr.tensor(1.5):.2f}" == "1.50"
        and f"{cr.tensor(3):05d}" == "00003"
        and f"{cr.tensor(1.5)}" == "1.5"
        and f"{cr.tensor(True)}" == "True"
    )
    assert f"{cr.tensor(2.0, requires_grad=True) * 2}" == "4.0"
    assert f"{cr.ones(2)}" == "tensor([1., 1.])" and str(cr.ones(2)) == "tensor([1., 1.])"
    with pytest.raises(TypeError, match="unsupported format string"):
        f"{cr.ones(2):.2f}"
    with pytest.raises(ValueError):
        f"{cr.tensor(1.5):nonsense}"


BAD_OPTIONS: list[dict[str, Any]] = [
    {"precision": -1},
    {"precision": "4"},
    {"edgeitems": math.nan},
    {"threshold": True},
    {"linewidth": [80]},
    {"profile": "none"},
    {"profile": 3},
]


@pytest.mark.parametrize("options", BAD_OPTIONS, ids=str)
def test_bad_options(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="set_printoptions"):
        cr.set_printoptions(**options)
    assert repr(cr.tensor([0.5])) == "tensor([0.5000])"


def test_a_summary_reads_no_more_than_it_shows() -> None:
    big = cr.zeros(1).expand(1 << 40)  # a list of all elements would not fit into memory
    assert repr(big) == "tensor([0., 0., 0.,  ..., 0., 0., 0.])"
