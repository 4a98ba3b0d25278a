"""chainrule.nn: modules, layers, losses and initialisers.  With PyTorch each is compared with its
own: values, gradients, reprs, state dicts both ways by name."""

from __future__ import annotations

import copy
import math
import pickle
import warnings
from collections import OrderedDict
from typing import Any

import chainrule as cr
import pytest
from chainrule import nn
from compare import differ, kinds, numbers, tensors
from table import X

F = nn.functional

try:
    import torch as _torch
except ImportError:
    _torch = None
torch: Any = _torch
needs_torch = pytest.mark.skipif(
    torch is None, reason="PyTorch is not installed: layers are tested against their formulas only"
)


def index(shape: tuple[int, ...], below: int, seed: int = 0, low: int = 0) -> X:
    return X(shape, "int64", low, below, seed=seed)


# ---- every layer and loss against PyTorch's

Case = tuple[str, tuple[Any, ...], dict[str, Any], list[Any]]


def case(name: str, *args: Any, of: list[Any], **kwargs: Any) -> Case:
    return name, args, kwargs, of


WIDE, BATCH, IMAGE = X((3, 5)), X((4, 7, 5)), X((3, 4, 5, 2))
PLAIN = [
    "ReLU",
    "ReLU6",
    "SELU",
    "SiLU",
    "Mish",
    "LeakyReLU",
    "ELU",
    "CELU",
    "GELU",
    "Softplus",
    "Hardtanh",
    "Hardshrink",
    "Softshrink",
    "Sigmoid",
    "LogSigmoid",
    "Tanh",
    "Tanhshrink",
    "Softsign",
    "PReLU",
    "Identity",
    "Softmin",
    "Softmax",
    "LogSoftmax",
]
CHANCE, SIGNS = X((3, 5), low=0.01, high=0.99), X((3,), "int64", 0, 2, seed=3)
REDUCTIONS = ["mean", "sum", "none"]

LAYERS = [
    *(case(name, of=[x]) for name in PLAIN for x in (WIDE, BATCH, X((3, 5), layout="transposed"))),
    case("Softmax", -1, of=[BATCH]),
    case("GELU", "tanh", of=[WIDE]),
    case("LeakyReLU", 0.3, of=[WIDE]),
    case("ELU", 0.7, of=[WIDE]),
    case("GLU", 0, of=[BATCH]),
    case("Softplus", 2.0, 1.5, of=[WIDE]),
    case("Threshold", 0.3, -2.0, of=[WIDE]),
    case("PReLU", 7, of=[BATCH]),
    case("Hardtanh", -0.5, 2.0, of=[WIDE]),
    *(
        case(name, of=[X((3, 5), "float32", -5, 5)]) for name in ("Hardsigmoid", "Hardswish")
    ),  # PyTorch's gradient rounds 1/6 to float32
    case("Flatten", of=[IMAGE]),
    case("Flatten", 0, 1, of=[IMAGE]),
    case("Unflatten", 1, (2, 2), of=[IMAGE]),
    case("Dropout", 0.0, of=[WIDE]),
    case("Linear", 5, 7, of=[WIDE]),
    case("Linear", 5, 7, bias=False, of=[BATCH]),
    case("Linear", 5, 2, of=[X((5,))]),
    case("Linear", 5, 7, of=[X((4, 7, 5), layout="transposed")]),
    case("Linear", 0, 3, of=[X((2, 0))]),
    case("Bilinear", 5, 3, 2, of=[WIDE, X((3, 3), seed=1)]),
    case("Bilinear", 5, 3, 2, bias=False, of=[BATCH, X((4, 7, 3), seed=1)]),
    case("Embedding", 11, 3, of=[index((4, 2), 11)]),
    case("Embedding", 11, 3, padding_idx=2, of=[index((4, 9), 5)]),
    case("Embedding", 3, 2, of=[index((), 3)]),
    case("Embedding", 11, 3, padding_idx=-1, scale_grad_by_freq=True, of=[index((4, 9), 11)]),
    case("Embedding", 11, 3, max_norm=1.0, of=[index((7,), 11)]),
    case("Embedding", 11, 3, max_norm=1.0, norm_type=1.0, of=[index((7,), 11)]),
    case("LayerNorm", 5, of=[BATCH]),
    case("LayerNorm", (7, 5), of=[BATCH]),
    case("LayerNorm", 5, bias=False, eps=1e-3, of=[WIDE]),
    case("LayerNorm", [5], elementwise_affine=False, of=[WIDE]),
    case("RMSNorm", 5, of=[BATCH]),
    case("RMSNorm", (7, 5), eps=1e-3, of=[BATCH]),
    case("RMSNorm", 5, elementwise_affine=False, of=[WIDE]),
    case("GroupNorm", 2, 4, of=[IMAGE]),
    case("GroupNorm", 4, 4, affine=False, of=[IMAGE]),
    case("GroupNorm", 1, 7, of=[BATCH]),
    case("BatchNorm1d", 5, of=[WIDE]),
    case("BatchNorm1d", 7, of=[BATCH]),
    case("BatchNorm2d", 4, of=[IMAGE]),
    case("BatchNorm2d", 4, momentum=None, of=[IMAGE]),
    case("BatchNorm1d", 5, affine=False, of=[WIDE]),
    case("BatchNorm1d", 5, track_running_stats=False, of=[WIDE]),
    case("InstanceNorm1d", 7, track_running_stats=True, of=[BATCH]),
    case("InstanceNorm2d", 4, affine=True, of=[IMAGE]),
    case("MultiheadAttention", 6, 3, of=[X((5, 2, 6))] * 3),
    case("MultiheadAttention", 6, 2, bias=False, batch_first=True, of=[X((2, 5, 6))] * 3),
    case("MultiheadAttention", 6, 2, of=[X((5, 2, 6)), X((7, 2, 6), seed=1), X((7, 2, 6), seed=2)]),
    case("MultiheadAttention", 6, 2, of=[X((5, 6))] * 3),
    case("MultiheadAttention", 6, 2, kdim=3, vdim=4, of=[X((5, 2, 6)), X((7, 2, 3), seed=1), X((7, 2, 4), seed=2)]),
    case(
        "MultiheadAttention",
        6,
        2,
        add_bias_kv=True,
        add_zero_attn=True,
        of=[X((5, 2, 6)), X((7, 2, 6), seed=1), X((7, 2, 6), seed=2)],
    ),
    case("TransformerEncoderLayer", 6, 2, 9, 0.0, of=[X((5, 2, 6))]),
    case("TransformerEncoderLayer", 6, 3, 9, 0.0, "gelu", norm_first=True, of=[X((5, 2, 6))]),
    case("TransformerEncoderLayer", 6, 2, 9, 0.0, batch_first=True, bias=False, of=[X((2, 5, 6))]),
    *(
        case(name, reduction=r, of=[WIDE, X((3, 5), seed=1)])
        for name in ("MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss")
        for r in REDUCTIONS
    ),
    case("SmoothL1Loss", beta=0.0, of=[WIDE, X((3, 5), seed=1)]),
    case("SmoothL1Loss", beta=2.5, of=[WIDE, X((3, 5), seed=1)]),
    case("HuberLoss", delta=0.3, of=[WIDE, X((3, 5), seed=1)]),
    *(case("BCELoss", reduction=r, of=[CHANCE, X((3, 5), low=0, high=1, seed=1)]) for r in REDUCTIONS),
    *(
        case("BCEWithLogitsLoss", reduction=r, of=[WIDE, X((3, 5), low=0, high=1, seed=1, grad=False)])
        for r in REDUCTIONS
    ),
    *(case("NLLLoss", reduction=r, of=[WIDE, index((3,), 5)]) for r in REDUCTIONS),
    case("NLLLoss", ignore_index=2, of=[IMAGE, index((3, 5, 2), 4)]),
    case("NLLLoss", of=[X((5,)), index((), 5)]),
    *(
        case("CrossEntropyLoss", reduction=r, label_smoothing=s, of=[WIDE, index((3,), 5)])
        for r in REDUCTIONS
        for s in (0.0, 0.1)
    ),
    case("CrossEntropyLoss", ignore_index=2, label_smoothing=0.2, of=[IMAGE, index((3, 5, 2), 4)]),
    case("CrossEntropyLoss", of=[X((5,)), index((), 5)]),
    *(
        case("CrossEntropyLoss", reduction=r, label_smoothing=s, of=[WIDE, CHANCE])
        for r in REDUCTIONS
        for s in (0.0, 0.1)
    ),
    case("CrossEntropyLoss", of=[IMAGE, X((3, 4, 5, 2), low=0, seed=1)]),
    case("CrossEntropyLoss", ignore_index=0, of=[WIDE, index((3,), 1)]),
    *(
        case("KLDivLoss", reduction=r, log_target=g, of=[WIDE, CHANCE])
        for r in [*REDUCTIONS, "batchmean"]
        for g in (False, True)
    ),
    *(
        case("CosineEmbeddingLoss", m, reduction=r, of=[WIDE, X((3, 5), seed=1), "signs"])
        for r in REDUCTIONS
        for m in (0.0, 0.4)
    ),
    *(case("HingeEmbeddingLoss", 1.5, reduction=r, of=[X((3,)), "signs"]) for r in REDUCTIONS),
    *(case("MultiMarginLoss", p, 0.7, reduction=r, of=[WIDE, index((3,), 5)]) for r in REDUCTIONS for p in (1, 2)),
]


def label(c: Case) -> str:
    name, args, kwargs, of = c
    return f"{name}({', '.join([*map(str, args), *(f'{k}={v}' for k, v in kwargs.items())])}) of {of}"


def given(x: Any, lib: Any, leaves: list[Any]) -> Any:
    if isinstance(x, X):
        return x.make(lib, leaves)
    return lib.tensor([1, -1, 1]) if isinstance(x, str) else x


def inputs_of(lib: Any, of: list[Any], leaves: list[Any]) -> list[Any]:
    """One object where the list repeats one: self-attention is found by identity."""
    made = {id(x): given(x, lib, leaves) for x in of}
    return [made[id(x)] for x in of]


def run(lib: Any, module: Any, of: list[Any], **kwargs: Any) -> tuple[Any, list[Any]]:
    """The result, and the gradients of inputs and parameters under fixed random cotangents."""
    leaves: list[Any] = []
    output = module(*inputs_of(lib, of, leaves), **kwargs)
    found = [t for t in tensors(output, lib) if t.requires_grad]
    total: Any = 0
    for k, t in enumerate(found):
        total = total + (t * X(tuple(t.shape), str(t.dtype).split(".")[1], -1, 1, seed=77 + k).make(lib)).sum()
    if found:
        total.backward()
    return output, [x.grad for x in [*leaves, *module.parameters()]]


def same(what: str, ours: Any, theirs: Any) -> None:
    """A gradient that is absent in one may be zeros in the other."""
    if ours is None or theirs is None:
        assert not any(numbers((theirs if ours is None else ours).tolist() if ours is not theirs else [])), what
        return
    assert (found := differ(what, ours, theirs, torch)) is None, found


def compare_modules(mine: Any, theirs: Any, of: list[Any], **kwargs: Any) -> None:
    (ours, grads), (other, other_grads) = run(cr, mine, of, **kwargs), run(torch, theirs, of, **kwargs)
    assert (found := differ("the result", ours, other, torch)) is None, found
    for i, (a, b) in enumerate(zip(grads, other_grads, strict=True)):
        same(f"gradient {i}", a, b)


def to_torch(t: Any) -> Any:
    return torch.tensor(t.tolist(), dtype=getattr(torch, str(t.dtype).split(".")[1])).reshape(tuple(t.shape))


def twins(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """The module of each library in float64, ours with the state of PyTorch's."""
    theirs = getattr(torch.nn, name)(*args, **kwargs).double()
    mine = getattr(nn, name)(*args, **kwargs).double()
    assert list(mine.state_dict()) == list(theirs.state_dict())
    assert [n for n, _ in mine.named_parameters()] == [n for n, _ in theirs.named_parameters()]
    assert repr(mine.load_state_dict(theirs.state_dict())) == "<All keys matched successfully>"
    return mine, theirs


@needs_torch
@pytest.mark.parametrize("c", LAYERS, ids=label)
def test_layer_is_pytorchs(c: Case) -> None:
    name, args, kwargs, of = c
    mine, theirs = twins(name, args, kwargs)
    assert repr(mine) == repr(theirs)
    for training in (True, False):
        mine.train(training)
        theirs.train(training)
        mine.zero_grad()
        theirs.zero_grad()
        compare_modules(mine, theirs, of)
    theirs.load_state_dict(
        {k: to_torch(v) for k, v in mine.state_dict().items()}
    )  # ours goes back: running statistics, rows that were scaled
    for k, v in theirs.state_dict().items():
        same(k, mine.state_dict()[k], v)


WEIGHTED = [
    ("NLLLoss", {"weight": 5}, [WIDE, index((3,), 5)]),
    ("NLLLoss", {"weight": 4, "ignore_index": 1}, [IMAGE, index((3, 5, 2), 4)]),
    ("CrossEntropyLoss", {"weight": 5}, [WIDE, index((3,), 5)]),
    ("CrossEntropyLoss", {"weight": 5, "label_smoothing": 0.3}, [WIDE, index((3,), 5)]),
    ("CrossEntropyLoss", {"weight": 4, "ignore_index": 1, "label_smoothing": 0.3}, [IMAGE, index((3, 5, 2), 4)]),
    ("CrossEntropyLoss", {"weight": 5}, [WIDE, CHANCE]),
    ("BCELoss", {"weight": 5}, [CHANCE, X((3, 5), low=0, high=1, seed=1)]),
    ("MultiMarginLoss", {"weight": 5}, [WIDE, index((3,), 5)]),
    ("BCEWithLogitsLoss", {"weight": 5, "pos_weight": 5}, [WIDE, X((3, 5), low=0, high=1, seed=1, grad=False)]),
]


@needs_torch
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("name, options, of", WEIGHTED, ids=str)
def test_weighted_loss_is_pytorchs(name: str, options: dict[str, Any], of: list[Any], reduction: str) -> None:
    made = [
        {k: X((v,), low=0.2, seed=9).make(lib) if "weight" in k else v for k, v in options.items()}
        for lib in (cr, torch)
    ]
    compare_modules(
        getattr(nn, name)(**made[0], reduction=reduction), getattr(torch.nn, name)(**made[1], reduction=reduction), of
    )


@needs_torch
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize(
    "name, args, of",
    [("Linear", (5, 7), [X((3, 5))]), ("LayerNorm", (5,), [X((4, 5))]), ("MSELoss", (), [X((3,)), X((3,), seed=1)])],
)
def test_layer_in_other_dtypes(name: str, args: tuple[Any, ...], of: list[X], dtype: str) -> None:
    theirs = getattr(torch.nn, name)(*args).to(getattr(torch, dtype))
    mine = getattr(nn, name)(*args).to(getattr(cr, dtype))
    mine.load_state_dict(theirs.state_dict())
    made = [X(x.shape, dtype, seed=x.seed) for x in of]
    (ours, _), (other, _) = run(cr, mine, made), run(torch, theirs, made)
    assert (found := differ("the result", ours, other, torch)) is None, found


MASKS = [
    {},
    {"need_weights": False},
    {"average_attn_weights": False},
    {"attn_mask": "causal"},
    {"attn_mask": "causal", "need_weights": False, "is_causal": True},
    {"attn_mask": "added", "need_weights": False},
    {"key_padding_mask": "padding"},
    {"key_padding_mask": "padding", "attn_mask": "causal", "need_weights": False},
    {"attn_mask": "heads"},
]


@needs_torch
@pytest.mark.parametrize("more", [{}, {"add_bias_kv": True}, {"add_zero_attn": True}], ids=str)
@pytest.mark.parametrize("masks", MASKS, ids=str)
def test_attention_masks(masks: dict[str, Any], more: dict[str, Any]) -> None:
    def made(lib: Any) -> dict[str, Any]:
        later = lib.ones(5, 5, dtype=lib.bool).triu(1)
        values = {
            "causal": later,
            "added": X((5, 5)).make(lib),
            "padding": lib.tensor([[False] * 5, [False, False, True, False, True]]),
            "heads": X((4, 5, 5), "float64", seed=5).make(lib),
        }
        return {k: values.get(v, v) if isinstance(v, str) else v for k, v in masks.items()}

    if masks.get("is_causal") and more:
        return  # PyTorch refuses the hint there
    mine, theirs = twins("MultiheadAttention", (6, 2), more)
    x = X((5, 2, 6))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # masks of two dtypes are deprecated there
        (ours, grads), (other, other_grads) = (
            run(cr, mine, [x] * 3, **made(cr)),
            run(torch, theirs, [x] * 3, **made(torch)),
        )
    assert (ours[1] is None) == (other[1] is None)
    assert (
        found := differ("the result", [t for t in ours if t is not None], [t for t in other if t is not None], torch)
    ) is None, found
    for i, (a, b) in enumerate(zip(grads, other_grads, strict=True)):
        same(f"gradient {i}", a, b)


SHAPES = [
    ((2, 3, 5, 4), (2, 3, 7, 4)),
    ((3, 5, 4), (3, 7, 4)),
    ((5, 4), (7, 4)),
    ((2, 2, 3, 5, 4), (2, 2, 3, 7, 4)),
    ((2, 3, 5, 4), (2, 3, 5, 4)),
]


@needs_torch
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("how", ["plain", "causal", "bool", "added", "scale", "wide values"])
def test_scaled_dot_product_attention(shapes: tuple[tuple[int, ...], tuple[int, ...]], how: str) -> None:
    q, k = shapes
    found = []
    for lib, f in ((cr, F), (torch, torch.nn.functional)):
        leaves: list[Any] = []
        value = X((*k[:-1], 6 if how == "wide values" else k[-1]), seed=2)
        args = [x.make(lib, leaves) for x in (X(q), X(k, seed=1), value)]
        options = {
            "causal": {"is_causal": True},
            "bool": {"attn_mask": X((q[-2], k[-2]), seed=4).make(lib) > -1},
            "scale": {"scale": 0.3},
            "added": {"attn_mask": X((q[-2], k[-2]), seed=4).make(lib)},
        }.get(how, {})
        y = f.scaled_dot_product_attention(*args, **options)
        (y * X(tuple(y.shape), seed=7).make(lib)).sum().backward()
        found.append([y, *(x.grad for x in leaves)])
    assert (wrong := differ("results", found[0], found[1], torch)) is None, wrong


@needs_torch
@pytest.mark.parametrize("options", [{}, {"is_causal": True}], ids=str)
@pytest.mark.parametrize("heads", [(6, 3, 2), (6, 2, 2), (6, 1, 1), (6, 6, 6)], ids=str)
def test_grouped_queries(heads: tuple[int, ...], options: dict[str, Any]) -> None:
    found = []
    for lib, f in ((cr, F), (torch, torch.nn.functional)):
        leaves: list[Any] = []
        args = [X((2, h, 3 if n == 0 else 5, 4), seed=n).make(lib, leaves) for n, h in enumerate(heads)]
        y = f.scaled_dot_product_attention(*args, enable_gqa=True, **options)
        (y * X(tuple(y.shape), seed=7).make(lib)).sum().backward()
        found.append([y, *(x.grad for x in leaves)])
    assert (wrong := differ("results", found[0], found[1], torch)) is None, wrong


@pytest.mark.parametrize(("offset", "window"), [(0, 2), (4, 3), (4, None), (-2, 2), (9, 20)])
@pytest.mark.parametrize("wide", [4, 6])  # by the kernel; by the formula
def test_windows(offset: int, window: int | None, wide: int) -> None:
    q, k, v = (X((2, 2, t, d), seed=t).make(cr) for t, d in ((3, 4), (7, 4), (7, wide)))
    t, s = cr.arange(3)[:, None], cr.arange(7)
    sees = (s <= t + offset) & (s > t + offset - (99 if window is None else window))
    wanted = F.scaled_dot_product_attention(q, k, v, sees)
    found = F.scaled_dot_product_attention(q, k, v, is_causal=True, offset=offset, window=window)
    assert cr.allclose(found, wanted, rtol=1e-5, atol=1e-6), (found - wanted).abs().max()


@pytest.mark.parametrize(
    ("shapes", "options", "error", "message"),
    [
        (((1, 4, 2, 3), (1, 3, 2, 3)), {"enable_gqa": True}, RuntimeError, "must divide those of query: 3, 3 and 4"),
        (((1, 4, 2, 3), (1, 0, 2, 3)), {"enable_gqa": True}, RuntimeError, "must divide those of query: 0, 0 and 4"),
        (((1, 4, 2, 3), (1, 2, 2, 3)), {}, RuntimeError, ""),
        (((4, 3), (4, 3)), {"window": 2}, RuntimeError, "offset and window need is_causal"),
        (((4, 3), (4, 3)), {"window": 0, "is_causal": True}, ValueError, "window must be at least 1: 0"),
    ],
)
def test_refused_attention(shapes: Any, options: dict[str, Any], error: type[Exception], message: str) -> None:
    q, k = (cr.ones(*shape) for shape in shapes)
    with pytest.raises(error, match=message):
        F.scaled_dot_product_attention(q, k, k, **options)


@needs_torch
@pytest.mark.parametrize(
    "call",
    [
        ("normalize", [WIDE]),
        ("normalize", [BATCH], {"p": 1.0, "dim": -1}),
        ("cosine_similarity", [WIDE, X((3, 5), seed=1)]),
        ("softmin", [WIDE], {"dim": 1}),
        ("linear", [WIDE, X((5,), seed=1)]),
        ("glu", [X((3, 6))]),
        ("hardtanh", [WIDE, -0.5, 0.5]),
        ("threshold", [WIDE, 0.1, 3.0]),
        ("batch_norm", [WIDE, X((5,), seed=1), X((5,), low=0.1, seed=2)]),
        ("layer_norm", [WIDE, (5,)]),
        ("rms_norm", [WIDE, (5,)]),
        ("group_norm", [IMAGE, 2]),
    ],
    ids=str,
)
def test_function_is_pytorchs(call: Any) -> None:
    name, args, kwargs = (*call, {})[:3]
    ours, theirs = (
        getattr(f, name)(*(x.make(lib) if isinstance(x, X) else x for x in args), **kwargs)
        for lib, f in ((cr, F), (torch, torch.nn.functional))
    )
    assert (wrong := differ("the result", ours, theirs, torch)) is None, wrong


# ---- what both refuse

BAD: list[tuple[str, Any]] = [
    ("Linear", lambda lib: lib.nn.Linear(5, 7)(lib.ones(3, 4))),
    ("Linear dtype", lambda lib: lib.nn.Linear(5, 7)(lib.ones(3, 5, dtype=lib.int64))),
    ("Embedding", lambda lib: lib.nn.Embedding(5, 7)(lib.tensor([1, 5]))),
    ("Embedding negative", lambda lib: lib.nn.Embedding(5, 7)(lib.tensor([-1]))),
    ("Embedding of floats", lambda lib: lib.nn.Embedding(5, 7)(lib.ones(3))),
    ("class out of range", lambda lib: lib.nn.CrossEntropyLoss()(lib.ones(3, 5), lib.tensor([0, 5, 1]))),
    ("class negative", lambda lib: lib.nn.CrossEntropyLoss()(lib.ones(3, 5), lib.tensor([0, -1, 1]))),
    (
        "class out of range, weighted",
        lambda lib: lib.nn.CrossEntropyLoss(weight=lib.ones(5))(lib.ones(3, 5), lib.tensor([0, 5, 1])),
    ),
    ("nll class out of range", lambda lib: lib.nn.NLLLoss()(lib.ones(3, 5), lib.tensor([0, 5, 1]))),
    ("float classes", lambda lib: lib.nn.CrossEntropyLoss()(lib.ones(3, 5), lib.ones(3))),
    ("target's shape", lambda lib: lib.nn.CrossEntropyLoss()(lib.ones(3, 5), lib.tensor([1, 2]))),
    ("weight's shape", lambda lib: lib.nn.CrossEntropyLoss(weight=lib.ones(4))(lib.ones(3, 5), lib.tensor([1, 2, 0]))),
    (
        "label smoothing",
        lambda lib: lib.nn.CrossEntropyLoss(label_smoothing=1.5)(lib.ones(3, 5), lib.tensor([1, 2, 0])),
    ),
    ("reduction", lambda lib: lib.nn.MSELoss(reduction="middle")(lib.ones(3), lib.zeros(3))),
    (
        "reduction of classes",
        lambda lib: lib.nn.CrossEntropyLoss(reduction="middle")(lib.ones(3, 5), lib.tensor([1, 2, 0])),
    ),
    ("chances", lambda lib: lib.nn.BCELoss()(2 * lib.ones(3), lib.ones(3))),
    ("sizes of chances", lambda lib: lib.nn.BCELoss()(lib.ones(3), lib.ones(4))),
    ("sizes of logits", lambda lib: lib.nn.BCEWithLogitsLoss()(lib.ones(3), lib.ones(4))),
    ("margin loss", lambda lib: lib.nn.MultiMarginLoss(p=3)),
    ("dropout", lambda lib: lib.nn.Dropout(1.5)),
    ("group norm", lambda lib: lib.nn.GroupNorm(3, 4)),
    ("layer norm", lambda lib: lib.nn.LayerNorm(4)(lib.ones(3, 5))),
    ("one value a channel", lambda lib: lib.nn.BatchNorm1d(5)(lib.ones(1, 5))),
    ("batch norm's axes", lambda lib: lib.nn.BatchNorm2d(5)(lib.ones(2, 5))),
    ("batch norm's channels", lambda lib: lib.nn.BatchNorm1d(5)(lib.ones(2, 4))),
    ("heads", lambda lib: lib.nn.MultiheadAttention(6, 4)),
    ("attention's width", lambda lib: lib.nn.MultiheadAttention(6, 2)(*[lib.ones(3, 2, 5)] * 3)),
    ("causal without a mask", lambda lib: lib.nn.MultiheadAttention(6, 2)(*[lib.ones(3, 2, 6)] * 3, is_causal=True)),
    (
        "both masks",
        lambda lib: lib.nn.functional.scaled_dot_product_attention(
            *[lib.ones(3, 2)] * 3, attn_mask=lib.ones(3, 3), is_causal=True
        ),
    ),
    ("encoder's activation", lambda lib: lib.nn.TransformerEncoderLayer(6, 2, activation="tanh")),
    ("no forward", lambda lib: lib.nn.Module()(1)),
    ("fans", lambda lib: lib.nn.init.xavier_uniform_(lib.ones(3))),
    ("gain", lambda lib: lib.nn.init.calculate_gain("cosine")),
    ("mode", lambda lib: lib.nn.init.kaiming_normal_(lib.ones(3, 2), mode="fan")),
    ("integer parameter", lambda lib: lib.nn.Parameter(lib.tensor([1, 2]))),
    ("to an integer dtype", lambda lib: lib.nn.Linear(2, 3).to(lib.int64)),
    ("train", lambda lib: lib.nn.Linear(2, 3).train(2)),
    ("no submodule", lambda lib: lib.nn.Sequential(lib.nn.ReLU()).get_submodule("1")),
    ("no parameter", lambda lib: lib.nn.Linear(2, 3).get_parameter("heft")),
    ("attribute", lambda lib: lib.nn.Linear(2, 3).heft),
    ("a tensor as a parameter", lambda lib: setattr(lib.nn.Linear(2, 3), "weight", lib.ones(3, 2))),
    ("a number as a module", lambda lib: setattr(lib.nn.Sequential(lib.nn.ReLU()), "0", 3)),
    ("a name with a dot", lambda lib: lib.nn.Module().register_parameter("a.b", None)),
    ("no name", lambda lib: lib.nn.Module().register_buffer("", None)),
    ("a name in use", lambda lib: lib.nn.Module().register_buffer("forward", None)),
    ("no buffer", lambda lib: lib.nn.Module().register_buffer("x", 3)),
    ("no module", lambda lib: lib.nn.Module().add_module("x", 3)),
    ("Sequential of numbers", lambda lib: lib.nn.Sequential(1, 2)),
    ("an index", lambda lib: lib.nn.Sequential(lib.nn.ReLU())[1]),
    ("a key", lambda lib: lib.nn.ModuleDict({"a": lib.nn.ReLU()})["b"]),
]


@needs_torch
@pytest.mark.parametrize("what, call", BAD, ids=[b[0] for b in BAD])
def test_refuses_as_pytorch(what: str, call: Any) -> None:
    raised = []
    for lib in (cr, torch):
        with pytest.raises(Exception) as e:  # noqa: B017,PT011  which one is what is compared
            call(lib)
        raised.append(e.value)
    assert kinds(raised[1]) <= kinds(raised[0]) and isinstance(raised[0], (type(raised[1]), RuntimeError)), raised


# ---- without PyTorch


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Linear(2, 4)
        self.act = nn.Tanh()
        self.blocks = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))
        self.scale = nn.Parameter(cr.ones(1))
        self.register_buffer("seen", cr.zeros(1))
        self.register_buffer("scratch", cr.zeros(1), persistent=False)

    def forward(self, x: cr.Tensor) -> cr.Tensor:
        x = self.act(self.hidden(x))
        for block in self.blocks:
            x = x + block(x)
        return x * self.scale


NAMES = [
    "scale",
    "hidden.weight",
    "hidden.bias",
    "blocks.0.weight",
    "blocks.0.bias",
    "blocks.1.weight",
    "blocks.1.bias",
]


def test_names() -> None:
    net = Net()
    assert [n for n, _ in net.named_parameters()] == NAMES
    assert [n for n, _ in net.named_buffers()] == ["seen", "scratch"]
    assert [n for n, _ in net.named_modules()] == ["", "hidden", "act", "blocks", "blocks.0", "blocks.1"]
    assert [n for n, _ in net.named_children()] == ["hidden", "act", "blocks"]
    assert list(net.state_dict()) == [NAMES[0], "seen", *NAMES[1:]]
    assert (
        net.get_parameter("blocks.1.bias") is net.blocks[1].bias
        and net.get_submodule("blocks.0") is net.blocks[0]
        and net.get_buffer("seen") is net.seen
    )
    assert (
        len(list(net.parameters())) == 7
        and len(list(net.parameters(recurse=False))) == 1
        and len(list(net.modules())) == 6
    )


def test_shared_parameters_count_once() -> None:
    net = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False))
    net[1].weight = net[0].weight
    assert [n for n, _ in net.named_parameters()] == ["0.weight"] and list(net.state_dict()) == ["0.weight", "1.weight"]
    assert len(list(net.named_parameters(remove_duplicate=False))) == 2
    twice = nn.Sequential(net[0], net[0])
    assert len(list(twice.children())) == 1 and len(twice) == 2


def test_attributes() -> None:
    net: Any = Net()
    weight = net.hidden.weight
    assert (
        isinstance(weight, nn.Parameter) and isinstance(weight, cr.Tensor) and weight.requires_grad and weight.is_leaf
    )
    net.hidden.weight = None
    assert [n for n, _ in net.hidden.named_parameters()] == ["bias"]
    del net.hidden
    assert not hasattr(net, "hidden") and "hidden" not in dict(net.named_children())
    net.hidden = nn.ReLU()
    net.plain = 3
    assert net.plain == 3 and isinstance(net.hidden, nn.ReLU)
    net.seen = cr.ones(1)
    assert net.state_dict()["seen"].item() == 1


class Early(nn.Module):
    def __init__(self, assign: Any) -> None:
        assign(self)


@pytest.mark.parametrize(
    "assign",
    [lambda m: setattr(m, "layer", nn.ReLU()), lambda m: m.register_buffer("x", None)],
    ids=["a module", "a buffer"],
)
def test_assigned_too_early(assign: Any) -> None:
    with pytest.raises(AttributeError, match="before Module"):
        Early(assign)


def test_repr() -> None:
    assert (
        repr(Net()) == "Net(\n  (hidden): Linear(in_features=2, out_features=4, bias=True)\n  (act): Tanh()\n"
        "  (blocks): ModuleList(\n    (0-1): 2 x Linear(in_features=4, out_features=4, bias=True)\n  )\n)"
    )
    assert repr(nn.Parameter(cr.ones(2))) == "Parameter containing:\ntensor([1., 1.], requires_grad=True)"


def test_hooks() -> None:
    calls: list[Any] = []
    net = nn.Linear(2, 2)
    first = net.register_forward_pre_hook(lambda module, args: calls.append("pre"))
    net.register_forward_pre_hook(lambda module, args: (args[0] * 0,))
    with net.register_forward_hook(lambda module, args, output: output + 1):
        assert (net(cr.ones(1, 2)) - net.bias - 1).abs().max().item() < 1e-6
    net.register_forward_hook(lambda module, args, kwargs, output: calls.append(sorted(kwargs)), with_kwargs=True)
    net.register_forward_pre_hook(lambda module, args: calls.append("earliest"), prepend=True)
    first.remove()
    net(cr.ones(1, 2))
    assert calls == ["pre", "earliest", []]


def test_modes_and_moves() -> None:
    net = Net()
    assert not net.eval().training and not net.blocks[0].training and net.train().blocks[1].training
    before = net.scale
    net(cr.ones(1, 2)).sum().backward()
    assert before.grad is not None
    assert (
        net.double() is net
        and net.scale is before
        and before.dtype == cr.float64 == net.seen.dtype
        and before.grad.dtype == cr.float64
    )
    net.register_buffer("count", cr.tensor(3))
    assert (
        net.float().count.dtype == cr.int64
        and net.to("ref").scale.device == cr.Device("ref")
        and net.cpu().scale.device == cr.Device("cpu")
    )
    net.to(cr.ones(1, dtype=cr.float64))
    assert net.scale.dtype == cr.float64 and net.float().scale.dtype == cr.float32
    net.zero_grad()
    assert all(p.grad is None for p in net.parameters())
    net.requires_grad_(False)
    assert not any(p.requires_grad for p in net.parameters())
    seen = []
    assert net.apply(lambda m: seen.append(type(m).__name__)) is net
    assert seen == ["Linear", "Tanh", "Linear", "Linear", "ModuleList", "Net"]


def test_copies_and_pickles() -> None:
    net = Net()
    net.hidden.weight = nn.Parameter(cr.ones(4, 2))
    for twin in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert (
            type(twin.scale) is nn.Parameter
            and twin.scale is not net.scale
            and list(twin.state_dict()) == list(net.state_dict())
        )
        assert twin(cr.ones(3, 2)).tolist() == net(cr.ones(3, 2)).tolist()
        twin.scale.data.fill_(2)
        assert net.scale.item() == 1
    tied = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    tied[1].weight = tied[0].weight
    assert copy.deepcopy(tied)[1].weight is not tied[1].weight
    twin = copy.deepcopy(tied)
    assert twin[0].weight is twin[1].weight


def test_load_names_everything_at_once() -> None:
    net = Net()
    state = {k: v.clone() for k, v in net.state_dict().items()}
    before = {k: v.clone().tolist() for k, v in state.items()}
    del state["hidden.bias"], state["seen"]
    state |= {
        "extra": cr.ones(1),
        "blocks.0.weight": cr.ones(4, 5),
        "scale": "one",
        "blocks.1.bias": [1.0] * 4,
        "hidden.weight": cr.zeros(4, 2),
    }
    with pytest.raises(RuntimeError) as e:
        net.load_state_dict(state)
    text = str(e.value)
    for part in (
        "for Net",
        'Missing key(s) in state_dict: "seen", "hidden.bias"',
        'Unexpected key(s) in state_dict: "extra"',
        (
            "size mismatch for blocks.0.weight: copying a param with shape (4, 5) from checkpoint, the shape in current"
            " model is (4, 4)"
        ),
        '"scale" is a str, not a tensor',
        '"blocks.1.bias" is a list, not a tensor',
    ):
        assert part in text, text
    assert {k: v.tolist() for k, v in net.state_dict().items()} == before, "a state that is refused changes nothing"
    found = net.load_state_dict({"hidden.weight": cr.zeros(4, 2), "extra": cr.ones(1)}, strict=False)
    assert (
        found.unexpected_keys == ["extra"]
        and "seen" in found.missing_keys
        and net.hidden.weight.abs().max().item() == 0
    )
    with pytest.raises(TypeError):
        net.load_state_dict([1, 2])  # type: ignore[arg-type]


def test_load_of_what_cannot_be_a_tensor() -> None:
    numpy = pytest.importorskip("numpy")
    net = nn.Linear(2, 3)
    before = net.weight.tolist()
    with pytest.raises(RuntimeError, match=r'"weight" cannot be a tensor.*\n.*"bias" cannot be a tensor'):
        net.load_state_dict({"weight": numpy.array([["a", "b"]] * 3), "bias": numpy.array([object()] * 3)})
    with pytest.raises(RuntimeError, match='"bias" is chainrule.int64, which has no gradient'):
        net.load_state_dict({"weight": cr.ones(3, 2), "bias": cr.tensor([1, 2, 3])}, assign=True)
    assert net.weight.tolist() == before, "a state that is refused changes nothing"


def test_load_assigns() -> None:
    net = nn.Linear(2, 3)
    state = {k: v.double() for k, v in net.state_dict().items()}
    net.load_state_dict(state, assign=True)
    assert net.weight.dtype == cr.float64 and isinstance(net.weight, nn.Parameter)


def test_save_and_load(tmp_path: Any) -> None:
    net, other = Net(), Net()
    cr.save(net.state_dict(), tmp_path / "net.safetensors")
    other.load_state_dict(cr.load(tmp_path / "net.safetensors"))
    assert other(cr.ones(1, 2)).tolist() == net(cr.ones(1, 2)).tolist()


def test_containers() -> None:
    row = nn.Sequential(OrderedDict(a=nn.Linear(2, 3), b=nn.ReLU()))
    assert (
        [n for n, _ in row.named_parameters()] == ["a.weight", "a.bias"]
        and row[0] is row.a
        and isinstance(row[-1], nn.ReLU)
        and len(row[:1]) == 1
    )
    row.append(nn.Tanh()).insert(0, nn.Identity())
    assert [type(m).__name__ for m in row] == ["Identity", "Linear", "ReLU", "Tanh"] and list(
        dict(row.named_children())
    ) == ["0", "1", "2", "3"]
    del row[0]
    row[1] = nn.SiLU()
    assert [type(m).__name__ for m in row.pop(1).modules()] == ["SiLU"] and len(row) == 2
    layers = nn.ModuleList([nn.Linear(1, 1)])
    layers += [nn.Linear(1, 1)]
    layers.extend([nn.Linear(1, 1)])
    assert len(layers) == 3 and len((layers + layers)[1:]) == 5 and layers[-1] is [*layers][2]
    names = nn.ModuleDict({"relu": nn.ReLU(), "tanh": nn.Tanh()})
    names["gelu"] = nn.GELU()
    assert names.keys() == ["relu", "tanh", "gelu"] and "tanh" in names and len(names) == 3 and [*names] == names.keys()
    assert isinstance(names.pop("relu"), nn.ReLU) and len(names.values()) == 2
    names.clear()
    assert not len(names)


def test_initial_distributions() -> None:
    cr.manual_seed(0)
    linear = nn.Linear(400, 300)
    bound = 1 / math.sqrt(400)
    for p in linear.parameters():
        assert (
            bound * 0.98 < p.abs().max().item() <= bound
            and abs(p.detach().std().item() - bound / math.sqrt(3)) < 0.05 * bound
        )
    inputs = nn.Conv1d(400, 400, 2, groups=8).weight.abs().max().item() * math.sqrt(2 * 400 / 8)
    assert 0.98 < inputs <= 1  # of a group
    table = nn.Embedding(300, 200, padding_idx=3)
    assert abs(table.weight.detach().std().item() - 1) < 0.02 and table.weight[3].abs().max().item() == 0
    attention = nn.MultiheadAttention(64, 4)
    assert attention.in_proj_weight is not None and attention.in_proj_bias is not None
    assert (
        attention.in_proj_weight.abs().max().item() <= math.sqrt(6 / (64 + 192))
        and attention.in_proj_bias.abs().max().item() == 0
    )
    w = cr.empty(200, 300)
    for f, deviation in (
        (nn.init.xavier_uniform_, math.sqrt(2 / 500)),
        (nn.init.xavier_normal_, math.sqrt(2 / 500)),
        (nn.init.kaiming_uniform_, math.sqrt(2 / 300)),
        (nn.init.kaiming_normal_, math.sqrt(2 / 300)),
        (nn.init.normal_, 1.0),
        (nn.init.uniform_, math.sqrt(1 / 12)),
    ):
        assert f(w) is w and abs(w.std().item() / deviation - 1) < 0.02, f.__name__
    assert (
        abs(nn.init.kaiming_normal_(w, mode="fan_out", nonlinearity="tanh").std().item() / (5 / 3 / math.sqrt(200)) - 1)
        < 0.02
    )
    assert nn.init.trunc_normal_(w, std=2.0, a=-1.0, b=0.5).max().item() <= 0.5
    assert (nn.init.orthogonal_(w, gain=2.0) @ w.T - 4 * cr.eye(200)).abs().max().item() < 1e-4
    assert nn.init.eye_(cr.empty(2, 3)).tolist() == [[1, 0, 0], [0, 1, 0]] and nn.init.constant_(
        cr.empty(2), 3.0
    ).tolist() == [3, 3]
    first, second = (nn.Linear(3, 3) for _ in range(2) if cr.manual_seed(5))
    assert first.weight.tolist() == second.weight.tolist()


def test_dropout() -> None:
    cr.manual_seed(0)
    x = cr.ones(100, 100, requires_grad=True)
    y = nn.Dropout(0.25)(x)
    y.sum().backward()
    assert set(numbers(y.tolist())) == {0.0, float(cr.tensor(4 / 3))} and abs(y.mean().item() - 1) < 0.05
    assert x.grad is not None and x.grad.tolist() == y.tolist()
    assert nn.Dropout(0.25).eval()(x) is x and F.dropout(x, 1.0).abs().max().item() == 0


@pytest.mark.parametrize("norm", [2.0, 1.0, math.inf, 3.0])
def test_clipping(norm: float) -> None:
    def grads(lib: Any) -> list[Any]:
        ps = [lib.zeros(shape, requires_grad=True) for shape in ((3, 5), (7,), ())]
        for i, p in enumerate(ps):
            p.grad = X(tuple(p.shape), "float32", seed=i).make(lib)
        return ps

    mine = grads(cr)
    before = [p.grad.tolist() for p in mine]
    total = nn.utils.clip_grad_norm_(mine, 1e9, norm)
    assert [p.grad.tolist() for p in mine] == before
    nn.utils.clip_grad_norm_([mine[0], *mine[1:]], 0.5, norm)
    assert abs(nn.utils.get_total_norm([p.grad for p in mine], norm).item() - 0.5) < 1e-4 < total.item()
    if torch:
        theirs = grads(torch)
        torch.nn.utils.clip_grad_norm_(theirs, 0.5, norm)
        for a, b in zip(mine, theirs, strict=True):
            same("gradient", a.grad, b.grad)
    nn.utils.clip_grad_norm_([mine[1], *mine, mine[1]], 0.1, norm)  # one that stands three times is scaled three times
    nn.utils.clip_grads_with_norm_([mine[1], mine[1]], 0.5, cr.tensor(1.0))
    if torch:
        torch.nn.utils.clip_grad_norm_([theirs[1], *theirs, theirs[1]], 0.1, norm)
        torch.nn.utils.clip_grads_with_norm_([theirs[1], theirs[1]], 0.5, torch.tensor(1.0))
        for a, b in zip(mine, theirs, strict=True):
            same("gradient", a.grad, b.grad)
    nn.utils.clip_grad_value_(mine, 0.01)
    assert max(p.grad.abs().max().item() for p in mine) <= float(cr.tensor(0.01))
    mine[0].grad.fill_(math.nan)
    with pytest.raises(RuntimeError, match="non-finite"):
        nn.utils.clip_grad_norm_(mine, 1.0, norm, error_if_nonfinite=True)
    assert math.isnan(nn.utils.clip_grad_norm_(mine, 1.0, norm).item())
    assert all(math.isnan(p.grad.sum().item()) for p in mine)
    vector = nn.utils.parameters_to_vector(mine)
    nn.utils.vector_to_parameters(vector.detach() + 1, mine)
    assert vector.shape == [23] and mine[1].tolist() == [1.0] * 7
    nn.utils.vector_to_parameters(cr.arange(23.0), mine)
    assert nn.utils.parameters_to_vector(mine).tolist() == [*range(23)]


def test_in_place_activations() -> None:
    x = cr.randn(3, 5, requires_grad=True)
    for kind in (
        nn.ReLU,
        nn.ReLU6,
        nn.SELU,
        nn.SiLU,
        nn.Mish,
        nn.Hardsigmoid,
        nn.Hardswish,
        nn.LeakyReLU,
        nn.ELU,
        nn.CELU,
        nn.Hardtanh,
    ):
        y = x * 2
        assert (
            kind(inplace=True)(y) is y
            and y.tolist() == kind()(x * 2).tolist()
            and "inplace=True" in repr(kind(inplace=True))
        )


def test_data_is_assigned() -> None:
    p = nn.Parameter(cr.ones(2, 3))
    y = (p * 2).sum()
    y.backward()
    wide = cr.zeros(2, 3, dtype=cr.float64)
    kept = [[2.0] * 3] * 2
    p.data = cr.full((2, 3), 5.0)
    assert (
        isinstance(p, nn.Parameter)
        and p.requires_grad
        and p.is_leaf
        and p[0, 0].item() == 5
        and p.grad is not None
        and p.grad.tolist() == kept
    )
    p.data = wide
    assert p.dtype == cr.float64 and p.data_ptr() == wide.data_ptr()
    assert p.grad is not None and p.grad.dtype == cr.float32 and p.grad.tolist() == kept
    (p * 3).sum().backward()
    assert p.grad.tolist() == [[5.0] * 3] * 2
    with pytest.raises(TypeError, match="must be a Tensor"):
        setattr(p, "data", 3)  # noqa: B010  a type checker refuses it
    with pytest.raises(RuntimeError):
        p.data = cr.arange(3)  # integers cannot require gradients
    assert p.dtype == cr.float64 and p.requires_grad


def test_private_updates_refuse() -> None:
    p, update = cr.ones(3), cr._core._update
    options = {"lr": 0.1, "weight_decay": 0, "scale": 1}
    for args, kind in (
        (("none", [p], [p], {}), RuntimeError),
        (("sgd", [p], [p], options), ValueError),
        (("sgd", [p], [p, p], {"lr": 0.1, "scale": 1}), RuntimeError),
        (("sgd", [p], [p, p], {**options, "scale": "x"}), RuntimeError),
        (("sgd", [p], [p, cr.ones(4)], options), RuntimeError),
        (("sgd", [p], [p, 3], options), TypeError),
        (("sgd", [p], [p, p], (0.1, 0, 1)), TypeError),
        (("add", [p], [p, p], options), RuntimeError),
    ):
        with pytest.raises(kind):
            update(*args)
    update("sgd", [], [], options)
    update("sgd", [p, p.to("ref")], [p, cr.ones(3), p.to("ref"), cr.ones(3, device="ref")], {**options, "lr": 0.5})
    assert p.tolist() == [0.5] * 3


def test_second_derivatives() -> None:
    cr.manual_seed(3)
    net = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.GELU(), nn.Linear(4, 2)).double()
    target = cr.tensor([0, 1, 1])
    f = lambda x: F.cross_entropy(net(x), target)
    x = cr.randn(3, 3, dtype=cr.float64, requires_grad=True)
    assert cr.autograd.gradcheck(f, x) and cr.autograd.gradgradcheck(f, x)
    p = cr.rand(5, dtype=cr.float64, requires_grad=True)
    goal = cr.tensor([0.0, 1.0, 0.3, 0.5, 1.0], dtype=cr.float64)
    assert cr.autograd.gradgradcheck(lambda p: F.binary_cross_entropy(p, goal), p)


def test_values_are_there_too() -> None:
    assert nn.MLP is cr.MLP and nn.Neuron is cr.Neuron and nn.Layer is cr.Layer


def test_options_of_functions_that_modules_do_not_use() -> None:
    x = cr.tensor([[1.0, 3.0, 2.0, 2.0]])
    assert nn.functional.group_norm(x, 2, eps=3.0).tolist() == [[-0.5, 0.5, 0.0, 0.0]]
    table = cr.ones(3, 2, requires_grad=True)
    nn.functional.embedding(cr.tensor([2, 0, 2]), table, padding_idx=-1).sum().backward()
    assert table.grad is not None and table.grad.tolist() == [[1, 1], [0, 0], [0, 0]]


def test_the_order_of_hooks() -> None:
    calls: list[str] = []
    for hooks in (nn.Module.register_forward_pre_hook, nn.Module.register_forward_hook):
        net = nn.Identity()
        for name, first in (("b", False), ("a", True), ("c", False)):
            hooks(net, lambda *args, name=name: calls.append(name), prepend=first)
        net(cr.ones(1))
    assert calls == ["a", "b", "c"] * 2


def test_what_is_assigned_learns_as_before() -> None:
    net = nn.Linear(2, 3)
    net.weight.requires_grad_(False)
    net.load_state_dict({"weight": cr.ones(3, 2), "bias": cr.zeros(3)}, assign=True)
    assert (
        not net.weight.requires_grad
        and net.bias is not None
        and net.bias.requires_grad
        and net.weight.tolist() == [[1, 1]] * 3
    )


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_multi_margin_loss_of_scalars(reduction: str) -> None:
    """(C) and (), scalars, and targets of one element: the loss has the target's shape."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    for x, y in (
        ([1.0, 2.5, 3.0], 1),
        ([1.0, 2.5, 3.0], [1]),
        (1.0, 0),
        (1.0, [0]),
        ([1.0], 0),
        ([[1.0, 2.5]], 1),
        ([[1.0, 2.5]], [0]),
    ):
        results = []
        for lib in (cr, torch):
            leaf = lib.tensor(x, requires_grad=True)
            loss = lib.nn.functional.multi_margin_loss(leaf, lib.tensor(y), reduction=reduction)
            loss.sum().backward()
            results.append((tuple(loss.shape), loss.tolist(), leaf.grad.tolist()))
        assert results[0] == results[1], (x, y)
    with pytest.raises(ValueError):
        cr.nn.functional.multi_margin_loss(cr.ones(2, 3), cr.tensor([1]))
