"""Layers and losses of any shape, layout, reduction and axis against PyTorch's: values and
gradients, or that both refuse with a matching kind of error."""

from __future__ import annotations

from typing import Any

import chainrule as cr
import pytest
from cases import X
from compare import kinds
from hypothesis import given
from hypothesis import strategies as st
from test_nn import PLAIN, REDUCTIONS, Case, compare_modules, index, label, needs_torch, torch, twins

pytestmark = [needs_torch, pytest.mark.filterwarnings("ignore")]
SIZES = st.integers(0, 5)
LAYOUTS = st.sampled_from(["plain", "transposed", "strided", "backwards", "offset", "expanded"])


def shapes(least: int = 0, most: int = 4) -> st.SearchStrategy[tuple[int, ...]]:
    return st.lists(SIZES, min_size=least, max_size=most).map(tuple)


@st.composite
def activations(draw: Any) -> Case:
    name = draw(st.sampled_from([*PLAIN, "GLU"]))
    axes = [draw(st.integers(-5, 4))] if name in ("Softmax", "LogSoftmax", "Softmin", "GLU") else []
    return name, tuple(axes), {}, [X(draw(shapes()), layout=draw(LAYOUTS))]


@st.composite
def layers(draw: Any) -> Case:
    name = draw(
        st.sampled_from(
            ["Linear", "Embedding", "LayerNorm", "RMSNorm", "GroupNorm", "BatchNorm1d", "Flatten", "Unflatten"]
        )
    )
    shape = draw(shapes(0 if name == "Linear" else 1))
    x, flag = X(shape, layout=draw(LAYOUTS)), draw(st.booleans())
    wrong = draw(st.integers(0, 9)) == 0  # sizes that do not go together
    some = tuple(
        max(1, n) for n in shape
    )  # PyTorch: NaN as the gradient of weights of nothing, and no check of the channels
    last = (shape[-1] if shape else 1) + wrong
    if name == "Linear":
        return name, (last, draw(SIZES)), {"bias": flag}, [x]
    if name == "Embedding":
        return (
            name,
            (5 - wrong, draw(st.integers(1, 4))),
            {"padding_idx": draw(st.sampled_from([None, 0, -1]))},
            [index(shape, 5)],
        )
    if name in ("LayerNorm", "RMSNorm"):
        behind = shape[draw(st.integers(0, len(shape) - 1)) :]
        return name, ((*behind[:-1], last),), {"elementwise_affine": flag, "eps": 1e-3}, [x]
    if name == "GroupNorm":
        groups = draw(st.integers(1, 3))
        channels = groups * draw(st.integers(1, 3))
        return name, (groups, channels + wrong), {"affine": flag}, [X((some[0], channels, *some[1:]))]
    if name == "BatchNorm1d":
        return (
            name,
            ((some[1] if len(some) > 1 else 1) + (wrong and some[0] > 1),),
            {"affine": flag},
            [X(some, layout=x.layout)],
        )
    if name == "Flatten":
        return name, (draw(st.integers(-4, 3)), draw(st.integers(-4, 3))), {}, [x]
    return name, (draw(st.integers(-4, 3)), (draw(SIZES), draw(st.integers(-1, 5)))), {}, [x]


@st.composite
def losses(draw: Any) -> Case:
    name = draw(
        st.sampled_from(["MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss", "BCELoss", "BCEWithLogitsLoss", "KLDivLoss"])
    )
    shape, other = draw(shapes()), {"BCELoss": (0.01, 0.99)}.get(name, (-3, 3))
    options: dict[str, Any] = {"reduction": draw(st.sampled_from(REDUCTIONS))}
    if name in ("SmoothL1Loss", "HuberLoss"):
        options["beta" if name == "SmoothL1Loss" else "delta"] = draw(st.sampled_from([0.3, 1.0, 2.5]))
    if name == "KLDivLoss":
        options |= {"log_target": draw(st.booleans()), "reduction": draw(st.sampled_from([*REDUCTIONS, "batchmean"]))}
    wrong = draw(st.integers(0, 9)) == 0
    low = -3 if name in ("MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss") else 0.01
    target = X(
        (*shape, 7) if wrong else shape,
        low=low,
        high=0.99,
        seed=1,
        layout=draw(LAYOUTS),
        grad=name != "BCEWithLogitsLoss",
    )
    return name, (), options, [X(shape, low=other[0], high=other[1], layout=draw(LAYOUTS)), target]


@st.composite
def class_losses(draw: Any) -> Case:
    name = draw(st.sampled_from(["CrossEntropyLoss", "NLLLoss", "MultiMarginLoss", "CosineEmbeddingLoss"]))
    rows, classes = draw(st.integers(1, 4)), draw(st.integers(1, 5))
    options: dict[str, Any] = {"reduction": draw(st.sampled_from(REDUCTIONS))}
    if name == "CosineEmbeddingLoss":
        signs = "signs" if rows == 3 else index((rows,), 2, low=1)
        return (
            name,
            (draw(st.sampled_from([0.0, 0.4])),),
            options,
            [X((rows, classes), layout=draw(LAYOUTS)), X((rows, classes), seed=1), signs],
        )
    behind = () if name == "MultiMarginLoss" else draw(shapes(0, 2))
    wrong = draw(st.integers(0, 9)) == 0  # a class that there is not
    if name != "MultiMarginLoss":
        options["ignore_index"] = draw(st.sampled_from([-100, 0, 2]))
    if name == "CrossEntropyLoss":
        options["label_smoothing"] = draw(st.sampled_from([0.0, 0.2]))
    alone = draw(st.integers(0, 4)) == 0 and not behind
    shape, target = ((classes,), ()) if alone else ((rows, classes, *behind), (rows, *behind))
    layout = (
        "plain" if name == "NLLLoss" and len(behind) == 2 else draw(LAYOUTS)
    )  # PyTorch: "grad_input must be contiguous"
    return (
        name,
        (),
        options,
        [X(shape, layout=layout), index(target, classes + 2 * wrong, seed=2, low=classes + 1 if wrong else 0)],
    )


def agree(c: Case) -> None:
    name, args, kwargs, of = c
    try:
        theirs = getattr(torch.nn, name)(*args, **kwargs).double()(
            *[x.make(torch) if isinstance(x, X) else torch.tensor([1, -1, 1]) for x in of]
        )
        refused = None
    except Exception as e:
        theirs, refused = None, e
    if refused is None:
        del theirs
        compare_modules(*twins(name, args, kwargs), of)
        return
    with pytest.raises(Exception) as mine:  # noqa: B017,PT011  which one is what is compared
        getattr(cr.nn, name)(*args, **kwargs).double()(
            *[x.make(cr) if isinstance(x, X) else cr.tensor([1, -1, 1]) for x in of]
        )
    index_of_class = isinstance(mine.value, IndexError) and "out of range" in str(
        refused
    )  # MultiMarginLoss: a RuntimeError there
    assert kinds(refused) <= kinds(mine.value) or index_of_class, (label(c), refused, mine.value)


@given(activations())
def test_activations(c: Case) -> None:
    agree(c)


@given(layers())
def test_layers(c: Case) -> None:
    agree(c)


@given(losses())
def test_losses(c: Case) -> None:
    agree(c)


@given(class_losses())
def test_class_losses(c: Case) -> None:
    agree(c)
