"""Threads that share tensors and modules; handles that are replaced while another thread computes; subinterpreters."""

from __future__ import annotations

import threading
from collections.abc import Callable

import chainrule as cr
import pytest
from chainrule import nn
from test_process import runs

THREADS = 8


def together(work: Callable[[int], None]) -> None:
    """Runs work(0) ... work(7), all begun at once; fails with what one of them raised."""
    gate, raised = threading.Barrier(THREADS), list[BaseException]()

    def run(me: int) -> None:
        gate.wait()
        try:
            work(me)
        except BaseException as e:
            raised.append(e)

    threads = [threading.Thread(target=run, args=(me,)) for me in range(THREADS)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if raised:
        raise raised[0]


def whole_numbers(*shape: int) -> cr.Tensor:
    """Sums of them are the same in any order."""
    return cr.randint(-2, 3, shape).to(cr.float64)


def test_one_module_in_eight_threads() -> None:
    cr.manual_seed(1)
    net = nn.Sequential(nn.Linear(7, 5), nn.ReLU(), nn.Linear(5, 3)).double()
    for p in net.parameters():
        p.data = whole_numbers(*p.shape)
    batches = [whole_numbers(11, 7) for _ in range(THREADS)]

    def gradients(x: cr.Tensor) -> list[cr.Tensor]:
        return [g for g in cr.autograd.grad(net(x).sum(), list(net.parameters())) if g is not None]

    wanted = [gradients(x) for x in batches]
    rounds = 25

    def work(me: int) -> None:
        for _ in range(rounds):
            assert all(cr.equal(a, b) for a, b in zip(gradients(batches[me]), wanted[me], strict=True))
            net(batches[me]).sum().backward()

    together(work)
    for i, p in enumerate(net.parameters()):
        total = sum(w[i].numpy() for w in wanted) * rounds
        assert p.grad is not None and (p.grad.numpy() == total).all()


def test_one_graph_in_eight_threads() -> None:
    x = cr.ones(1000, dtype=cr.float64, requires_grad=True)
    h, seen = (x * x + x) * 2, list[int]()

    class Twice(cr.autograd.Function):
        @staticmethod
        def forward(ctx: object, a: cr.Tensor) -> cr.Tensor:
            return a * 2

        @staticmethod
        def backward(ctx: object, g: cr.Tensor) -> cr.Tensor:
            return g * 2

    y = Twice.apply(h)

    def work(me: int) -> None:
        for _ in range(20):
            hook = x.register_hook(lambda g: seen.append(me))
            (y * (me + 1)).sum().backward(retain_graph=True)
            hook.remove()

    together(work)
    assert x.grad is not None and (x.grad == 12 * 20 * 36).all()
    assert len(seen) >= 20 * THREADS


# One thread changes the tensors while others compute with them, without the GIL.
REPLACED = {
    "data": "x.data = cr.ones(N)",
    "detach_": "x.detach_()",
    "grad": "x.grad = cr.ones(N) if i % 2 else None",
    "module": "net.double() if i % 2 else net.float()",
    "requires_grad": "x.requires_grad_(i % 2 == 0)",
}
USED = {
    "data": (
        "x + x; -x; x.exp(); x.add_(0); x[index]; cr.einsum('i,i->', x, x); cr.asarray(x, copy=True); cr.tensor(x);"
        " x.max(x); copy.deepcopy(x)"
    ),
    "detach_": "x * 2; x.tolist(); pickle.dumps(x); x.sum(); x.max(x)",
    "grad": "(x * 2).sum().backward(); x.grad; copy.deepcopy(x)",
    "module": "net(y) if (y := cr.ones(N // 64, 64, dtype=net.weight.dtype)) is not None else 0",
    "requires_grad": "(x * 2 + w).sum().backward()",
}


@pytest.mark.parametrize("what", REPLACED)
def test_handles_replaced_while_others_compute(what: str) -> None:
    """Python may see either of the two tensors, or an error about them; the process goes on."""
    program = f"""
import copy, pickle, sys, threading
import chainrule as cr
N = 1 << 16
sys.setswitchinterval(1e-5)
x, w = cr.ones(N, requires_grad={what in ("grad", "requires_grad", "detach_")}), cr.ones(N, requires_grad=True)
net, index = cr.nn.Linear(64, 64), cr.arange(0, N, dtype=cr.int64)
stop = False

def use():
    while not stop:
        try:
            {USED[what]}
        except (RuntimeError, TypeError) as e:
            assert "Segmentation" not in str(e)

threads = [threading.Thread(target=use) for _ in range(3)]
for t in threads: t.start()
for i in range(3000):
    {REPLACED[what]}
stop = True
for t in threads: t.join()
print("went on")
"""
    assert runs(program) == "went on"


def test_keys_and_values_that_replace_the_handle() -> None:
    """Python code inside one call."""
    x = cr.ones(5, 100)

    class Key:
        def __index__(self) -> int:
            x.data = cr.zeros(5, 100)
            return 1

    class Value:
        def __float__(self) -> float:
            x.data = cr.zeros(5, 100)
            return 3.0

    for _ in range(20):
        assert x[Key()].shape == (100,)
        x[0] = Value()
        x[Key(), 1:] = 2.0
    assert x.sum().item() == 0


@pytest.mark.parametrize("first", ["main", "sub"])
def test_subinterpreters(first: str) -> None:
    """They are told so, and leave the main one as it is."""
    program = f"""
import sys, warnings
warnings.simplefilter("ignore")
try:
    import _xxsubinterpreters as interpreters
    options = {{"isolated": False}}
except ImportError:
    import _interpreters as interpreters
    options = {{}}
if {first == "main"}:
    import chainrule
    repr(chainrule.ones(1))
sub = interpreters.create(**options)
text = "import sys; sys.path[:] = " + repr(sys.path) + "; import chainrule"
try:
    failure = interpreters.run_string(sub, text)
except Exception as e:
    failure = e
interpreters.destroy(sub)
assert "subinterpreter" in str(failure), failure
import chainrule
print(chainrule.ones(2), chainrule.Device("cpu"))
for name in [name for name in sys.modules if name.startswith("chainrule")]:
    del sys.modules[name]
import chainrule as again
print(again.Tensor is chainrule.Tensor, again.ones(1))
"""
    assert runs(program).splitlines() == ["tensor([1., 1.]) cpu", "True tensor([1.])"]


@pytest.mark.parametrize("chosen", [False, True])
def test_gradients_share_no_memory(chosen: bool) -> None:
    x, y, g = cr.ones(3, requires_grad=True), cr.ones(3, requires_grad=True), cr.ones(3)
    for k in range(1, 4):
        (x + y).backward(g, inputs=[x, y] if chosen else None)
        assert x.grad is not None and y.grad is not None
        x.grad += 10
        assert (y.grad == k).all() and (g == 1).all() and (x.grad == 11 if k == 1 else x.grad > 11).all()
        x.grad -= 10
        assert (x.grad == k).all()


def test_backward_to_inputs_adds() -> None:
    x, w = cr.tensor([1.0, 2.0], requires_grad=True), cr.tensor([3.0, 4.0], requires_grad=True)
    h = x * w
    for k in range(1, 4):
        h.square().sum().backward(inputs=[x, h], retain_graph=True)
        assert x.grad is not None and x.grad.tolist() == [18 * k, 64 * k]
        assert h.grad is not None and h.grad.tolist() == [6 * k, 16 * k]
        assert w.grad is None
    seen = x.grad
    h.sum().backward(inputs=[x, x])
    assert seen is not None and x.grad is seen and seen.tolist() == [18 * 3 + 3, 64 * 3 + 4]
