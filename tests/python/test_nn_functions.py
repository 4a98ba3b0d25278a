"""Functions of chainrule.nn.functional beside PyTorch's: values, gradients, errors, and second
derivatives by differences."""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import chainrule as cr
import pytest
from cases import Call, X, call, index
from chainrule import autograd, nn
from compare import compare, differ

F = nn.functional

try:
    import torch as _torch
except ImportError:
    _torch = None
torch: Any = _torch
needs_torch = pytest.mark.skipif(
    torch is None, reason="PyTorch is not installed: functions are tested against their formulas only"
)
pytestmark = pytest.mark.filterwarnings("ignore")

IMAGE, VOLUME, LINE = X((2, 3, 5, 4)), X((2, 2, 4, 3, 5)), X((2, 3, 7))
WIDE, OTHER = X((3, 5)), X((3, 5), seed=1)
LABELS = index((3, 5), 2)
REDUCTIONS = ["mean", "sum", "none"]
MODES = ["constant", "reflect", "replicate", "circular"]


@dataclass(frozen=True, repr=False)
class Given(X):
    """These very values."""

    shape: tuple[int, ...] = ()
    values: tuple[Any, ...] = ()
    dtype: str = "int64"

    def __repr__(self) -> str:
        return f"Given({self.values})"

    def make(self, lib: Any, leaves: list[Any] | None = None) -> Any:
        return lib.tensor(self.values, dtype=getattr(lib, self.dtype))


def given(*values: Any, dtype: str = "int64") -> Given:
    return Given(values=values, dtype=dtype)


def grid(n: int, *shape: int) -> X:
    return X((n, *shape), low=-1.6, high=1.6, seed=3, kind="plain")


# Function -> calls; a call that PyTorch refuses must be refused with the same kind of exception.
ROWS: dict[str, list[Call]] = {
    "pad": [
        *(call(LINE, p, m) for m in MODES for p in ((1, 2), (0, 3), (2, 0), (-1, 2), (2, -3), (-2, -2))),
        *(call(IMAGE, p, m) for m in MODES for p in ((1, 2, 3, 4), (0, 0, 2, 1), (-1, 1, 2, -2))),
        *(call(VOLUME, p, m) for m in MODES for p in ((1, 2, 2, 1, 3, 0), (0, 1, 1, 0, -1, 2))),
        *(call(X((3, 7)), (2, 1), m) for m in MODES),
        *(call(X((3, 5, 4), layout=la), (2, 1, 1, 2), m) for m in MODES for la in ("transposed", "strided")),
        *(call(LINE, (7, 1), m) for m in MODES),
        *(call(LINE, (8, 1), m) for m in MODES),
        *(call(LINE, (-4, -4), m) for m in MODES),
        *(call(X((0, 3, 7)), (2, 1), m) for m in MODES),
        call(IMAGE, (1, 1), value=2.5),
        call(IMAGE, (1, 1, 0, 0, 2, 2, 1, 0), value=-1),
        call(IMAGE, (1,)),
        call(IMAGE, (1, 1), "mirror"),
    ],
    "pixel_shuffle": [
        call(X((2, 12, 3, 5)), 2),
        call(X((9, 2, 3), layout="transposed"), 3),
        call(X((2, 3, 8, 1, 2)), 2),
        call(X((0, 4, 2, 3)), 2),
        call(X((2, 5, 3, 3)), 2),
        call(X((4, 3)), 2),
        call(X((4, 3, 3)), 0),
    ],
    "pixel_unshuffle": [
        call(X((2, 3, 6, 10)), 2),
        call(X((6, 9), layout="transposed"), 3),
        call(X((2, 6, 9)), 3),
        call(X((2, 3, 5, 4)), 2),
        call(X((2, 3, 4, 5)), 2),
        call(X((2, 4, 4)), -1),
    ],
    "channel_shuffle": [
        call(X((2, 6, 3)), 2),
        call(X((2, 6, 2, 3), layout="transposed"), 3),
        call(X((2, 6, 2)), 4),
        call(X((2, 6)), 2),
        call(X((2, 6, 2)), 0),
    ],
    "unfold": [
        call(IMAGE, 2),
        call(IMAGE, (3, 2), dilation=(1, 2), padding=(2, 1), stride=(2, 1)),
        call(X((3, 5, 4), layout="transposed"), 3, 1, 1, 2),
        call(IMAGE, [2], [1], [0], [2]),
        call(IMAGE, 6),
        call(IMAGE, 0),
        call(IMAGE, 2, stride=0),
        call(X((2, 3, 0, 4)), 2),
    ],
    "fold": [
        call(X((2, 12, 12)), (4, 5), 2),
        call(X((2, 18, 8)), (5, 4), (3, 2), dilation=(1, 2), padding=(2, 1), stride=(2, 2)),
        call(X((18, 6), layout="transposed"), (5, 4), 3, 1, 1, 2),
        call(X((2, 11, 12)), (4, 5), 2),
        call(X((2, 12, 11)), (4, 5), 2),
        call(X((12,)), (4, 5), 2),
        call(X((2, 12, 12)), (4, 5), 7),
    ],
    "affine_grid": [
        *(call(X((2, 2, 3)), (2, 3, 4, 5), align_corners=a) for a in (True, False)),
        *(call(X((2, 3, 4)), [2, 1, 4, 1, 3], align_corners=a) for a in (True, False)),
        call(X((2, 2, 3)), (2, 3, 1, 5)),
        call(X((2, 3, 3)), (2, 3, 4, 5)),
        call(X((2, 2, 3)), (2, 3, 4)),
        call(X((2, 2, 3)), (2, 3, 0, 5)),
        call(X((2, 2, 3), "int64"), (2, 3, 4, 5)),
    ],
    "grid_sample": [
        *(
            call(IMAGE, grid(2, 3, 7, 2), m, p, a)
            for m in ("bilinear", "nearest", "bicubic")
            for p in ("zeros", "border", "reflection")
            for a in (True, False)
        ),
        *(
            call(VOLUME, grid(2, 2, 3, 4, 3), m, p, a)
            for m in ("bilinear", "nearest")
            for p in ("zeros", "border", "reflection")
            for a in (True, False)
        ),
        call(X((2, 3, 1, 1)), grid(2, 2, 2, 2), "bilinear", "reflection", True),
        call(X((2, 3, 5, 4), "float32"), X((2, 3, 2, 2), "float32", -9, 9), "bicubic", "reflection"),
        call(X((2, 3, 5, 4), layout="transposed"), X((2, 3, 3, 2), layout="transposed", low=-1, high=1)),
        call(X((2, 3, 5, 4)), X((2, 0, 7, 2))),
        call(IMAGE, grid(1, 3, 7, 2)),
        call(IMAGE, grid(2, 3, 7, 3)),
        call(IMAGE, grid(2, 3, 2)),
        call(IMAGE, grid(2, 3, 7, 2), "linear"),
        call(IMAGE, grid(2, 3, 7, 2), "nearest", "zero"),
        call(VOLUME, grid(2, 2, 3, 4, 3), "bicubic"),
        call(IMAGE, X((2, 3, 7, 2), "float32")),
    ],
    "pairwise_distance": [
        *(call(WIDE, OTHER, p) for p in (2.0, 1.0, 3.0, math.inf)),
        call(WIDE, OTHER, keepdim=True),
        call(WIDE, X((5,))),
        call(WIDE, OTHER, 2, 0.5),
        call(X((5,)), X((5,), seed=1)),
        call(WIDE, X((4,))),
    ],
    "pdist": [
        *(call(X((5, 3)), p) for p in (2.0, 1.0, 3.0, math.inf, 0.0)),
        call(X((1, 3), grad=False)),  # PyTorch crashes in the gradient
        call(X((0, 3), grad=False)),
        call(X((5, 3), layout="transposed")),
        call(X((5,))),
        call(X((5, 3)), -1),
    ],
    "rrelu": [call(WIDE), call(WIDE, 0.1, 0.5), call(WIDE, 0.5, 0.1)],
    "embedding": [call(index((3,), 5), X((5, 2)), None, None, 2.0, False, False)],
    "embedding_bag": [
        *(call(index((3, 4), 7), X((7, 5)), mode=m) for m in ("sum", "mean", "max")),
        *(
            call(index((6,), 7), X((7, 5)), given(0, 2, 2, 5), mode=m, include_last_offset=e)
            for m in ("sum", "mean", "max")
            for e in (False, True)
        ),
        *(
            call(index((9,), 4), X((4, 5)), given(0, 2, 5), mode=m, padding_idx=p)
            for m in ("sum", "mean", "max")
            for p in (1, -1)
        ),
        call(index((3, 4), 7), X((7, 5)), mode="sum", per_sample_weights=X((3, 4))),
        call(index((5,), 3), X((3, 2)), given(0, 3), mode="sum", per_sample_weights=X((5,)), padding_idx=0),
        call(index((3, 4), 7), X((7, 5)), mode="least"),
        call(index((3, 4), 7), X((7, 5)), given(0, 2)),
        call(index((3,), 7), X((7, 5))),
        call(index((3,), 7), X((7, 5)), given(1, 2)),
        call(index((3,), 7), X((7, 5)), given(0, 9)),
        call(index((3, 4), 7), X((7, 5)), mode="mean", per_sample_weights=X((3, 4))),
        call(index((3, 4), 7), X((7, 5)), mode="sum", per_sample_weights=X((3, 3))),
        call(index((3, 4), 7), X((7, 5)), mode="max", scale_grad_by_freq=True),
        call(index((3, 4), 7), X((7, 5)), padding_idx=9),
    ],
}
PAIRS = [
    (WIDE, LABELS),
    (X((3, 5), layout="transposed"), LABELS),
    (X((5,)), index((5,), 2)),
    (X((0, 5)), X((0, 5), "int64")),
]
SIGNS = X((3, 5), "int64", 0, 2, seed=3)
SIGN = given(1, -1, 1)
for r in (*REDUCTIONS, "middle"):
    for name, calls in {
        "margin_ranking_loss": [
            call(X((3,)), X((3,), seed=1), SIGN, reduction=r),
            call(X((3,)), X((3,), seed=1), SIGN, 0.7, reduction=r),
            call(WIDE, OTHER, SIGN, reduction=r),
            call(WIDE, X((5,)), SIGN, reduction=r),
        ],
        "soft_margin_loss": [
            call(WIDE, X((3, 5), low=-1, high=1, seed=1, grad=False), reduction=r),
            call(X((3,)), SIGN, reduction=r),
            call(X((3,)), given(1, -1), reduction=r),
        ],
        "multilabel_soft_margin_loss": [
            *(call(x, y, reduction=r) for x, y in PAIRS),
            call(WIDE, LABELS, X((5,), low=0), reduction=r),
            call(X((2, 3, 5)), index((2, 3, 5), 2), reduction=r),
        ],
        "multilabel_margin_loss": [
            call(WIDE, given([3, 0, -1, 1, 2], [-1, 0, 1, 2, 3], [0, 1, 2, 3, 4]), reduction=r),
            call(WIDE, given([3, 3, -1, 1, 2], [4, -1, 4, 2, 3], [0, 1, 0, -1, 4]), reduction=r),
            call(X((4,)), given(2, 0, -1, 1), reduction=r),
            call(WIDE, given([3, 0, -1, 1, 2]), reduction=r),
            call(X((4,)), given(2, 0, -1, 4), reduction=r),
            call(X((4,)), given(2, 0, -2, 1), reduction=r),
            call(X((2, 3, 4)), X((2, 3, 4), "int64"), reduction=r),
        ],
        "triplet_margin_loss": [
            call(WIDE, OTHER, X((3, 5), seed=2), reduction=r),
            call(WIDE, OTHER, X((3, 5), seed=2), 3.0, 1.0, 0.1, True, reduction=r),
            call(X((5,)), X((5,), seed=1), X((5,), seed=2), reduction=r),
            call(X((2, 3, 5)), X((2, 3, 5), seed=1), X((2, 3, 5), seed=2), 9.0, reduction=r),
            call(WIDE, OTHER, X((5,), seed=2), reduction=r),
            call(WIDE, OTHER, X((3, 5), seed=2), -1.0, reduction=r),
        ],
        "triplet_margin_with_distance_loss": [
            call(WIDE, OTHER, X((3, 5), seed=2), reduction=r),
            call(WIDE, OTHER, X((3, 5), seed=2), margin=5.0, swap=True, reduction=r),
            call(WIDE, OTHER, X((3, 5), seed=2), distance_function=lambda x, y: (x - y).abs().sum(-1), reduction=r),
        ],
        "poisson_nll_loss": [
            call(x, X(x.shape, low=0, high=4, seed=1), *more, reduction=r)
            for x in (X((3, 5), low=0.1), X((), low=0.1), X((0, 2)))
            for more in ((), (False,), (True, True), (False, True, None, 0.3))
        ],
        "gaussian_nll_loss": [
            call(WIDE, OTHER, X((3, 5), low=0, seed=2), reduction=r),
            call(WIDE, OTHER, X((3, 1), low=0, seed=2), full=True, reduction=r),
            call(WIDE, OTHER, X((3,), low=0, seed=2), eps=0.8, reduction=r),
            call(WIDE, OTHER, 0.7, True, reduction=r),
            call(WIDE, OTHER, -0.7, reduction=r),
            call(WIDE, OTHER, X((3, 5), seed=2), reduction=r),
            call(WIDE, OTHER, X((5,), low=0), reduction=r),
        ],
        "cosine_embedding_loss": [call(WIDE, OTHER, SIGN, 0.4, reduction=r)],
        "hinge_embedding_loss": [call(X((3,)), SIGN, 1.5, reduction=r)],
        "multi_margin_loss": [call(WIDE, index((3,), 5), 2, 0.7, reduction=r)],
    }.items():
        ROWS.setdefault(name, []).extend(calls if r in REDUCTIONS else calls[:1])


@needs_torch
@pytest.mark.parametrize("name", ROWS)
def test_function_is_pytorchs(name: str) -> None:
    f, g = getattr(F, name), getattr(torch.nn.functional, name)
    found = []
    for row in ROWS[name]:
        for grad in (False, True):
            if differs := compare(f, g, torch, row, grad=grad, in_place=False):
                found.append(f"{name}{row}: {differs}")
                break
    assert not found, f"{len(found)} of {len(ROWS[name])} calls differ:\n" + "\n".join(found)


def on(device: str, x: Any) -> Any:
    """The argument on a device; tensors of floats are leaves."""
    if not isinstance(x, X):
        return x
    made = x.make(cr).to(device)
    return made.requires_grad_() if made.is_floating_point() and x.grad else made


@pytest.mark.parametrize("name", ROWS)
def test_devices_agree(name: str) -> None:
    """The first calls of each function on the reference device: values and gradients, or the refusal."""
    for args, kwargs in ROWS[name][:8]:
        found: list[Any] = []
        for device in ("cpu", "ref"):
            made, named = [on(device, x) for x in args], {k: on(device, x) for k, x in kwargs.items()}
            try:
                y = getattr(F, name)(*made, **named)
            except Exception as refused:
                found.append([type(refused)])
                continue
            assert str(y.device).startswith(device), (name, args, kwargs)
            if y.requires_grad:
                y.square().sum().backward()
            leaves = [x for x in [*made, *named.values()] if isinstance(x, cr.Tensor) and x.requires_grad]
            found.append([y.to("cpu"), *(x.grad.to("cpu") for x in leaves if x.grad is not None)])
        for a, b in zip(*found, strict=True):
            assert a is b or cr.allclose(a, b, 1e-9, 1e-9, equal_nan=True), (name, args, kwargs)


def test_ctc_ignores_labels_behind_the_length() -> None:
    logs = cr.randn(5, 2, 4).log_softmax(2)
    assert F.ctc_loss(logs, cr.tensor([[1, 9], [3, 2]]), [5, 5], [1, 2]).isfinite()


def test_ctc_on_another_device() -> None:
    losses = []
    for device in ("cpu", "ref"):
        x = X((6, 2, 4)).make(cr).to(device).requires_grad_()
        targets, lengths = cr.tensor([[1, 1], [2, 0]], device=device), cr.tensor([2, 1], device=device)
        y = F.ctc_loss(x.log_softmax(-1), targets, cr.tensor([6, 5], device=device), lengths)
        y.backward()
        assert x.grad is not None
        losses.append([y.item(), *x.grad.to("cpu").flatten().tolist()])
    assert losses[0] == pytest.approx(losses[1])


CTC = [  # T, N, C, target lengths, input lengths, longest row
    (6, 3, 4, (2, 3, 1), (6, 5, 4), 3),
    (5, 2, 5, (0, 2), (5, 3), 4),
    (4, 2, 3, (3, 3), (4, 2), 3),  # the second is too short for its target
    (3, 1, 4, (0,), (0,), 1),
]


def ctc_arguments(lib: Any, case: Any, form: str, leaves: list[Any]) -> list[Any]:
    steps, batch, classes, sizes, times, most = case
    logits = X((steps, batch, classes), seed=1).make(lib, leaves)
    rows = index((batch, most), classes, 1, seed=2).make(lib)
    rows[:, 1:2] = rows[:, :1]  # neighbours that are equal
    for row, n in zip(rows, sizes, strict=True):
        row[n:] = -1  # behind the end: not read
    if form == "one":
        return [logits[:, 0].log_softmax(-1), rows[0], times[:1], sizes[:1]]
    flat = lib.cat([row[:n] for row, n in zip(rows, sizes, strict=True)])
    lengths = [lib.tensor(x) if form == "flat" else x for x in (times, sizes)]
    return [logits.log_softmax(-1), flat if form == "flat" else rows, *lengths]


@needs_torch
@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("form", ["rows", "flat"])
@pytest.mark.parametrize("case", CTC, ids=str)
def test_ctc(case: Any, form: str, reduction: str, zero: bool) -> None:
    found = []
    for lib, f in ((cr, F), (torch, torch.nn.functional)):
        leaves: list[Any] = []
        loss = f.ctc_loss(*ctc_arguments(lib, case, form, leaves), reduction=reduction, zero_infinity=zero)
        if not loss.isinf().any():
            (loss * X(tuple(loss.shape), seed=7).make(lib)).sum().backward()
        found.append([loss, *(x.grad for x in leaves if x.grad is not None)])
    assert (wrong := differ("the result", found[0], found[1], torch)) is None, wrong


@needs_torch
def test_cdist() -> None:
    calls = [
        *(call(X((3, 4)), X((5, 4), seed=1), p) for p in (2.0, 1.0, 3.0, math.inf, 0.0)),
        *(
            call(X((2, 3, 4)), X((5, 4), seed=1), 2.0, m)
            for m in ("use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist")
        ),
        call(X((30, 4)), X((2, 4), seed=1)),
        call(X((3, 2, 4), layout="transposed"), X((3, 5, 4), layout="strided")),
        call(X((0, 4)), X((5, 4))),
        call(X((3, 4)), X((5, 3))),
        call(X((4,)), X((5, 4))),
        call(X((3, 4)), X((5, 4)), -1.0),
        call(X((3, 4)), X((5, 4)), 2.0, "fast"),
        call(X((3, 4), "int64"), X((5, 4), "int64")),
    ]
    found = [f"{c}: {d}" for c in calls if (d := compare(cr.cdist, torch.cdist, torch, c))]
    assert not found, "\n".join(found)
    for mode in ("use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist"):  # equal points
        x = cr.ones(2, 3, dtype=cr.float64, requires_grad=True)
        cr.cdist(x, x.detach(), 2.0, mode).sum().backward()
        assert x.grad is not None and x.grad.tolist() == [[0.0] * 3] * 2


def test_linear_cross_entropy() -> None:
    x, w, b, y = (X(shape, seed=9).make(cr) for shape in ((6, 4), (5, 4), (5,), (6,)))
    y = y.abs().long() % 5
    every: list[dict[str, Any]] = [{}, {"reduction": "none"}, {"ignore_index": 1, "label_smoothing": 0.2}]
    for options in every:
        for bias in (b, None):
            (x1, w1), (x2, w2) = ([t.detach().clone().requires_grad_() for t in (x, w)] for _ in range(2))
            found = F.linear_cross_entropy(x1, w1, y, linear_bias=bias, **options)
            wanted = F.cross_entropy(F.linear(x2, w2, bias), y, **options)
            assert found.tolist() == wanted.tolist()
            found.sum().backward()
            wanted.sum().backward()
            assert x1.grad is not None and x2.grad is not None and x1.grad.tolist() == x2.grad.tolist()
            assert w1.grad is not None and w2.grad is not None and w1.grad.tolist() == w2.grad.tolist()
    with pytest.raises(IndexError):
        F.linear_cross_entropy(x, w, y + 5)
    with pytest.raises(ValueError):
        F.linear_cross_entropy(x, w, y, reduction="most")


def test_ctc_is_the_sum_over_alignments() -> None:
    """All paths of T = 4 labels that collapse to the target, one by one."""
    logs = X((4, 1, 3)).make(cr).log_softmax(-1)
    chances = logs.exp()[:, 0].tolist()
    for target in ([1], [1, 2], [2, 2], []):
        total = 0.0
        for path in itertools.product(range(3), repeat=4):
            merged = [k for i, k in enumerate(path) if k and (not i or path[i - 1] != k)]
            total += math.prod(chances[t][k] for t, k in enumerate(path)) if merged == target else 0
        rows = cr.tensor([target], dtype=cr.int64).reshape(1, -1)
        loss = F.ctc_loss(logs, rows, [4], [len(target)], reduction="none")
        assert abs(loss.item() + math.log(total)) < 1e-12, target


def test_ctc_refuses() -> None:
    x, y = cr.randn(4, 2, 3).log_softmax(-1), cr.tensor([[1, 2], [1, 1]])
    bad: list[tuple[Any, dict[str, Any], str]] = [
        ((x, y, [4, 5], [2, 2]), {}, "input_lengths must be between 0 and 4"),
        ((x, y, [4, 4], [2, 3]), {}, "target_lengths must be between 0 and 2"),
        ((x, y, [4], [2, 2]), {}, "must be of size batch_size"),
        ((x, y[0], [4, 4], [2, 2]), {}, "must be between|do not have"),
        ((x, y.float(), [4, 4], [2, 2]), {}, "targets must be integral"),
        ((x, y, [4, 4], [2, 2]), {"blank": 3}, "blank must be in label range"),
        ((x[0, 0], y, [4, 4], [2, 2]), {}, "log_probs must be"),
        ((x, y + 5, [4, 4], [2, 2]), {}, "targets must be 0 ... 2"),
    ]
    for args, options, message in bad:
        with pytest.raises((RuntimeError, IndexError), match=message):
            F.ctc_loss(*args, **options)


# Second derivatives, of samples: name and call of float64 tensors
SECOND: list[tuple[str, Any]] = [
    ("grid_sample", lambda x, y: F.grid_sample(x, 0.7 * y.tanh(), "bilinear", "zeros", False)),
    ("grid_sample bicubic", lambda x, y: F.grid_sample(x, y, "bicubic", "reflection", True)),
    ("unfold", lambda x, y: F.unfold(x.square(), 2, 1, 1) * 2),
    ("fold", lambda x, y: F.fold(F.unfold(x.square(), 2), (3, 3), 2)),
    ("pad", lambda x, y: F.pad(x.square(), (1, 2, 2, 0), "reflect") + F.pad(x.square(), (1, 2, 2, 0), "circular")),
    ("pixel_shuffle", lambda x, y: F.pixel_shuffle(x.square().repeat(1, 2, 1, 1), 2)),
    ("pdist", lambda x, y: F.pdist(x.flatten(1))),
    ("gaussian_nll_loss", lambda x, y: F.gaussian_nll_loss(x, x.flip(0), x.square() + 1)),
    ("poisson_nll_loss", lambda x, y: F.poisson_nll_loss(x, x.square() + 2, full=True)),
    ("multilabel_soft_margin_loss", lambda x, y: F.multilabel_soft_margin_loss(x, x.sigmoid())),
    ("triplet_margin_loss", lambda x, y: F.triplet_margin_loss(x, x.flip(0), x * 3, 20.0)),
    (
        "ctc_loss",
        lambda x, y: F.ctc_loss(x.flatten(2).movedim(-1, 0).log_softmax(-1), cr.tensor([[1], [1]]), [9, 7], [1, 1]),
    ),
    ("embedding_bag", lambda x, y: F.embedding_bag(cr.tensor([[0, 1], [1, 1]]), x[0, 0].square(), mode="max")),
]


@pytest.mark.parametrize("name, f", SECOND, ids=[name for name, _ in SECOND])
def test_second_derivatives(name: str, f: Any) -> None:
    x, y = (X(shape, low=0.3, high=1.5, seed=4).make(cr).requires_grad_() for shape in ((2, 2, 3, 3), (2, 2, 2, 2)))
    assert autograd.gradcheck(f, (x, y)) and autograd.gradgradcheck(f, (x, y))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_other_dtypes(dtype: str) -> None:
    """The result keeps the dtype and is near that of float64."""
    x = X((2, 4, 4, 4), low=-1, high=1).make(cr)
    points = X((2, 3, 3, 2), low=-0.9, high=0.9).make(cr)
    near = {"float32": 1e-5, "float16": 2e-2, "bfloat16": 2e-1}[dtype]
    functions: list[Callable[[Any, Any], Any]] = [
        lambda x, p: F.grid_sample(x, p, align_corners=True),
        lambda x, p: F.pixel_shuffle(x, 2)[..., :4, :4] + F.fold(F.unfold(x, 3, 1, 1), 4, 3, 1, 1),
        lambda x, p: F.pad(x, (1, 1, 2, 2), "reflect"),
        lambda x, p: F.ctc_loss(x[0].log_softmax(-1), cr.tensor([[1], [2], [1], [2]]), [4] * 4, [1] * 4),
        lambda x, p: F.triplet_margin_loss(x[0, 0], x[0, 1], x[1, 1]),
        lambda x, p: F.soft_margin_loss(x, x.sign()),
        lambda x, p: F.alpha_dropout(x, 0.5, False),
    ]
    for f in functions:
        low = [t.to(getattr(cr, dtype)) for t in (x, points)]
        y, wanted = f(*low), f(*(t.double() for t in low))
        assert y.dtype == getattr(cr, dtype)
        assert (y.double() - wanted).abs().max().item() <= near * max(1.0, wanted.abs().max().item())


def test_points_that_are_no_numbers() -> None:
    points = cr.tensor([[[[math.nan, 0.0], [math.inf, 0.0], [-math.inf, math.nan], [0.0, 0.0], [1e30, -1e30]]]])
    y = F.grid_sample(cr.ones(1, 1, 3, 3), points, align_corners=True)
    assert y.flatten().tolist() == [0, 0, 0, 1, 0]
    for mode in ("bilinear", "nearest", "bicubic"):
        for padding in ("zeros", "border", "reflection"):
            assert F.grid_sample(cr.ones(1, 1, 3, 3), points, mode, padding, False).shape == [1, 1, 1, 5]


def test_gumbel_softmax() -> None:
    cr.manual_seed(1)
    logits = cr.tensor([0.1, 0.6, 0.3]).log().expand(4000, 3)
    soft = F.gumbel_softmax(logits, 0.5)
    assert (soft.sum(-1) - 1).abs().max().item() < 1e-5
    x = logits.clone().requires_grad_()
    hard = F.gumbel_softmax(x, hard=True)
    assert set(hard.flatten().tolist()) <= {0.0, 1.0} and (hard.sum(-1) == 1).all().item()
    assert [abs(a - b) < 0.03 for a, b in zip(hard.mean(0).tolist(), [0.1, 0.6, 0.3], strict=True)] == [True] * 3
    (hard * cr.arange(3.0)).sum().backward()
    assert x.grad is not None and x.grad.abs().sum().item() > 0
    assert F.gumbel_softmax(logits[:5], dim=0).sum(0).tolist() == pytest.approx([1, 1, 1])


def test_noise() -> None:
    """Which elements are dropped, and the mean and variance that alpha dropout keeps."""
    cr.manual_seed(0)
    for f, shape, behind in (
        (F.dropout1d, (50, 40, 3), 1),
        (F.dropout1d, (900, 3), 1),
        (F.dropout2d, (50, 40, 3, 2), 2),
        (F.dropout3d, (50, 40, 3, 2, 1), 3),
        (F.dropout3d, (900, 3, 2, 1), 3),
    ):
        y = f(cr.ones(*shape), 0.25).flatten(len(shape) - behind)
        channels = y.amax(-1)
        assert (y == channels.unsqueeze(-1)).all().item(), "whole channels"
        assert abs((channels == 0).float().mean().item() - 0.25) < 0.05
        assert sorted({*channels.flatten().tolist()}) == pytest.approx([0, 4 / 3])
        x = cr.ones(*shape)
        assert f(x, 0.5, False) is x and f(x, 1.0).abs().max().item() == 0
        assert f(x, 0.5, inplace=True) is x and x.min().item() == 0
    x = cr.randn(300, 200)
    for f in (F.alpha_dropout, F.feature_alpha_dropout):
        y = f(x, 0.3, True)
        assert f(x, 0.3) is x and abs(y.mean().item()) < 0.05 and abs(y.std().item() - 1) < 0.05
        with pytest.raises(ValueError, match="between 0 and 1"):
            f(x, 1.5, True)
    z = F.feature_alpha_dropout(cr.randn(30, 40, 50), 0.3, True)
    assert abs((z == z[:, :, :1]).all(-1).float().mean().item() - 0.3) < 0.05
    y = F.rrelu(-cr.ones(10000), 0.1, 0.5, True)
    assert abs(y.mean().item() + 0.3) < 0.01 and -0.5 <= y.min().item() <= y.max().item() <= -0.1
    with pytest.warns(UserWarning, match="1D dropout"):
        F.dropout2d(cr.ones(2, 3, 4))
    with pytest.warns(UserWarning, match="deprecated"):
        F.dropout3d(cr.ones(2, 3, 4))
    with pytest.raises(RuntimeError, match="2D or 3D"):
        F.dropout1d(cr.ones(3))


def test_frequencies_of_bags() -> None:
    """PyTorch's own counts are those of other rows."""
    table = cr.ones(3, 2, requires_grad=True)
    F.embedding_bag(cr.tensor([[0, 0], [0, 2]]), table, mode="sum", scale_grad_by_freq=True).sum().backward()
    assert table.grad is not None and table.grad.tolist() == [[1, 1], [0, 0], [1, 1]]
    with pytest.raises(IndexError):
        F.embedding_bag(cr.tensor([[0, 3]]), table)


OLD = [
    ((None, None, "sum"), "sum"),
    ((False, None, "mean"), "sum"),
    ((True, None, "none"), "mean"),
    ((None, False, "mean"), "none"),
    ((None, True, "none"), "mean"),
    ((False, True, "mean"), "sum"),
    ((False, False, "mean"), "none"),
]
LOSSES = {
    "mse_loss": [WIDE, OTHER],
    "l1_loss": [WIDE, OTHER],
    "smooth_l1_loss": [WIDE, OTHER],
    "kl_div": [WIDE, X((3, 5), low=0.1)],
    "binary_cross_entropy": [X((3, 5), low=0.1, high=0.9), X((3, 5), low=0, high=1)],
    "binary_cross_entropy_with_logits": [WIDE, X((3, 5), low=0, high=1)],
    "nll_loss": [WIDE, index((3,), 5)],
    "cross_entropy": [WIDE, index((3,), 5)],
    "cosine_embedding_loss": [WIDE, OTHER, SIGN],
    "hinge_embedding_loss": [X((3,)), SIGN],
    "multi_margin_loss": [WIDE, index((3,), 5)],
    "margin_ranking_loss": [X((3,)), X((3,), seed=1), SIGN],
    "soft_margin_loss": [WIDE, OTHER],
    "multilabel_soft_margin_loss": [WIDE, LABELS],
    "multilabel_margin_loss": [X((3,)), given(1, 0, -1)],
    "poisson_nll_loss": [WIDE, OTHER],
    "triplet_margin_loss": [WIDE, OTHER, X((3, 5), seed=2)],
}


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.filterwarnings("default")
def test_old_arguments(name: str) -> None:
    f, args = getattr(F, name), [x.make(cr) for x in LOSSES[name]]
    for (average, reduce, given_one), meant in OLD:
        wanted = f(*args, reduction=meant)
        if average is reduce is None:
            found = f(*args, size_average=average, reduce=reduce, reduction=given_one)
        else:
            with pytest.warns(UserWarning, match=f"please use reduction='{meant}' instead"):
                found = f(*args, size_average=average, reduce=reduce, reduction=given_one)
        assert found.tolist() == wanted.tolist(), (average, reduce)
    if torch:
        ours, theirs = (list(inspect.signature(getattr(lib, name)).parameters) for lib in (F, torch.nn.functional))
        assert ours == theirs, "names and order of the arguments"


def test_weighted_losses() -> None:
    """The mean of mse_loss and l1_loss divides by the sum of the weights; that of huber_loss by their number."""
    x, y, w = cr.tensor([1.0, 2, 3, 4]), cr.zeros(4), cr.tensor([1.0, 2, 3, 4])
    assert F.mse_loss(x, y, weight=w).item() == 10
    assert F.l1_loss(x, y, weight=w).item() == 3
    assert F.huber_loss(x, y, weight=w).item() == 6.25
    for f, total in ((F.mse_loss, 100), (F.l1_loss, 30), (F.huber_loss, 25)):
        assert f(x, y, reduction="sum", weight=w).item() == f(x, y, reduction="none", weight=w).sum().item() == total
        with pytest.raises(ValueError, match="same size"):
            f(x, y, weight=cr.ones(1))
    p = x.clone().requires_grad_()
    F.mse_loss(p, y, weight=w).backward()
    assert p.grad is not None
    assert p.grad.tolist() == pytest.approx([0.2, 0.8, 1.8, 3.2])


@pytest.mark.parametrize("dtype", [cr.float16, cr.bfloat16])
def test_renorm_beyond_half(dtype: cr.dtype) -> None:
    """Norms and squares that half precision cannot hold are taken in float32."""
    for value in (200.0, 300.0):
        x = cr.renorm(cr.full((1, 100000), value, dtype=dtype), 2, 0, 1.0)
        assert x.dtype is dtype
        assert x[0, 7].item() == pytest.approx(100000**-0.5, rel=0.01)
