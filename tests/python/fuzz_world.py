"""One world of the fuzzer of compiled steps (fuzz_compile.py): a program text is run twice, op by op and compiled.

After each of its actions all that the program can reach is noted: bits, gradients, moments, flags, memory that
tensors share, random state and exceptions.  The two lists of notes must be the same."""

from __future__ import annotations

import builtins
import gc
import math
import os
import random
import re
import select
import struct
import threading
import warnings
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field
from typing import Any

import chainrule as cr

# Names that a program may use, in each namespace anew: a program may change the classes.
PRELUDE = '''
import copy, gc, io
import chainrule as cr
from chainrule import nn
from chainrule.torch.utils.checkpoint import checkpoint
F = nn.functional
N = 5

def X(seed, *shape):
    """Random numbers that depend on the seed only; (N, 6) where no shape is given."""
    return cr.randn(*(shape or (N, 6)), generator=cr.Generator().manual_seed(seed))

def M(m, name, k=0):
    """The module number k inside m whose class has this name."""
    return [x for x in m.modules() if name in type(x).__name__][k]

def tensors(r):
    if isinstance(r, cr.Tensor):
        return [r]
    parts = r.values() if isinstance(r, dict) else r if isinstance(r, (list, tuple)) else []
    return [t for part in parts for t in tensors(part)]

def first(r):
    return (tensors(r) or [X(1)])[0]

def total(r):
    """A number that every result with a gradient has a part in."""
    return sum((t.float().square().mean() for t in tensors(r) if t.requires_grad), cr.zeros(()))

def back(r, **options):
    """The backward pass of the results that have one."""
    y = total(r)
    if y.requires_grad:
        y.backward(**options)

def Q(m):
    """The first parameter of m."""
    return next(m.parameters())

def often(f, *args):
    """Calls that make a plan's kernels loops of the system's compiler, and the wait for them."""
    for _ in range(9):
        r = f(*args)
    known = getattr(f, "_compiled", None)
    if known and getattr(known.last, "plan", None):
        cr._core._plan_wait(known.last.plan)
    return r

def group(opt):
    return opt.param_groups[0]

def moments(opt):
    """The state of the first parameter that has one."""
    return next((s for s in opt.state.values() if s), {})

class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale, self.flag, self.times, self.act = 2.0, True, 1, "tanh"
        self.cfg = {"shift": 0.5}
        self.ts = [cr.randn(6), cr.randn(6)]
        self.plain = cr.randn(6)
        self.weight = nn.Parameter(cr.randn(6))
        self.register_buffer("count", cr.zeros(()))
        self.fn = F.relu

    def forward(self, x):
        for _ in range(self.times):
            x = x * self.scale + self.ts[0] * self.weight
        if self.flag:
            x = x + self.plain + self.cfg["shift"]
        self.count.add_(1)
        return self.fn(getattr(x, self.act)()) + self.extra()

    def extra(self):
        return 0.25

class Rnn(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.rnn = getattr(nn, kind)(6, 6, 1, dropout=0.0)

    def forward(self, x):
        return self.rnn(x.reshape(x.shape[0], 1, 6))[0].reshape(x.shape[0], 6)

class Embed(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.emb = nn.Embedding(10, 6, **options)
        self.register_buffer("idx", cr.tensor([1, 7, 3, 3, 9]))

    def forward(self, x):
        return x + self.emb(self.idx)[cr.arange(len(x)) % 5]

class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(6, 6), nn.Linear(6, 6)])
        self.byname = nn.ModuleDict({"a": nn.PReLU(), "b": nn.LayerNorm(6)})
        self.ps = nn.ParameterList([nn.Parameter(cr.randn(6))])
        self.skip = None

    def forward(self, x):
        for layer in self.layers:
            x = layer(x) + self.ps[0]
        for part in self.byname.values():
            x = part(x)
        return x if self.skip is None else self.skip(x)

class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn = nn.MultiheadAttention(6, 2, dropout=0.1)

    def forward(self, x):
        return self.attn(x, x, x)[0]

class Shared(nn.Module):
    """One compiled forward for all objects of the class."""

    def __init__(self):
        super().__init__()
        self.lin, self.scale = nn.Linear(6, 6), 2.0

    def forward(self, x):
        return self.lin(x) * self.scale

class Tripled(cr.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 3

    @staticmethod
    def backward(ctx, g):
        x, = ctx.saved_tensors
        return g * 3 + 0 * x

class Trainer:
    """What people write around a model."""

    def __init__(self, model, opt):
        self.model, self.opt, self.history, self.last = model, opt, [], None

    def step(self, x):
        self.opt.zero_grad()
        loss = self.model(x).square().mean()
        loss.backward()
        self.opt.step()
        return loss.detach()

    def evaluate(self, x):
        with cr.no_grad():
            return self.model(x)

class UserSGD(cr.optim.Optimizer):
    """An optimizer that a user writes: its step is ops."""

    def __init__(self, params, lr=0.1, decay=0.9):
        super().__init__(params, {"lr": lr, "decay": decay})

    @cr.no_grad()
    def step(self, closure=None):
        for g in self.param_groups:
            for p in g["params"]:
                if p.grad is not None:
                    s = self.state[p]
                    if "m" not in s:
                        s["m"] = cr.zeros_like(p)
                    s["m"].mul_(g["decay"]).add_(p.grad)
                    p.add_(s["m"], alpha=-g["lr"])
'''

FORK = "fork()"  # the action that runs the rest in a child process, and then in this one too
# Errors of a compiled function that say that it cannot: the world ends there, and nothing is wrong.
CANNOT = re.compile(r"\[(compile|record|replay|plan)\]|compiled|recorded|replay|a plan")


@dataclass
class Program:
    """What a world runs: whole texts, of which each line of ``actions`` is noted."""

    setup: str
    actions: list[str]
    loose: bool = False  # sums of gradients may differ in their last bits (docs/howto/compile.md)
    threads: int = 0  # the compiled side runs in this many threads at once, each with a world of its own


@dataclass
class Note:
    """What was there after an action."""

    raised: str
    found: dict[str, Any]


@dataclass
class Outcome:
    verdict: str  # "same", "differs" or "cannot"
    where: int = -1  # the action
    what: str = ""  # kind of difference
    text: str = ""
    replays: int = 0
    recordings: int = 0
    refused: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Bits:
    """A tensor's values."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes

    def __str__(self) -> str:
        return f"{self.dtype} {self.shape} {[round(v, 6) for v in self.numbers()[:4]]}"

    def numbers(self) -> list[float]:
        code = {"float32": "f", "float64": "d", "int64": "q", "int32": "i", "bool": "?", "float16": "e"}.get(self.dtype)
        if self.dtype == "bfloat16":
            return [
                x[0]
                for x in struct.iter_unpack(
                    "<f", b"".join(b"\0\0" + self.data[i : i + 2] for i in range(0, len(self.data), 2))
                )
            ]
        return (
            [float(x[0]) for x in struct.iter_unpack("<" + code, self.data)] if code else [float(x) for x in self.data]
        )


def bits(t: cr.Tensor) -> Bits:
    plain = t.detach()
    name = str(t.dtype).rpartition(".")[2]
    if name == "bfloat16":
        wide = plain.float().contiguous().numpy().tobytes()
        return Bits(name, tuple(t.shape), b"".join(wide[i + 2 : i + 4] for i in range(0, len(wide), 4)))
    return Bits(name, tuple(t.shape), plain.contiguous().numpy().tobytes())


class Walk:
    """Notes all that can be reached from a namespace, by paths."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}
        self.objects: dict[int, str] = {}  # id -> the first path
        self.memory: dict[int, str] = {}

    def tensor(self, path: str, t: cr.Tensor, depth: int = 0) -> None:
        f = self.found
        f[f"{path} is"] = first = self.objects.setdefault(id(t), path)
        f[path] = bits(t)
        f[f"{path} type"] = type(t).__name__
        f[f"{path} strides"] = tuple(t.strides) if t.numel() > 1 else ()
        f[f"{path} requires_grad"] = t.requires_grad, t.is_leaf
        if t.numel():
            f[f"{path} memory"] = self.memory.setdefault(cr._core._storage(t)[0], path)
        if first == path and depth < 3 and t.is_leaf:
            grad = t.grad
            if grad is None:
                f[f"{path}.grad none"] = True
            else:
                f[f"{path}.grad none"] = False
                self.tensor(f"{path}.grad", grad, depth + 1)

    def walk(self, path: str, x: Any, depth: int = 0) -> None:
        if isinstance(x, cr.Tensor):
            self.tensor(path, x)
        elif isinstance(x, bool | int | str | float) or x is None:
            self.found[path] = repr(x)
        elif depth > 8:
            return
        elif isinstance(x, list | tuple | set):
            self.found[f"{path} type"] = type(x).__name__, len(x)
            for i, part in enumerate(x):
                self.walk(f"{path}[{i}]", part, depth + 1)
        elif isinstance(x, dict):
            self.found[f"{path} type"] = type(x).__name__, len(x)
            for i, (key, part) in enumerate(x.items()):
                name = repr(key) if isinstance(key, str | int | float | tuple) else str(i)
                self.walk(f"{path}[{name}]", part, depth + 1)
        elif isinstance(x, cr.Generator):
            self.found[path] = bits(x.get_state())
        elif self.objects.setdefault(id(x), path) != path:
            self.found[f"{path} is"] = self.objects[id(x)]
        elif isinstance(x, cr.nn.Module | cr.optim.Optimizer | cr.optim.lr_scheduler.LRScheduler | cr.amp.GradScaler):
            for name, part in vars(x).items():
                if not name.startswith("_") or name == "_scale":
                    self.walk(f"{path}.{name}", part, depth + 1)


PRELUDE_CODE = builtins.compile(PRELUDE, "<prelude>", "exec")
PRELUDE_NAMES = {"__name__", "__builtins__", "compile"}
PRELUDE_NAMES |= {name for name in PRELUDE_CODE.co_names if not name.startswith("__")} | set(PRELUDE_CODE.co_names)


def note(space: dict[str, Any], raised: str, alone: bool = False, hidden: Container[str] = ()) -> Note:
    """hidden: names that are not compared.  alone: without the state of the process, which other threads change."""
    walk = Walk()
    anomaly = cr._core._set_anomaly(False)  # it would check what is read here
    for name, x in space.items():
        if not name.startswith("_") and name != "c0":  # c0: the module itself, or a compiled one
            walk.walk(name, x)
            if name in hidden:
                walk.found.clear()
    cr._core._set_anomaly(anomaly)
    if alone:
        return Note(raised, walk.found)
    walk.found["random state"] = bits(cr.get_rng_state())
    walk.found["modes"] = cr.is_grad_enabled(), str(cr.get_default_dtype()), cr.get_num_threads()
    return Note(raised, walk.found)


HEX = re.compile(r"0x[0-9a-f]+")


def said(e: BaseException) -> str:
    lines = HEX.sub("0x", str(e)).splitlines() or [""]
    return f"{type(e).__name__}: {lines[0]}"


class Counts:
    """Replays, recordings and refusals, by standing between the package and its core."""

    def __init__(self) -> None:
        self.replays = self.recordings = 0
        self.refused: list[str] = []
        core: Any = cr._core
        from chainrule import _compile

        run, end = core._plan_run, core._record_end

        def counted_run(*args: Any) -> Any:
            made = run(*args)
            self.replays += made is not None
            return made

        def counted_end(*args: Any) -> Any:
            self.recordings += 1
            return end(*args)

        core._plan_run, core._record_end = counted_run, counted_end
        plans: Any = _compile.Compiled
        refuse = getattr(plans, "_refuse", None)
        if refuse is None:
            return

        def counted_refuse(me: Any, *args: Any, **kwargs: Any) -> Any:
            self.refused.append(str(args[-1]))
            return refuse(me, *args, **kwargs)

        plans._refuse = counted_refuse


def quiet(f: Any = None, **kwargs: Any) -> Any:
    return f if f is not None else (lambda g: g)


def settled() -> None:
    """The process as a program finds it."""
    cr.set_grad_enabled(True)
    cr.set_default_dtype(cr.float32)
    cr.set_num_threads(2)
    cr.autograd.set_detect_anomaly(False)
    cr.set_float32_matmul_precision("highest")
    cr.manual_seed(11)
    random.seed(11)
    os.environ.pop("FUZZ_K", None)


setting_up = threading.Lock()  # threads draw their parameters one after the other


def world(compile: Callable[..., Any]) -> dict[str, Any]:  # noqa: A002
    space: dict[str, Any] = {"__name__": "world"}
    exec(PRELUDE_CODE, space)
    space["compile"] = compile
    return space


def steps(program: Program, compile: Callable[..., Any], made: dict[str, Any] | None = None) -> Iterator[Note]:  # noqa: A002
    """Runs a program; a note after the setup and after each action.  made: a namespace where the setup has run."""
    threads = program.threads
    space = world(compile) if made is None else made
    hidden: set[str] = set()

    def seen(raised: str) -> Note:
        shown = {name: x for name, x in space.items() if name not in PRELUDE_NAMES}
        return note(shown, raised, bool(threads), hidden)

    raised = ""
    if made is None:
        try:
            with setting_up:
                if threads:
                    cr.manual_seed(11)
                exec(program.setup, space)
        except Exception as e:
            raised = "setup " + said(e)
    if threads < 0:
        hidden = set(space)  # all threads have them
    yield seen(raised)
    if raised:
        return
    for action in program.actions:
        raised = ""
        if action != FORK:
            try:
                exec(action, space)
            except (Exception, StopIteration) as e:
                raised = said(e)
                del e
        yield seen(raised)


def close(a: Any, b: Any) -> bool:
    """Equal but for the last bits of a sum."""
    if not (isinstance(a, Bits) and isinstance(b, Bits)) or (a.dtype, a.shape) != (b.dtype, b.shape):
        return False
    if "float" not in a.dtype:
        return False
    rtol = {"float32": 1e-3, "float64": 1e-7, "float16": 0.05, "bfloat16": 0.1}[a.dtype]
    return all(
        x == y or (math.isnan(x) and math.isnan(y)) or abs(x - y) <= rtol * max(abs(x), abs(y), 0.05)
        for x, y in zip(a.numbers(), b.numbers(), strict=True)
    )


def kind_of(path: str) -> str:
    """The kind of a difference: what it is, not where."""
    for end in ("is", "memory", "strides", "requires_grad", "type", "none"):
        if path.endswith(" " + end):
            return "gradient is None" if end == "none" else {"is": "identity", "memory": "shared memory"}.get(end, end)
    if path in ("random state", "modes"):
        return path
    return "gradient" if path.endswith(".grad") else "value"


def compared(eager: Note, compiled: Note, loose: bool, skip: Callable[[str], bool]) -> tuple[str, str] | None:
    """The first difference, values before flags: its kind and a text."""
    if eager.raised != compiled.raised:
        if re.search(r"\[(lstm|gru|rnn)\].*modified in place", eager.raised):
            return "cannot", eager.raised  # eager keeps weights that this backward pass does not need
        if CANNOT.search(compiled.raised):
            return "cannot", compiled.raised
        kinds = [x.partition(":")[0] for x in (eager.raised, compiled.raised)]
        if kinds[0] == kinds[1]:
            words = [set(re.findall(r"[a-z]{4,}", x.lower())) for x in (eager.raised, compiled.raised)]
            if words[0] & words[1]:
                return None if eager.found.keys() == compiled.found.keys() else _state(eager, compiled, loose, skip)
        return "exception", f"raised: eager {eager.raised or 'nothing'!r}, compiled {compiled.raised or 'nothing'!r}"
    return _state(eager, compiled, loose, skip)


IDENTITY = False  # must a result be the object that eager returns?  docs/howto/compile.md: it is a new tensor
HANDLE = (
    " is",
    " type",
    " requires_grad",
    " strides",
    ".grad none",
    ".grad",
    ".grad is",
    ".grad type",
    ".grad memory",
    ".grad requires_grad",
    ".grad strides",
    ".grad.grad none",
)


class Objects:
    """Results that eager returns as the objects that they were, and a replay as new handles: values are compared at
    the call, and flags and what becomes of the handle are not."""

    def __init__(self) -> None:
        self.old: set[str] = set()  # paths

    def other(self, eager: Note, compiled: Note, action: str) -> Callable[[str], bool]:
        if IDENTITY:
            return lambda path: False
        a, b = eager.found, compiled.found
        self.old = {path for path in self.old if f"{re.split(r'[.[]', path)[0]} = " not in action}
        now = {path[: -len(" is")] for path, x in a.items() if path.endswith(" is") and b.get(path) != x}
        flags = {path + end for path in now for end in HANDLE}
        old = set(self.old)
        self.old |= now
        return lambda path: path in flags or path.split(" ")[0].removesuffix(".grad") in old


def _state(eager: Note, compiled: Note, loose: bool, skip: Callable[[str], bool]) -> tuple[str, str] | None:
    a, b = eager.found, compiled.found
    if a == b:
        return None
    found: list[tuple[int, str, str]] = []
    order = [
        "value",
        "gradient is None",
        "gradient",
        "random state",
        "modes",
        "requires_grad",
        "shared memory",
        "identity",
        "type",
        "strides",
    ]
    for path in a.keys() | b.keys():
        x, y = a.get(path, "absent"), b.get(path, "absent")
        if x != y and not skip(path) and not (loose and close(x, y)):
            kind = kind_of(path)
            found.append((order.index(kind), path, f"{path}: eager {x}, compiled {y}"))
    if not found:
        return None
    first = min(found)
    return order[first[0]], "; ".join(text for _, _, text in sorted(found)[:3])


def run_world(program: Program, counts: Counts) -> Outcome:
    """Runs both sides of a program, one after the other, and compares them."""
    warnings.simplefilter("ignore")
    before = counts.replays, counts.recordings
    counts.refused = []
    settled()
    wanted = list(steps(program, quiet))
    gc.collect()
    settled()
    if program.threads:
        outcome = beside(program, wanted)
    else:
        outcome = against(program, wanted, steps(program, cr.compile), 0)
    outcome.replays, outcome.recordings = counts.replays - before[0], counts.recordings - before[1]
    outcome.refused = counts.refused
    settled()
    return outcome


def against(program: Program, wanted: list[Note], notes: Iterator[Note], start: int) -> Outcome:
    """Compares the notes of a side, from number ``start`` on."""
    objects = Objects()
    for i in range(start, len(wanted)):
        if i and program.actions[i - 1] == FORK and (bad := in_child(program, wanted, notes, i)):
            return bad
        note = next(notes)
        if i and wanted[i].raised and note.raised and "back(" in program.actions[i - 1]:
            break  # which gradients are there after an error depends on the order
        skip = objects.other(wanted[i], note, program.actions[i - 1] if i else "")
        different = compared(wanted[i], note, program.loose, skip)
        if different:
            return Outcome("cannot" if different[0] == "cannot" else "differs", i - 1, *different)
    return Outcome("same")


def in_child(program: Program, wanted: list[Note], notes: Iterator[Note], i: int) -> Outcome | None:
    """Runs the rest in a child process; what was wrong there."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            quiet_program = Program(program.setup, [a if a != FORK else "pass" for a in program.actions], program.loose)
            found = against(quiet_program, wanted, notes, i)
            os.write(write, f"{found.verdict}\0{found.where}\0{found.what}\0{found.text}".encode()[:4000])
        finally:
            os._exit(0)
    os.close(write)
    ready = select.select([read], [], [], 15)[0]
    text = os.read(read, 4000).decode(errors="replace") if ready else ""
    os.close(read)
    if not ready:
        os.kill(child, 9)
    status = os.waitpid(child, 0)[1]
    if not ready:
        return Outcome("differs", i - 1, "child hangs", "the child of a fork does not end in 15 s")
    if status or not text:
        return Outcome("differs", i - 1, "child crashes", f"the child of a fork ended with status {status}")
    verdict, where, what, rest = text.split("\0")
    return Outcome("differs", int(where), f"in a child: {what}", rest) if verdict == "differs" else None


def beside(program: Program, wanted: list[Note]) -> Outcome:
    """Several threads at once: each with a world of its own, or (threads < 0) one read-only world for all."""
    count = abs(program.threads)
    gate = threading.Barrier(count)
    outcomes: list[Outcome | None] = [None] * count
    shared: dict[str, Any] | None = None
    if program.threads < 0:
        shared = world(cr.compile)
        try:
            exec(program.setup, shared)
        except Exception:
            return Outcome("same")

    def run(k: int) -> None:
        notes = steps(program, cr.compile, None if shared is None else {**shared})
        try:
            gate.wait(20)
            outcomes[k] = against(program, wanted, notes, 0)
        except Exception as e:
            outcomes[k] = Outcome("differs", -1, "exception", f"in a thread: {said(e)}")

    threads = [threading.Thread(target=run, args=(k,), daemon=True) for k in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(30)
    if any(t.is_alive() for t in threads):
        return Outcome("differs", -1, "threads hang", "a thread does not end in 30 s")
    for found in outcomes:
        if found and found.verdict == "differs":
            return Outcome("differs", found.where, f"in a thread: {found.what}", found.text)
    return Outcome("same")
