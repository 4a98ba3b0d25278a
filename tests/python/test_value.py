"""Value against PyTorch in double and against micrograd's published numbers; IEEE's edges, depth,
memory, threads; networks; ValueBatch; pictures."""

from __future__ import annotations

import copy
import gc
import math
import pickle
import random
import sys
import threading
from collections.abc import Callable
from typing import Any

import chainrule as cr
import pytest
from chainrule import MLP, Layer, Neuron, Value, ValueBatch
from hypothesis import given
from hypothesis import strategies as st

try:
    import torch
except ImportError:
    torch = None

needs_torch = pytest.mark.skipif(torch is None, reason="PyTorch is not installed (make oracle)")
DEVICES = ["cpu", "ref"]

UNARY: dict[str, Callable[[Any], Any]] = {
    "neg": lambda x: -x,
    "relu": lambda x: x.relu(),
    "tanh": lambda x: x.tanh(),
    "exp": lambda x: x.exp(),
    "log": lambda x: x.log(),
    "sigmoid": lambda x: x.sigmoid(),
    "square": lambda x: x**2,
    "cube": lambda x: x**3,
    "inverse": lambda x: x**-1,
    "root": lambda x: x**0.25,
    "to the 0": lambda x: x**0,
    "x + 2": lambda x: x + 2,
    "2 - x": lambda x: 2 - x,
    "3.5 * x": lambda x: 3.5 * x,
    "1 / x": lambda x: 1 / x,
    "x / 3": lambda x: x / 3,
    "2 ** x": lambda x: 2**x,
    "0 ** x": lambda x: 0**x,
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "**": lambda a, b: a**b,
}
EDGES = [0.0, -0.0, 1.0, -1.0, 2.0, 0.5, -2.5, 5e-324, 1e308, -1e308, math.inf, -math.inf, math.nan]


def close(a: float, b: float, ulps: float = 4, least: float = 0) -> bool:
    """Equal as IEEE's numbers go, or a few units in the last place apart (or `least`, for
    gradients: 1 - tanh(x)^2 cancels)."""
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return a == b or (
        math.isfinite(a) and math.isfinite(b) and abs(a - b) <= max(least, ulps * max(math.ulp(a), math.ulp(b)))
    )


def with_torch(f: Callable[..., Any], *x: float) -> tuple[float, list[float]]:
    inputs = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in x]
    y = f(*inputs)
    y.backward()
    return y.item(), [float(t.grad) for t in inputs]


def with_value(f: Callable[..., Any], *x: float) -> tuple[float, list[float]]:
    inputs = [Value(v) for v in x]
    y = f(*inputs)
    y.backward()
    return y.data, [v.grad for v in inputs]


# ---- arithmetic


@needs_torch
@pytest.mark.parametrize("name", UNARY)
def test_unary_as_torch(name: str) -> None:
    for x in [*EDGES, 0.3, -0.7, 12.5, -40.0]:
        ours, theirs = with_value(UNARY[name], x), with_torch(UNARY[name], x)
        assert close(ours[0], theirs[0]), f"{name} of {x}: {ours[0]!r}, PyTorch {theirs[0]!r}"
        assert close(ours[1][0], theirs[1][0], 8, 1e-15), (
            f"gradient of {name} at {x}: {ours[1][0]!r}, PyTorch {theirs[1][0]!r}"
        )


@needs_torch
@pytest.mark.parametrize("name", BINARY)
def test_binary_as_torch(name: str) -> None:
    numbers = [*EDGES, 0.3, -0.7, 3.0]
    for a in numbers:
        for b in numbers:
            ours, theirs = with_value(BINARY[name], a, b), with_torch(BINARY[name], a, b)
            assert close(ours[0], theirs[0]), f"{a} {name} {b}: {ours[0]!r}, PyTorch {theirs[0]!r}"
            for which, g, t in zip("ab", ours[1], theirs[1], strict=True):
                if math.isinf(a) or math.isinf(b) or abs(a) > 1e300 or abs(b) > 1e300 or abs(b) < 1e-300:
                    continue  # the same formula in another order meets infinity elsewhere
                assert close(g, t, 8, 1e-15), f"{a} {name} {b}, gradient of {which}: {g!r}, PyTorch {t!r}"


STEPS: list[Callable[[Any, Any], Any]] = [
    lambda a, b: (a + b).tanh(),
    lambda a, b: a * b.sigmoid(),
    lambda a, b: (a - b) / 3,
    lambda a, b: (a.tanh() * 2).exp().log() + b.tanh(),
    lambda a, b: (a.relu() + 0.5).tanh() - b * 0.1,
    lambda a, b: (2 - a.sigmoid()) ** 3 / (b**2 + 1.5),
    lambda a, b: (a**2 + 1) ** -0.5 * b.tanh(),
]


def expression(make: Callable[[float], Any], seed: int, nodes: int) -> tuple[Any, list[Any]]:
    """A graph of so many nodes that stays within reason, the same for every engine."""
    r = random.Random(seed)
    leaves = [make(r.uniform(-1, 1)) for _ in range(5)]
    all_of_them = list(leaves)
    total = leaves[0]
    while len(all_of_them) < nodes:
        a, b = r.choice(all_of_them), r.choice(all_of_them[-20:])
        y = r.choice(STEPS)(a, b)
        all_of_them.append(y)
        total = total + y
    return total, leaves


@needs_torch
@pytest.mark.parametrize("seed", range(8))
def test_random_expressions_as_torch(seed: int) -> None:
    ours, leaves = expression(Value, seed, 1000)
    theirs, inputs = expression(lambda x: torch.tensor(x, dtype=torch.float64, requires_grad=True), seed, 1000)
    ours.backward()
    theirs.backward()
    assert ours.data == pytest.approx(theirs.item(), rel=1e-13)
    for v, t in zip(leaves, inputs, strict=True):
        assert v.grad == pytest.approx(float(t.grad), rel=1e-11), f"seed {seed}"


def test_the_example_that_micrograd_publishes() -> None:
    a, b = Value(-4.0), Value(2.0)
    c = a + b
    d = a * b + b**3
    c += c + 1
    c += 1 + c + (-a)
    d += d * 2 + (b + a).relu()
    d += 3 * d + (b - a).relu()
    e = c - d
    f = e**2
    g = f / 2.0
    g += 10.0 / f
    assert f"{g.data:.4f}" == "24.7041"
    g.backward()
    assert (f"{a.grad:.4f}", f"{b.grad:.4f}") == ("138.8338", "645.5773")


@given(st.floats(), st.floats())
def test_ieee(x: float, y: float) -> None:
    def same(a: float, b: float) -> bool:
        return a == b and math.copysign(1, a) == math.copysign(1, b) or math.isnan(a) and math.isnan(b)

    a, b = Value(x), Value(y)
    assert same(a.data, x) and same((-a).data, -x)
    assert same((a + b).data, x + y) and same((a - b).data, x - y) and same((a * b).data, x * y)
    if y:
        assert same((a / b).data, x / y)
    elif x and x == x:
        assert math.isinf((a / b).data)
    assert same(a.relu().data, 0.0 if x < 0 else x)
    for f in (a + b, a * b, a - b, a / b, a**b, a.tanh(), a.exp(), a.log(), a.sigmoid(), a.relu(), -a):
        f.backward()  # nothing raises, whatever the numbers
    assert a.tanh().data != a.tanh().data or -1 <= a.tanh().data <= 1


def test_ieee_results_that_python_raises_for() -> None:
    assert (Value(0) ** -1).data == math.inf
    assert math.isnan((Value(-8) ** (1 / 3)).data)
    assert math.isnan(Value(-1).log().data) and Value(0).log().data == -math.inf
    assert (Value(1) / 0).data == math.inf
    assert Value(1000).exp().data == math.inf


def test_anomaly_mode_names_the_value() -> None:
    x = Value(-1)
    x.label = "weight"
    with cr.autograd.detect_anomaly():
        with pytest.raises(RuntimeError, match=r"\[log\] anomaly: made nan from Value 'weight' \(data=-1\)"):
            x.log()
        with pytest.raises(RuntimeError, match=r"\[pow\] anomaly: made inf"):
            Value(0) ** -1
        root = Value(0) ** 0.5
        with pytest.raises(RuntimeError, match=r"backward made the gradient of"):
            root.backward()
    assert math.isnan(x.log().data)


# ---- the object


def test_properties() -> None:
    a = Value(2)
    assert repr(a) == "Value(data=2.0, grad=0.0, device=cpu)"
    assert (a.data, a.grad, a._op, a._prev, a.label, str(a.device)) == (2.0, 0.0, "", set(), "", "cpu")
    y = a * 3
    y.label = "y"
    (b,) = y._prev - {a}
    assert b.data == 3 and y._op == "*" and y.label == "y"
    assert a in y._prev and len((a + a)._prev) == 1
    (again,) = {v for v in y._prev if v == a}
    again.label = "the same node"
    assert a.label == "the same node" and hash(a) == hash(again)
    assert [(a**n)._op for n in (2, -1, 0.5)] == ["**2", "**-1", "**0.5"] and (a**a)._op == "**"
    a.data += 1
    a.grad = 5
    assert (a.data, a.grad) == (3.0, 5.0)
    a.zero_grad()
    assert a.grad == 0
    assert a != Value(3) and a == a and len({a, Value(3)}) == 2
    with pytest.raises(TypeError):
        a < a  # type: ignore[operator]  # noqa: B015
    with pytest.raises(AttributeError):
        a.weight = 1  # type: ignore[attr-defined]


def test_label() -> None:
    """As in micrograd's notebooks."""
    a = Value(2.0, label="a")
    assert a.label == "a" and Value(1.0, None, label="").label == "" and (a * 2).label == ""
    assert ValueBatch([1.0, 2.0], label="batch").label == "batch"
    with pytest.raises(TypeError, match="label must be str, not int"):
        Value(2.0, label=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        Value(2.0, None, "a")  # type: ignore[call-arg]


def test_backward_twice_adds_one_more_gradient() -> None:
    x = Value(3)
    h = x * x
    y = h * x
    for i in (1, 2, 3):
        y.backward()
        assert (x.grad, h.grad, y.grad) == (27 * i, 3, 1)


@pytest.mark.parametrize("bad", ["1", None, 1j, [1], (1,), {}, object(), b"1", cr.tensor(1.0)])
def test_what_is_no_number(bad: Any) -> None:
    v = Value(1)
    for f in (
        lambda: Value(bad),
        lambda: v + bad,
        lambda: bad * v,
        lambda: v - bad,
        lambda: v / bad,
        lambda: v**bad,
        lambda: bad**v,
        lambda: setattr(v, "data", bad),
        lambda: setattr(v, "grad", bad),
    ):
        with pytest.raises(TypeError):
            f()
    assert v.data == 1


def test_other_bad_input() -> None:
    v = Value(1)
    with pytest.raises(TypeError):
        Value()  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        v.label = 3  # type: ignore[assignment]
    with pytest.raises(TypeError):
        v.to(3.5)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        pow(v, 2, 3)  # type: ignore[misc]
    with pytest.raises(TypeError):
        assert v < Value(2)  # type: ignore[operator]
    with pytest.raises(OverflowError):
        Value(10**400)
    assert Value(10**30).data == 1e30
    with pytest.raises(TypeError):
        del v.data


def test_numbers_of_numpy() -> None:
    numpy = pytest.importorskip("numpy")
    v = Value(numpy.float32(0.5))
    assert (
        (v + numpy.int64(2)).data == 2.5 and (numpy.float64(2) * v).data == 1.0 and (-numpy.int64(3) * v).data == -1.5
    )


def test_devices() -> None:
    a, b = Value(2, device="ref"), Value(3)
    assert str((a * 2 + 1).device) == "ref" and repr(a) == "Value(data=2.0, grad=0.0, device=ref)"
    for f in BINARY.values():
        with pytest.raises(ValueError, match="one Value is on ref, the other on cpu"):
            f(a, b)
    y = a.cpu() * b
    y.backward()
    assert (a.grad, b.grad) == (3, 2) and a.to("ref") == a and str(y.device) == "cpu"
    if not cr.Device.is_cuda_available():
        for make in (cr.Device.cuda, a.cuda, lambda: Value(1, "cuda")):
            with pytest.raises(RuntimeError, match="(?i)cuda"):
                make()


def test_copies() -> None:
    a = Value(2.5, "ref")
    for other in (copy.copy(a), copy.deepcopy(a), pickle.loads(pickle.dumps(a))):
        assert other != a and repr(other) == repr(a)
    with pytest.raises(RuntimeError, match="made, not computed"):
        copy.copy(a * 2)
    model = copy.deepcopy(MLP(2, [3, 1]))
    assert len(model.parameters()) == 13


# ---- depth, memory, threads


def test_deep_and_wide() -> None:
    x = Value(1)
    y = x
    for _ in range(1_000_000):
        y = y + x
    y.backward()
    assert y.data == x.grad == 1_000_001
    del y
    leaves = [Value(i) for i in range(100_000)]
    total = sum(leaves)
    assert isinstance(total, Value)
    total.backward()
    assert total.data == sum(range(100_000)) and {v.grad for v in leaves} == {1.0}


def resident() -> int:
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * 4096


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_is_used_again() -> None:
    def work() -> None:
        y = x = Value(1.0)
        for _ in range(200_000):
            y = y * x
        y.label = "a label is freed too" * 50
        y.backward()

    for _ in range(3):
        work()
    gc.collect()
    before = resident()
    for _ in range(20):
        work()
    assert resident() - before < 8 << 20, "20 graphs of 12 MB each were not given back"


def test_threads_share_values() -> None:
    shared = [Value(i / 8) for i in range(8)]
    wrong: list[object] = []

    def work(k: int) -> None:
        try:
            for _ in range(300):
                y = sum((v * v for v in shared), Value(k)).tanh()
                y.backward()
                mine = Value(k)
                z = mine * mine + mine
                z.backward()
                if mine.grad != 2 * k + 1:
                    wrong.append(mine)
        except RuntimeError as problem:  # an error would do as well; a crash would not
            wrong.append(problem)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    old = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    sys.setswitchinterval(old)
    assert not wrong


# ---- networks


def test_reprs() -> None:
    assert repr(Neuron(3)) == "ReLUNeuron(3)" and repr(Neuron(2, nonlin=False)) == "LinearNeuron(2)"
    assert repr(Layer(2, 2)) == "Layer of [ReLUNeuron(2), ReLUNeuron(2)]"
    assert repr(MLP(2, [2, 1])) == "MLP of [Layer of [ReLUNeuron(2), ReLUNeuron(2)], Layer of [LinearNeuron(2)]]"


def shape_of(v: Value) -> Any:
    """The graph as nested tuples."""
    return v._op, v.data, sorted((shape_of(p) for p in v._prev), key=repr)


def test_a_neuron_records_the_graph_of_the_operators() -> None:
    random.seed(3)
    n = Neuron(4)
    x: list[Value | float] = [Value(0.5), Value(-1.5), 2.0, 3]
    by_hand = sum((w * v for w, v in zip(n.w, x, strict=True)), n.b).relu()
    assert shape_of(n(x)) == shape_of(by_hand)
    assert n(x[:2]).data == (n.b + n.w[0] * 0.5 + n.w[1] * -1.5).relu().data, "as zip() pairs them"
    with pytest.raises(TypeError):
        n(["1", "2", "3", "4"])  # type: ignore[list-item]
    with pytest.raises(TypeError):
        n(5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="one Value is on"):
        n([Value(1, "ref")] * 4)
    many = Neuron(1000)
    assert many([1.0] * 1000)._prev


def moons(n: int) -> tuple[list[list[float]], list[int]]:
    r = random.Random(1)
    X, y = [], []
    for i in range(n):
        t, label = math.pi * r.random(), i % 2
        X.append(
            [1 - math.cos(t) if label else math.cos(t), (0.5 - math.sin(t) if label else math.sin(t)) + r.gauss(0, 0.1)]
        )
        y.append(2 * label - 1)
    return X, y


def hinge(model: Any, X: list[list[float]], y: list[int], wrap: Callable[[float], Any]) -> Any:
    scores = [model([wrap(v) for v in row]) for row in X]
    losses = [(1 + -label * score).relu() for label, score in zip(y, scores, strict=True)]
    return sum(losses) * (1.0 / len(losses)) + 1e-4 * sum(p * p for p in model.parameters())


def train(model: Any, wrap: Callable[[float], Any], steps: int) -> list[float]:
    X, y = moons(40)
    losses = []
    for k in range(steps):
        loss = hinge(model, X, y, wrap)
        model.zero_grad()
        loss.backward()
        for p in model.parameters():
            p.data -= (1.0 - 0.9 * k / 100) * p.grad
        losses.append(loss.data)
    return losses


def test_moons_as_micrograd() -> None:
    nn = pytest.importorskip("micrograd.nn", reason="micrograd is not installed (make peers)")
    from micrograd.engine import Value as Theirs

    random.seed(1337)
    ours = train(MLP(2, [8, 8, 1]), Value, 5)
    random.seed(1337)
    theirs = train(nn.MLP(2, [8, 8, 1]), Theirs, 5)
    assert ours == pytest.approx(theirs, rel=1e-9)


def test_moons_are_learned() -> None:
    random.seed(1337)
    losses = train(MLP(2, [8, 8, 1], device="ref"), lambda x: Value(x, "ref"), 40)
    assert losses[-1] < 0.5 * losses[0]


# ---- ValueBatch


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_batch_as_a_loop(name: str, device: str) -> None:
    a, b = [0.5, -1.25, 2.0, 3.75, 0.1], [1.5, 0.75, -2.0, 0.3, 4.0]
    f = UNARY.get(name) or BINARY[name]
    count = 1 if name in UNARY else 2
    batches, values = (
        [ValueBatch(x, device) for x in (a, b)[:count]],
        [[Value(x) for x in column] for column in (a, b)[:count]],
    )
    y, loop = f(*batches), [f(*row) for row in zip(*values, strict=True)]
    for _ in range(2):
        y.backward()
        for v in loop:
            v.backward()
    assert str(y.device) == device and y._op == loop[0]._op
    assert y.data == pytest.approx([v.data for v in loop], rel=1e-12, nan_ok=True)
    assert y.grad == [1.0] * 5
    for batch, column in zip(batches, values, strict=True):
        assert batch.grad == pytest.approx([v.grad for v in column], rel=1e-12, nan_ok=True)


@pytest.mark.parametrize("device", DEVICES)
def test_batch(device: str) -> None:
    x = ValueBatch([1, 2.5], device=device)
    assert repr(x) == f"ValueBatch(data=[1.0, 2.5], grad=[0.0, 0.0], device={device})" and len(x) == 2
    h = x * x
    y = h * x
    for i in (1, 2):
        y.backward()
        assert x.grad == [3.0 * i, 18.75 * i] and h.grad == [1.0, 2.5]
    assert h._prev == (x, x) and h._op == "*"
    x.zero_grad()
    assert x.grad == [0.0, 0.0]
    x.grad = [1, 2]
    x.data = [3, 4]
    assert x.data == [3.0, 4.0] and x.grad == [1.0, 2.0]
    other = ValueBatch([1, 1], device="cpu" if device == "ref" else "ref")
    with pytest.raises(ValueError, match="move one with to"):
        x + other
    assert (x + other.to(device)).data == [4.0, 5.0]
    with pytest.raises(ValueError, match="2 Values and 3"):
        x + ValueBatch([1, 2, 3], device)
    for bad in ("12", None, [[1.0], [2.0]], [None]):
        with pytest.raises((TypeError, ValueError)):
            ValueBatch(bad)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        x + "1"  # type: ignore[operator]


# ---- programs
