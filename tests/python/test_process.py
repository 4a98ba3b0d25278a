"""The library in a process: threads, fork, Ctrl-C, the end of the interpreter, and leaks."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import chainrule as cr
import pytest
from conftest import BUILD

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(BUILD / "python")}


def runs(program: str, *options: str, **environment: str) -> str:
    """Output of a Python program that must end well and say nothing on stderr."""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", *options, "-c", program],
        env={**ENVIRONMENT, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0 and not done.stderr, f"exit {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout.strip()


def train(seed: int, steps: int = 30) -> list[float]:
    """A small network on numbers that depend only on the seed."""
    g = cr.Generator().manual_seed(seed)
    x, w = cr.randn(17, 5, generator=g), cr.randn(5, 3, generator=g).requires_grad_()
    losses = []
    for _ in range(steps):
        loss = ((x @ w).tanh() - x[:, :3]).square().mean()
        loss.backward()
        assert w.grad is not None
        w = (w - 0.1 * w.grad).detach().requires_grad_()
        losses.append(loss.item())
    return losses


def test_eight_threads() -> None:
    """Each has its own graph, error and gradient mode, and computes what it would alone."""
    alone = {seed: train(seed) for seed in range(8)}
    found: dict[int, object] = {}

    def work(seed: int) -> None:
        try:
            if seed % 2:
                cr._core._set_grad_enabled(True)
            with pytest.raises(RuntimeError, match="matmul"):
                cr.zeros(2, 3 + seed) @ cr.zeros(2, 3)
            found[seed] = train(seed)
            big = cr.ones(300, 300)
            assert (big @ big).sum().item() == 300.0**3
        except BaseException as e:
            found[seed] = e

    threads = [threading.Thread(target=work, args=(seed,)) for seed in alone]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == alone


def test_threads_share_a_tensor() -> None:
    x = cr.ones(1000, requires_grad=True)
    kept: list[float] = []

    def work() -> None:
        for _ in range(50):
            y = (x * 2)[10:20].reshape(2, 5)
            kept.append(y.sum().item())

    threads = [threading.Thread(target=work) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert kept == [20.0] * 400


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_fork_after_parallel_work() -> None:
    """The child has no worker threads and must get along without them, or with new ones."""
    program = """
import os, chainrule as cr
x = cr.ones(600, 600)
want = (x @ x).sum().item()
w = cr.ones(600, requires_grad=True)
for i in range(3):
    child = os.fork()
    if child == 0:
        y = (x @ x).sum().item()
        (w * 2).sum().backward()
        os._exit(0 if y == want and w.grad[0].item() == 2 and (x + 1).sum().item() == 720000 else 1)
    assert (x @ x).sum().item() == want
    assert os.waitpid(child, 0)[1] == 0, "the child failed"
print("well")
"""
    assert runs(program) == "well"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_fork_while_another_thread_adds_to_a_gradient() -> None:
    program = """
import os, signal, threading, chainrule as cr
leaf, stop = cr.ones(1_000_000, requires_grad=True), []
def back():
    (leaf * 2).sum().backward()
def loop():
    while not stop:
        back()
thread = threading.Thread(target=loop)
thread.start()
for i in range(20):
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        leaf.grad = None
        back()
        os._exit(0 if leaf.grad[0].item() == 2 else 1)
    assert os.waitpid(child, 0)[1] == 0, "the child hung or failed"
stop.append(1)
thread.join()
print("well")
"""
    assert runs(program) == "well"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_fork_while_another_thread_reads_a_token_file(tmp_path: Path) -> None:
    program = f"""
import os, signal, threading, chainrule as cr
path = {str(tmp_path / "t.tok")!r}
cr.data.TokenFile.save(path, list(range(100)), 100)
file = cr.data.TokenFile(path, 2, 4, shuffle=False)
held, ended = threading.Event(), threading.Event()
def hold():
    with file._lock:
        held.set()
        ended.wait()
thread = threading.Thread(target=hold)
thread.start()
held.wait()
child = os.fork()
if child == 0:
    signal.alarm(20)
    os._exit(0 if file.next()[0][0].tolist() == [0, 1, 2, 3] else 1)
assert os.waitpid(child, 0)[1] == 0, "the child hung or failed"
ended.set()
thread.join()
print("well")
"""
    assert runs(program) == "well"


SHUTDOWN = {
    "module globals": "x = cr.ones(3, requires_grad=True); y = (x * 2).sum(); y.backward(); g = x.grad",
    "cycles": (
        "class A: pass\na = A(); a.a = a; a.t = cr.ones(3, requires_grad=True); a.u = a.t * 2; b = [a.u]; b.append(b)"
    ),
    "in sys": "import sys; sys.kept = cr.ones(3); sys.modules['t'] = cr.ones(3)",
    "a cache": (
        "import builtins; builtins.kept = [cr.ones(3)[1:], cr.float32, cr.Device('cpu'), cr.Generator(),"
        " cr.ones(3).shape, cr.max(cr.ones(3), 0)]"
    ),
    "__del__": (
        "class A:\n    def __init__(self): self.t = cr.ones(3, requires_grad=True)\n    def __del__(self): (self.t *"
        " 2).sum().backward()\na = A(); a.a = a"
    ),
    "atexit": "import atexit; t = cr.ones(300, 300); atexit.register(lambda: (t @ t).sum().item())",
    "a subclass": "class T(cr.Tensor): pass\nt = T([1.0]); t.t = t; u = t + 1",
    "an iterator": "i = iter(cr.ones(3)); next(i)",
    "a thread": (
        "import threading\ne = threading.Event(); t = threading.Thread(target=lambda: (cr.ones(9), e.wait(9)),"
        " daemon=True); t.start()"
    ),
    "a thread that works": (
        "import threading\ndef f():\n    x = cr.ones(200, 200)\n    while True: x = (x @ x) * 0\n"
        "threading.Thread(target=f, daemon=True).start()\nimport time; time.sleep(0.05)"
    ),
    "thread locals": (
        "import threading; l = threading.local(); l.t = cr.ones(3)\n"
        "t = threading.Thread(target=lambda: setattr(l, 't', cr.ones(3))); t.start(); t.join()"
    ),
    "an exception": "try: cr.zeros(2, 3) @ cr.zeros(2, 3)\nexcept RuntimeError as e: kept = e",
    "weak references": (
        "import weakref; t = cr.ones(3); w = weakref.ref(t, print); f = weakref.finalize(t, lambda: None)"
    ),
}


@pytest.mark.parametrize("what", SHUTDOWN)
def test_shutdown(what: str) -> None:
    out = runs(f"import chainrule as cr\n{SHUTDOWN[what]}\nprint('well', flush=True)", "-X", "dev", "-W", "error")
    assert out.startswith("well")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_fork_while_a_thread_imports() -> None:
    """Parts of the package are imported at first use.  The child has what the other thread was importing."""
    program = """
import os, signal, sys, threading, time
import chainrule as cr

class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "chainrule._compile":
            begun.set()
            time.sleep(0.3)

begun = threading.Event()
sys.meta_path.insert(0, Slow())
thread = threading.Thread(target=lambda: cr.compile)
thread.start()
begun.wait()
child = os.fork()
if not child:
    signal.alarm(20)
    os._exit(cr.compile(lambda x: x + 1)(cr.ones(3)).sum().item() != 6)
thread.join()
print("status", os.waitpid(child, 0)[1])
"""
    assert runs(program).strip() == "status 0"


def test_keyboard_interrupt_between_ops() -> None:
    """A loop of ops is interrupted, and the library goes on."""
    fired = threading.Event()

    def fire() -> None:
        fired.wait(30)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=fire)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored, as by `make test &`
    thread.start()
    x = cr.ones(50, requires_grad=True)
    try:
        with pytest.raises(KeyboardInterrupt):
            while True:
                y = (x * 2).sum()
                y.backward()
                fired.set()
    finally:
        fired.set()
        thread.join()
        signal.signal(signal.SIGINT, before)
    assert (x + 1).tolist() == [2.0] * 50 and cr.is_grad_enabled()


# ---- leaks: what is done often must not make the process grow
def fails(f: Callable[..., object], *args: object) -> None:
    try:
        f(*args)
    except (RuntimeError, TypeError, ValueError, IndexError):
        return
    raise AssertionError("did not fail")


class Named(cr.Tensor):
    name = ""


NAMED = Named([[1.0, 2.0]])
NAMED.name = "a"
X = cr.ones(3, 5)
W = cr.ones(3, 5, requires_grad=True)
CPU = "".join(["c", "pu"])
COUNTED = (X, W, CPU, None, cr.float32, cr.Tensor, Named, NAMED, NAMED.__dict__)
REPEATED: dict[str, Callable[[], object]] = {
    "an operator": lambda: X + X,
    "a number": lambda: 2.5 * X - True,
    "a graph": lambda: (W * 2).sum().backward(),
    "a graph that is dropped": lambda: (W * 2).sum(),
    "a list": lambda: cr.tensor([[1, 2.5], [3, 4]]),
    "a view": lambda: X[1:, None, ..., 2],
    "assignment": lambda: X.__setitem__((0, slice(1, 3)), [1, 2]),
    "index tensors": lambda: (X[[1, 2]], X[[0, 1], [1, 2]], X[X > 0], X[cr.tensor([0, 2]), None, True]),
    "assignment at index tensors": lambda: X.__setitem__([1, 2], [1, 2, 3, 4, 5]),
    "a subclass, pickled and copied": lambda: (
        pickle.loads(pickle.dumps(NAMED)),
        copy.copy(NAMED),
        copy.deepcopy(NAMED),
    ),
    "chosen inputs": lambda: (W * X).sum().backward(inputs=[W]),
    "iteration": lambda: list(X),
    "pieces": lambda: (X.split(2), X.chunk(2), X.unbind(1), X.max(1)),
    "properties": lambda: (X.shape, X.strides, X.dtype, X.device, X.T, X.grad, W.grad, X.data, X.is_leaf),
    "numbers out": lambda: (X.tolist(), X[0, 0].item(), float(X[0, 0]), X.sum() > 3, 1.0 in X),
    "joined": lambda: (cr.cat([X, X]), cr.stack((X, X)), cr.vstack([X, X]), cr.cat([X + 1, X + 2])),
    "ints that are made anew": lambda: (cr.zeros(int("300")), X.select(0, 2 - int("1")), cr.arange(int("1000"))),
    "in place": lambda: X.mul_(1).add_(0, alpha=2).clamp_(0, 1).copy_(X),
    "keywords": lambda: X.sum(dim=(0, 1), keepdim=True).reshape(shape=(1,)),
    "devices": lambda: (
        cr.Device("cpu"),
        cr.Device("ref"),
        cr.Device(CPU, 0),
        X.to("ref").to("cpu"),
        cr.Generator().manual_seed(3).get_state(),
    ),
    "a wrong shape": lambda: fails(cr.add, X, cr.ones(4, 4)),
    "a wrong type": lambda: fails(cr.add, X, "x"),
    "a wrong list": lambda: fails(cr.tensor, [[1, 2], [3, "x"]]),
    "a wrong key": lambda: fails(X.__getitem__, (0, "x")),
    "a wrong keyword": lambda: fails(lambda: cr.sum(X, dims=1)),  # type: ignore[call-arg]
    "a wrong size": lambda: fails(X.reshape, 4, 4),
    "a wrong element": lambda: fails(cr.cat, [X, X, None]),
    "a wrong attribute": lambda: fails(setattr, X, "requires_grad", 3),
    "a wrong value": lambda: fails(X.__setitem__, 0, [1, 2, 3]),
}


@pytest.mark.skipif(not hasattr(sys, "getallocatedblocks"), reason="this Python does not count blocks")
@pytest.mark.parametrize("what", REPEATED)
def test_nothing_leaks(what: str) -> None:
    f = REPEATED[what]

    def blocks(times: int) -> int:
        for _ in range(times):
            f()
        gc.collect()
        return sys.getallocatedblocks()

    if os.environ.get("PYTHONMALLOC"):
        pytest.skip("blocks are counted only by Python's own allocator")
    blocks(50)
    held, counts = cr.memory_stats()[0], [sys.getrefcount(o) for o in COUNTED]
    grown: list[int] = []
    while not grown or (grown[-1] >= 100 and len(grown) < 4):  # caches and other threads grow once, a leak each time
        before = blocks(50)
        grown.append(blocks(500) - before)
    assert grown[-1] < 100, f"blocks of Python memory left after 500 rounds, each time: {grown}"
    assert cr.memory_stats()[0] - held <= 4096, f"{cr.memory_stats()[0] - held} bytes of tensors are left"
    now = [sys.getrefcount(o) for o in COUNTED]
    assert all(b - a < 50 for a, b in zip(counts, now, strict=True)), f"references: {counts} before, {now} after"


def test_objects_end() -> None:
    """Tensors, also those of a subclass and of a graph, are freed when nothing refers to them."""

    class Sub(cr.Tensor):
        pass

    makers: list[Callable[[], cr.Tensor]] = [
        lambda: cr.ones(3),
        lambda: Sub([1.0, 2.0]),
        lambda: (W * 2).sum(),
        lambda: cr.ones(3)[1:],
        lambda: W.detach(),
    ]
    for make in makers:
        t = make()
        end = weakref.ref(t)
        del t
        assert end() is None


def test_cycles_end() -> None:
    """Cycles through attributes, of a subclass too and through .grad, are found by the collector; a
    tensor without attributes is not looked at."""

    class Sub(cr.Tensor):
        pass

    def with_grad() -> Any:
        x: Any = cr.ones(2, requires_grad=True)
        x.sum().backward()
        x.grad.owner = x
        return x

    def through_dict() -> Any:
        x: Any = cr.ones(2)
        x.__dict__["list"] = [x]
        return x

    makers: list[Callable[[], Any]] = [
        lambda: Sub([1.0]),
        lambda: cr.ones(3),
        lambda: (W * 2).sum(),
        with_grad,
        through_dict,
    ]
    for make in makers:
        t = make()
        t.me = t
        end = weakref.ref(t)
        del t
        assert end() is not None
        gc.collect()
        assert end() is None, "a cycle through attributes is not collected"
    assert not gc.is_tracked(cr.ones(3))


@pytest.mark.parametrize("how", ["none", "another"])
def test_a_gradient_that_is_gone_takes_no_memory(how: str) -> None:
    """Its bytes are free at once, not when .grad is next looked at."""
    x, small = cr.ones(1000, 250, requires_grad=True), cr.ones(1000, 1).expand(1000, 250)
    before = cr.memory_stats()[0]
    (x * 2).sum().backward()
    assert x.grad is not None and x.grad is x.grad
    if how == "none":
        x.grad = None
    else:
        x.grad = small
    assert cr.memory_stats()[0] <= before + 100_000


def test_resident_memory() -> None:
    """Handles and storages go back too: a million small ones and a few large ones come and go."""
    if not Path("/proc/self/statm").exists() or "LD_PRELOAD" in os.environ:
        pytest.skip("no /proc here, or a sanitizer that keeps what is freed")
    program = """
import chainrule as cr
def resident():
    with open("/proc/self/statm") as f: return int(f.read().split()[1]) * 4096
def work(n):
    x = cr.ones(7, requires_grad=True)
    for i in range(n):
        y = (x * 2 + i)[1:]
        try: y @ cr.ones(3)
        except RuntimeError: pass
        if i % 100 == 0: y.sum().backward(); cr.ones(256, 1024).sum().item()
work(20000)
before = resident()
work(60000)
print((resident() - before) >> 10)
"""
    assert int(runs(program)) < 2048, "KiB that 60,000 rounds left behind"


AT_THE_END = """
import ctypes, mmap
import chainrule as cr
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
page = mmap.PAGESIZE
access, kind = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
start = libc.mmap(None, ctypes.c_size_t(2 * page), access, kind, -1, ctypes.c_size_t(0))
assert libc.mprotect(start + page, page, 0) == 0
for count in (1, 3, 17):
    numbers = (ctypes.c_int64 * count).from_address(start + page - 8 * count)
    numbers[:] = range(count)
    x = cr.asarray(numbers, copy=False)
    assert x.data_ptr() == start + page - 8 * count
    for y in (cr.ones(count), cr.ones(count, dtype=cr.float64), cr.ones(count, dtype=cr.int32), cr.ones(5, 1)):
        assert (x * y).sum().item() == sum(range(count)) * (5 if y.dim() == 2 else 1)
    assert x.float().tolist() == x.tolist() and (x > 0.5).tolist() == [n > 0.5 for n in range(count)]
"""


def test_reads_nothing_beyond_the_end() -> None:
    """Operands that end where memory ends."""
    runs(AT_THE_END)


def test_start_imports_little() -> None:
    """What ``import chainrule`` brings in: each name more costs every start, and needs a reason."""
    out = runs(
        "import sys; before = set(sys.modules); import chainrule; print(*sorted(set(sys.modules) - before));"
        "assert {'viz', 'nn', 'MLP', 'polygamma'} <= set(dir(chainrule));"
        "assert chainrule.viz.progress and chainrule.MLP is chainrule.MLP and chainrule.random.seed is chainrule.seed",
        "-S",
    )  # fmt: skip
    wanted = (
        "chainrule chainrule._core chainrule._dtypes chainrule._fork chainrule._settings chainrule._subclass "
        "chainrule.autograd"
    )
    assert out.split() == ["__future__", *wanted.split()]
