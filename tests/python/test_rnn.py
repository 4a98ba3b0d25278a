"""nn.RNN, LSTM, GRU, their cells and nn.utils.rnn beside PyTorch: values, gradients, state dicts, reprs and errors."""

from __future__ import annotations

import itertools
import math
import warnings
from typing import Any

import chainrule as cr
import pytest
from chainrule import nn
from chainrule.nn.utils import rnn
from compare import kinds, numbers

try:
    import torch as _torch
except ImportError:
    _torch = None
torch: Any = _torch
needs_torch = pytest.mark.skipif(torch is None, reason="PyTorch is not installed: layers are tested by formulas only")


def array(*shape: int, seed: int = 0, dtype: str = "float64") -> tuple[Any, Any]:
    """The same numbers in both libraries."""
    n = math.prod(shape)
    data = [math.sin(1.7 * i + seed) for i in range(n)]
    return tuple(lib.tensor(data, dtype=getattr(lib, dtype)).reshape(shape) if lib else None for lib in (cr, torch))  # type: ignore[return-value]


def pair(kind: str, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
    """The module of each library, with the same parameters: ours through PyTorch's state dict and back."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mine, theirs = (getattr(lib.nn, kind)(*args, **kwargs).double() for lib in (cr, torch))
    assert repr(mine) == repr(theirs)
    shapes = {k: tuple(v.shape) for k, v in mine.state_dict().items()}
    assert shapes == {k: tuple(v.shape) for k, v in theirs.state_dict().items()}
    assert list(shapes) == list(theirs.state_dict())
    mine.load_state_dict({k: cr.tensor(v.tolist(), dtype=cr.float64) for k, v in theirs.state_dict().items()})
    theirs.load_state_dict({k: torch.tensor(v.tolist(), dtype=torch.float64) for k, v in mine.state_dict().items()})
    return mine, theirs


def flat(x: Any) -> list[Any]:
    """The tensors of a result, packed sequences opened."""
    if isinstance(x, (tuple, list)):
        return [t for i in x for t in flat(i)]
    return [] if x is None else [x]


def alike(mine: Any, theirs: Any, tolerance: float = 1e-10) -> None:
    mine, theirs = flat(mine), flat(theirs)
    assert len(mine) == len(theirs)
    for a, b in zip(mine, theirs, strict=True):
        assert tuple(a.shape) == tuple(b.shape)
        for x, y in zip(numbers(a.tolist()), numbers(b.tolist()), strict=True):
            assert abs(x - y) <= tolerance * max(1, abs(y)), (a, b)


def differentiate(lib: Any, module: Any, result: Any) -> None:
    total: Any = 0
    for k, t in enumerate(flat(result)):
        if t.requires_grad:
            w = lib.tensor([math.cos(0.3 * i + k) for i in range(t.numel())], dtype=t.dtype).reshape(t.shape)
            total = total + (t * w).sum()
    total.backward()


def compare(mine: Any, theirs: Any, inputs: list[tuple[Any, Any]], call: Any) -> None:
    """Values, and gradients of all parameters and inputs.  call(lib, module, inputs)"""
    results = []
    for lib, module, mine_or_theirs in ((cr, mine, 0), (torch, theirs, 1)):
        leaves = [x[mine_or_theirs].clone().requires_grad_() for x in inputs]
        y = call(lib, module, leaves)
        differentiate(lib, module, y)
        results.append((y, [x.grad for x in leaves], [p.grad for p in module.parameters()]))
    for a, b in zip(*results, strict=True):
        alike(a, b)


LAYERS = [
    (kind, {"num_layers": layers, "bias": bias, "bidirectional": both, **more})
    for kind, more in (
        ("RNN", {}),
        ("RNN", {"nonlinearity": "relu"}),
        ("GRU", {}),
        ("LSTM", {}),
        ("LSTM", {"proj_size": 2}),
    )
    for layers, bias, both in ((1, True, False), (2, False, True), (3, True, True))
]


def states(kind: str, options: dict[str, Any], batch: int | None) -> list[tuple[Any, Any]]:
    """hx: one tensor, or two of an LSTM."""
    n = options["num_layers"] * (1 + options["bidirectional"])
    widths = [options.get("proj_size", 4), 4] if kind == "LSTM" else [4]
    return [array(n, *(() if batch is None else (batch,)), w, seed=5 + k) for k, w in enumerate(widths)]


def run(lib: Any, module: Any, leaves: list[Any]) -> Any:
    x, *hx = leaves
    return module(x) if not hx else module(x, hx[0] if len(hx) == 1 else tuple(hx))


@needs_torch
@pytest.mark.parametrize(("kind", "options"), LAYERS, ids=str)
def test_layers(kind: str, options: dict[str, Any]) -> None:
    for batch_first in (False, True):
        mine, theirs = pair(kind, 3, 4, batch_first=batch_first, **options)
        shape = (2, 5, 3) if batch_first else (5, 2, 3)
        compare(mine, theirs, [array(*shape)], run)
        compare(mine, theirs, [array(*shape), *states(kind, options, 2)], run)
    compare(mine, theirs, [array(5, 3)], run)
    compare(mine, theirs, [array(5, 3), *states(kind, options, None)], run)
    for lengths, enforce in (([5, 3, 3, 1], True), ([2, 5, 1, 4], False), ([3, 3, 3, 3], True)):

        def packed(lib: Any, module: Any, leaves: list[Any], lengths: Any = lengths, enforce: bool = enforce) -> Any:
            x = lib.nn.utils.rnn.pack_padded_sequence(leaves[0], lengths, enforce_sorted=enforce)
            y, last = run(lib, module, [x, *leaves[1:]])
            assert isinstance(y, lib.nn.utils.rnn.PackedSequence)
            return *y, lib.nn.utils.rnn.pad_packed_sequence(y, padding_value=2.5, total_length=7), last

        compare(mine, theirs, [array(5, 4, 3)], packed)
        compare(mine, theirs, [array(5, 4, 3), *states(kind, options, 4)], packed)


@needs_torch
def test_cells() -> None:
    for (kind, more), bias in itertools.product(
        (("RNNCell", {}), ("RNNCell", {"nonlinearity": "relu"}), ("GRUCell", {}), ("LSTMCell", {})), (True, False)
    ):
        mine, theirs = pair(kind, 3, 4, bias=bias, **more)
        for batch in ((), (2,)):
            hx = [array(*batch, 4, seed=k) for k in range(1 + (kind == "LSTMCell"))]
            compare(mine, theirs, [array(*batch, 3)], run)
            compare(mine, theirs, [array(*batch, 3), *hx], run)


@needs_torch
def test_packing() -> None:
    sequences = [array(n, 2, seed=n) for n in (4, 6, 1, 6)]
    for lib, k in ((cr, 0), (torch, 1)):
        utils = lib.nn.utils.rnn
        each = [s[k] for s in sequences]
        packed = utils.pack_sequence(each, enforce_sorted=False)
        results = [
            *packed,
            *utils.unpack_sequence(packed),
            *(utils.pad_sequence(each, first, 1.5, side) for first in (False, True) for side in ("right", "left")),
            *utils.unpad_sequence(utils.pad_sequence(each, True), lib.tensor([4, 6, 1, 6]), True),
            *utils.pad_packed_sequence(packed, True),
            *utils.pad_packed_sequence(utils.pack_sequence([each[1], each[0], each[2]])),
            packed.to(lib.float32).data,
        ]
        if k == 0:
            mine = results
    alike(mine, results)
    assert rnn.invert_permutation(None) is None
    inverse = rnn.invert_permutation(cr.tensor([2, 0, 1]))
    assert inverse is not None and inverse.tolist() == [1, 2, 0]


def test_formulas() -> None:
    """One step of an LSTM, written down."""
    cell = nn.LSTMCell(2, 3).double()
    x, h, c = (array(4, n, seed=n)[0] for n in (2, 3, 3))
    gates = x @ cell.weight_ih.T + cell.bias_ih + h @ cell.weight_hh.T + cell.bias_hh
    i, f, g, o = gates.chunk(4, -1)
    cells = f.sigmoid() * c + i.sigmoid() * g.tanh()
    for got, want in zip(cell(x, (h, c)), (o.sigmoid() * cells.tanh(), cells), strict=True):
        assert (got - want).abs().max().item() < 1e-12


ERRORS: dict[str, Any] = {
    "no inputs": lambda lib: lib.nn.LSTM(0, 3),
    "no hidden": lambda lib: lib.nn.GRU(3, 0),
    "hidden is no int": lambda lib: lib.nn.GRU(3, 2.5),
    "no layers": lambda lib: lib.nn.RNN(3, 4, 0),
    "dropout": lambda lib: lib.nn.LSTM(3, 4, 2, dropout=1.5),
    "bias": lambda lib: lib.nn.LSTM(3, 4, bias=2),
    "projection of a GRU": lambda lib: lib.nn.GRU(3, 4, proj_size=2),
    "wide projection": lambda lib: lib.nn.LSTM(3, 4, proj_size=4),
    "negative projection": lambda lib: lib.nn.LSTM(3, 4, proj_size=-1),
    "nonlinearity": lambda lib: lib.nn.RNN(3, 4, nonlinearity="sin"),
    "input size": lambda lib: lib.nn.LSTM(3, 4)(lib.zeros(5, 2, 4)),
    "input axes": lambda lib: lib.nn.LSTM(3, 4)(lib.zeros(5, 2, 4, 3)),
    "input dtype": lambda lib: lib.nn.GRU(3, 4)(lib.zeros(5, 2, 3, dtype=lib.float64)),
    "hidden size": lambda lib: lib.nn.GRU(3, 4)(lib.zeros(5, 2, 3), lib.zeros(1, 2, 5)),
    "hidden batch": lambda lib: lib.nn.GRU(3, 4)(lib.zeros(5, 2, 3), lib.zeros(1, 3, 4)),
    "hidden axes": lambda lib: lib.nn.RNN(3, 4)(lib.zeros(5, 2, 3), lib.zeros(2, 4)),
    "hidden of one sequence": lambda lib: lib.nn.RNN(3, 4)(lib.zeros(5, 3), lib.zeros(1, 1, 4)),
    "cells": lambda lib: lib.nn.LSTM(3, 4)(lib.zeros(5, 2, 3), (lib.zeros(1, 2, 4), lib.zeros(1, 2, 5))),
    "no steps": lambda lib: lib.nn.LSTM(3, 4)(lib.zeros(0, 2, 3)),
    "cell input": lambda lib: lib.nn.GRUCell(3, 4)(lib.zeros(2, 5)),
    "cell axes": lambda lib: lib.nn.GRUCell(3, 4)(lib.zeros(1, 2, 3)),
    "cell hidden": lambda lib: lib.nn.RNNCell(3, 4)(lib.zeros(2, 3), lib.zeros(2, 5)),
    "cell batch": lambda lib: lib.nn.LSTMCell(3, 4)(lib.zeros(2, 3), (lib.zeros(3, 4), lib.zeros(3, 4))),
    "lengths grow": lambda lib: lib.nn.utils.rnn.pack_padded_sequence(lib.zeros(5, 3, 2), [2, 5, 1]),
    "length 0": lambda lib: lib.nn.utils.rnn.pack_padded_sequence(lib.zeros(5, 3, 2), [5, 2, 0]),
    "too few lengths": lambda lib: lib.nn.utils.rnn.pack_padded_sequence(lib.zeros(5, 3, 2), [5, 2]),
    "nothing to pack": lambda lib: lib.nn.utils.rnn.pack_padded_sequence(lib.zeros(5, 0, 2), []),
    "total length": lambda lib: lib.nn.utils.rnn.pad_packed_sequence(
        lib.nn.utils.rnn.pack_padded_sequence(lib.zeros(5, 3, 2), [5, 2, 1]), total_length=4
    ),
    "no sequences": lambda lib: lib.nn.utils.rnn.pad_sequence([]),
    "padding side": lambda lib: lib.nn.utils.rnn.pad_sequence([lib.zeros(2)], padding_side="top"),
    "packed input size": lambda lib: lib.nn.LSTM(3, 4)(
        lib.nn.utils.rnn.pack_padded_sequence(lib.zeros(5, 3, 2), [5, 2, 1])
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    with pytest.raises((ValueError, RuntimeError, TypeError)) as mine:
        ERRORS[name](cr)
    assert name != "cell batch" or "Input batch size [2] doesn't match hidden0 batch size [3]" in str(mine.value)
    if torch is None:
        return
    with pytest.raises((ValueError, RuntimeError, TypeError)) as theirs:
        ERRORS[name](torch)
    assert kinds(mine.value) & kinds(theirs.value), (mine.value, theirs.value)


def test_lengths_beyond_the_input() -> None:
    with pytest.raises(RuntimeError, match="at most 5 steps, the input's, but got 6"):  # PyTorch reads other sequences
        rnn.pack_padded_sequence(cr.zeros(5, 3, 2), [6, 2, 1])


def test_batch_sizes_of_the_op() -> None:
    weights, x = [cr.zeros(8, 3), cr.zeros(8, 2)], cr.zeros(5, 3)
    for sizes in ([2, 3], [5, 0], [4], [2, -1, 4]):
        with pytest.raises((ValueError, RuntimeError)):
            cr._core._recurrent("LSTM", x, weights, batch_sizes=cr.tensor(sizes))
    with pytest.raises(RuntimeError):
        cr._core._recurrent("LSTM", x, weights, batch_sizes=cr.tensor([2.0, 3.0]))
    with pytest.raises(ValueError):
        cr._core._recurrent("LSTM", x, weights)


def test_dropout() -> None:
    """Between layers, in training; one seed gives the same bits."""
    with pytest.warns(UserWarning, match="num_layers"):
        nn.LSTM(3, 4, dropout=0.5)
    net = nn.GRU(3, 4, 2, dropout=0.5)
    x = array(5, 2, 3, dtype="float32")[0]
    results = []
    for seed in (1, 1, 2):
        cr.manual_seed(seed)
        results.append(net(x)[0].tolist())
    assert results[0] == results[1] != results[2]
    plain = net.eval()(x)[0].tolist()
    assert plain == net(x)[0].tolist() != results[0]
    net.dropout = 1.0
    out, h = net.train()(x)
    silent = nn.GRU(4, 4)
    silent.load_state_dict({k.replace("l1", "l0"): v for k, v in net.state_dict().items() if "l1" in k})
    assert out.tolist() == silent(cr.zeros(5, 2, 4))[0].tolist()
    assert h[0].tolist() == net.eval()(x)[1][0].tolist()  # nothing is dropped in front of the first layer


def test_bits_for_any_number_of_threads() -> None:
    """One step of training, values and gradients, on 1 and on 2 threads."""
    before = cr.get_num_threads()
    seen = []
    for threads in (1, 2):
        cr.set_num_threads(threads)
        cr.manual_seed(0)
        for kind in (nn.RNN, nn.GRU, nn.LSTM):
            net: Any = kind(37, 64, 2, bidirectional=True)
            y, _ = net(cr.randn(9, 33, 37))
            y.square().sum().backward()
            seen.append([y.tolist(), *(p.grad.tolist() for p in net.parameters())])
    cr.set_num_threads(before)
    assert seen[:3] == seen[3:]


@needs_torch
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("float16", 0.02), ("bfloat16", 0.1)])
def test_dtypes(dtype: str, tolerance: float) -> None:
    for kind in ("RNN", "GRU", "LSTM"):
        mine, theirs = pair(kind, 3, 4, 2)
        x = array(5, 2, 3)
        y, _ = mine.to(getattr(cr, dtype))(x[0].to(getattr(cr, dtype)))
        assert y.dtype is getattr(cr, dtype)
        alike(y.double(), theirs(x[1])[0], tolerance)


def test_second_gradients_and_modules() -> None:
    net = nn.LSTM(2, 3, 2, bidirectional=True, proj_size=2).double()
    parameters = list(net.parameters())
    x = array(3, 2, 2)[0].requires_grad_()
    y, _ = net(x)
    (g,) = cr.autograd.grad(y.square().sum(), x, create_graph=True)
    assert g is not None
    g.square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in parameters)
    assert net.all_weights[0][0] is net.weight_ih_l0 and len(net.all_weights) == 4
    net.flatten_parameters()
    bound = 1 / math.sqrt(3)
    assert all(p.abs().max() <= bound for p in parameters)
    assert max(p.abs().max().item() for p in parameters) > bound / 2


def test_empty_batch() -> None:
    for kind in (nn.RNN, nn.GRU, nn.LSTM):
        y, _ = kind(3, 4)(cr.zeros(5, 0, 3))
        assert y.shape == (5, 0, 4)
