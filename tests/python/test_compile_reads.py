"""compile: whatever a step reads from outside may change between calls, and a replay sees it, or there is none.

Each case runs a program twice, as it is and compiled, and compares everything that it leaves, bit by bit."""

from __future__ import annotations

import contextlib
import contextvars
import copy
import ctypes
import functools
import gc
import itertools
import operator
import os
import queue
import random
import re
import signal
import sys
import threading
import time
import types
import warnings
import weakref
from collections import OrderedDict, deque, namedtuple
from collections.abc import Callable, Iterator
from typing import Any, cast

import chainrule as cr
import pytest
from chainrule import nn, optim

F = nn.functional


def plain(x: Any) -> Any:
    """Values that == compares: tensors as lists."""
    if isinstance(x, cr.Tensor):
        return (x.tolist(), x.requires_grad)
    if isinstance(x, dict):
        return {key: plain(value) for key, value in x.items()}
    return [plain(part) for part in x] if isinstance(x, list | tuple) else x


class Compile:
    """``compile`` that remembers what it made, so that a test can ask whether there was a plan at all."""

    def __init__(self, on: bool) -> None:
        self.on = on
        self.made: list[Any] = []

    def __call__(self, f: Any) -> Any:
        if not self.on:
            return f
        self.made.append(cr.compile(f))
        return self.made[-1]

    @property
    def replays(self) -> bool:
        return all(f._compiled.last.ready for f in self.made)


def both(program: Callable[[Compile], Any], replays: bool = True) -> None:
    results = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for on in (False, True):
            cr.manual_seed(0)
            compiler = Compile(on)
            results.append(plain(program(compiler)))
            assert not (on and replays) or compiler.replays, [f._compiled.lacks() for f in compiler.made]
    assert repr(results[0]) == repr(results[1])  # a NaN is itself


# ---- gradients from outside the step ----

READERS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "the method step": lambda o, w, v: o.step,
    "a step": lambda o, w, v: lambda: o.step(),
    "a norm": lambda o, w, v: lambda: w.grad.norm(),
    "clipping and a step": lambda o, w, v: lambda: (nn.utils.clip_grad_norm_([w, v], 0.5), o.step())[0],
    "a step by hand": lambda o, w, v: cr.no_grad()(lambda: (w.sub_(w.grad * 0.1), v.sub_(v.grad * 0.1))[0]),
    "scaling in place": lambda o, w, v: lambda: (w.grad.mul_(0.5), o.step())[1],
    "gradients set to none": lambda o, w, v: lambda: (o.step(), o.zero_grad())[0],
    "a sum with the next gradient": lambda o, w, v: lambda: ((w * v).sum().backward(), o.step())[1],
}


@pytest.mark.parametrize("none", [True, False])
@pytest.mark.parametrize("maker", ["sgd", "momentum", "adamw"])
@pytest.mark.parametrize("reader", READERS)
def test_gradients_are_slots(reader: str, maker: str, none: bool) -> None:
    def program(compiler: Compile) -> Any:
        w, v = cr.randn(5, requires_grad=True), cr.randn(5, requires_grad=True)
        o: Any = optim.AdamW([w, v]) if maker == "adamw" else optim.SGD([w, v], 0.1, 0.9 if maker == "momentum" else 0)
        f, seen = compiler(READERS[reader](o, w, v)), []
        for k in range(8):
            if none:
                w.grad = v.grad = None
            else:
                o.zero_grad(set_to_none=False)
            (((w - k) ** 2).sum() + (v * w if k != 5 else w * w + v).sum()).backward()
            seen.append([f(), w, v, w.grad, v.grad])
            seen[-1] = plain(seen[-1])
        return seen

    both(program)


def test_gradient_that_is_not_there() -> None:
    """None is recorded as such; a gradient that appears, and one that another name keeps."""

    def program(compiler: Compile) -> Any:
        w: Any = cr.ones(3, requires_grad=True)
        f, seen = compiler(lambda x: x * 2 if w.grad is None else x * w.grad), []
        for k in range(9):
            if k in (3, 7):
                (w * k).sum().backward()
            if k == 5:
                w.grad = None
            seen.append(plain(f(cr.full((3,), float(k)))))
        (w * 5).sum().backward()
        old = w.grad
        g = compiler(lambda: old + w.grad)
        for k in range(5):
            seen.append(plain(g()))
            w.grad = cr.full((3,), float(k))
        return seen

    both(program, replays=False)


# ---- what changes between calls of a step of training ----


class Net(nn.Module):
    scale = 2.0

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(6, 8), nn.BatchNorm1d(8), nn.LeakyReLU(0.1), nn.Dropout(0.3), nn.Linear(8, 3)
        )
        self.gain, self.options, self.steps = 1.5, {"power": 2}, [1.0, 2.0]
        self.extra = types.SimpleNamespace(shift=0.5)
        self.register_buffer("mean", cr.zeros(3))

    def forward(self, x: cr.Tensor) -> cr.Tensor:
        y: cr.Tensor = self.body(x) * self.gain * self.scale + self.extra.shift
        for factor in self.steps:
            y = y * factor
        z: cr.Tensor = y.tanh().abs() ** self.options["power"] - self.mean
        return z


class Changed:
    """The model, the optimizer and what else a step reads."""

    def __init__(self, maker: str) -> None:
        self.m: Any = Net()
        p = self.m.parameters()
        self.o: Any = optim.AdamW(p, lr=0.01) if maker == "adamw" else optim.SGD(p, lr=0.01, momentum=0.9)
        self.factor, self.list, self.dict = 3.0, [cr.ones(3)], {"a": cr.ones(3)}
        self.array, self.set, self.deque = bytearray(b"\x03"), {2}, deque([1.0])
        self.integer = ctypes.c_int(2)
        self.helper: Callable[[cr.Tensor], cr.Tensor] = lambda x: x + 1

    def group(self, **options: Any) -> None:
        self.o.param_groups[0].update(options)

    @property
    def state(self) -> Any:
        return next(iter(self.o.state.values()))


def hook(kind: str) -> Callable[[Changed], Any]:
    add: Callable[[Any], Any] = {
        "forward": lambda m: m.body[0].register_forward_hook(lambda mod, i, out: out * 2),
        "pre": lambda m: m.body[0].register_forward_pre_hook(lambda mod, i: (i[0] * 2,)),
        "weight": lambda m: m.body[0].weight.register_hook(lambda g: g * 2),
        "late": lambda m: m.body[0].weight.register_post_accumulate_grad_hook(lambda p: p.grad.mul_(2) and None),
    }[kind]
    return lambda c: add(c.m)


def set_attributes(x: Any, **values: Any) -> Any:
    for name, value in values.items():
        setattr(x, name, value)


CHANGES: dict[str, Callable[[Changed], Any]] = {
    "nothing": lambda c: None,
    "lr": lambda c: c.group(lr=0.5),
    "weight_decay": lambda c: c.group(weight_decay=0.3),
    "momentum": lambda c: c.group(momentum=0.1),
    "no momentum": lambda c: c.group(momentum=0.0),
    "dampening": lambda c: c.group(dampening=0.5),
    "nesterov": lambda c: c.group(nesterov=True),
    "betas": lambda c: c.group(betas=(0.1, 0.2)),
    "maximize": lambda c: c.group(maximize=True),
    "parameters gone": lambda c: c.o.param_groups[0]["params"].pop(),
    "group replaced": lambda c: c.o.param_groups.__setitem__(0, {**c.o.param_groups[0], "lr": 0.2}),
    "groups replaced": lambda c: setattr(c.o, "param_groups", [dict(c.o.param_groups[0], maximize=True)]),
    "group added": lambda c: c.o.add_param_group({"params": [nn.Parameter(cr.ones(2))]}),
    "state cleared": lambda c: c.o.state.clear(),
    "state loaded": lambda c: c.o.load_state_dict(copy.deepcopy(c.o.state_dict())),
    "moment replaced": lambda c: c.state.update({k: cr.ones_like(v) for k, v in c.state.items() if cr.is_tensor(v)}),
    "moment given other memory": lambda c: [set_attributes(v, data=v * 0) for v in c.state.values() if cr.is_tensor(v)],
    "moment in place": lambda c: [v.zero_() for v in c.state.values() if cr.is_tensor(v)],
    "step replaced": lambda c: setattr(c.o, "step", lambda: None),
    "eval": lambda c: c.m.eval(),
    "dropout": lambda c: setattr(c.m.body[3], "p", 0.9),
    "slope": lambda c: setattr(c.m.body[2], "negative_slope", 0.7),
    "norm": lambda c: set_attributes(c.m.body[1], momentum=0.7, eps=1.0),
    "number of a module": lambda c: setattr(c.m, "gain", 0.5),
    "number by its dict": lambda c: vars(c.m).update(gain=0.5),
    "number of a class": lambda c: setattr(c.m, "scale", 5.0),
    "dict of a module": lambda c: c.m.options.update(power=3),
    "list of a module": lambda c: c.m.steps.append(0.5),
    "object of a module": lambda c: setattr(c.m.extra, "shift", -1.0),
    "buffer": lambda c: c.m.mean.fill_(2.0),
    "buffer replaced": lambda c: setattr(c.m, "mean", cr.ones(3)),
    "layer replaced": lambda c: c.m.body.__setitem__(2, nn.Tanh()),
    "layer appended": lambda c: c.m.body.append(nn.Tanh()),
    "layer removed": lambda c: c.m.body.__delitem__(3),
    "weight replaced": lambda c: setattr(c.m.body[4], "weight", nn.Parameter(cr.ones(3, 8))),
    "weight's memory": lambda c: setattr(c.m.body[4].weight, "data", cr.ones(3, 8)),
    "weight in place": lambda c: c.m.body[4].weight.data.fill_(0.1),
    "bias gone": lambda c: setattr(c.m.body[4], "bias", None),
    "weights tied": lambda c: setattr(c.m.body[0], "bias", c.m.body[1].bias),
    "frozen": lambda c: c.m.body[0].requires_grad_(False),
    "detached": lambda c: c.m.body[0].weight.detach_(),
    "gradient set": lambda c: setattr(c.m.body[0].weight, "grad", cr.ones(8, 6)),
    "forward replaced": lambda c: setattr(c.m.body[2], "forward", lambda x: x * 3),
    "class replaced": lambda c: setattr(c.m.body[2], "__class__", nn.Identity),
    "loaded": lambda c: c.m.load_state_dict({k: v * 0.5 for k, v in c.m.state_dict().items()}),
    "double": lambda c: (c.m.double(), c.o.state.clear()),
    "forward hook": hook("forward"),
    "pre-hook": hook("pre"),
    "hook of a weight": hook("weight"),
    "late hook of a weight": hook("late"),
    "number": lambda c: setattr(c, "factor", 0.25),
    "list": lambda c: c.list.append(cr.full((3,), 2.0)),
    "item of a list": lambda c: c.list.__setitem__(0, cr.full((3,), 2.0)),
    "dict": lambda c: c.dict.update(a=cr.full((3,), 2.0)),
    "bytes": lambda c: c.array.__setitem__(0, 9),
    "memory of C": lambda c: setattr(c.integer, "value", 7),
    "set": lambda c: c.set.add(5),
    "deque": lambda c: c.deque.append(0.5),
    "function": lambda c: setattr(c, "helper", lambda x: x * 2),
    "code of a function": lambda c: setattr(c.helper, "__code__", (lambda x: x * 4).__code__),
    "seed": lambda c: cr.manual_seed(7),
    "precision": lambda c: cr.set_float32_matmul_precision("medium"),
    "collection": lambda c: gc.collect(),
}


@pytest.mark.parametrize("maker", ["momentum", "adamw"])
@pytest.mark.parametrize("change", CHANGES)
def test_change_between_calls(change: str, maker: str) -> None:
    precision = cr.get_float32_matmul_precision()

    def program(compiler: Compile) -> Any:
        cr.set_float32_matmul_precision(precision)
        c = Changed(maker)
        x, y = cr.randn(16, 6), cr.randint(0, 3, (16,))

        def step(x: cr.Tensor, y: cr.Tensor) -> cr.Tensor:
            rest = sum(c.list) * c.dict["a"] * c.array[0] * cr.arange(3.0) + sum(c.set) + sum(c.deque)
            out = (c.helper(c.m(x)) * c.factor * rest * 0.1).tanh()
            loss: cr.Tensor = F.cross_entropy(out * c.integer.value, y.long())
            loss.backward()
            c.o.step()
            c.o.zero_grad()
            return loss.detach()

        f, seen = compiler(step), []
        for k in range(8):
            if k == 4:
                CHANGES[change](c)
            try:
                seen.append(plain(f(x.to(c.m.mean.dtype) if change != "double" else x.to(c.m.body[0].weight.dtype), y)))
            except RuntimeError as e:
                seen.append(str(e))
        return seen, [*c.m.state_dict().values()], cr.rand(3)

    try:
        both(program, replays=False)
    finally:
        cr.set_float32_matmul_precision(precision)


# ---- what a step reads by a name, and what is not there yet ----


class Plain:
    scale = 2.0

    @property
    def twice(self) -> float:
        return 2 * self.scale

    @classmethod
    def half(cls) -> float:
        return cls.scale / 2

    @cr.no_grad()
    def third(self, x: cr.Tensor) -> cr.Tensor:
        return x / 3

    def __mul__(self, x: cr.Tensor) -> cr.Tensor:
        return x * 3

    def __len__(self) -> int:
        return 3


class Own(Plain):
    def __init__(self) -> None:
        self.gain = 1.0

    def scaled(self, x: cr.Tensor) -> cr.Tensor:
        return x * self.gain


class Gives:
    def __getattr__(self, name: str) -> float:
        return 2.0


class Slots:
    __slots__ = ("scale",)


class Five:
    def __get__(self, x: Any, kind: Any) -> float:
        return 5.0


class Numbers(list[float]):
    pass


def fresh(kind: type) -> Any:
    """A subclass, which a test may change."""
    return type(kind.__name__, (kind,), {"__module__": __name__})


def hidden(x: cr.Tensor) -> cr.Tensor:
    return x * max(2.0, 3.0)


def named_later(x: cr.Tensor) -> cr.Tensor:
    try:
        return x * not_there_yet  # type: ignore[name-defined, no-any-return]
    except NameError:
        return x


def imports(x: cr.Tensor) -> cr.Tensor:
    import user_settings  # type: ignore[import-not-found]

    return x * user_settings.scale  # type: ignore[no-any-return]


def setting() -> Any:
    module: Any = types.ModuleType("user_settings")
    sys.modules["user_settings"] = with_attributes(module, __file__="/home/user_settings.py", scale=2.0)
    return imports, (lambda: setattr(module, "scale", 7.0))


def entry_by_a_method() -> Any:
    d = {"a": 2.0}
    get = d.get
    return (lambda x: x * get("a")), (lambda: d.update(a=7.0))


def entry_by_a_view() -> Any:
    d = {"a": 2.0}
    view = types.MappingProxyType(d)
    return (lambda x: x * view["a"]), (lambda: d.update(a=7.0))


def installed() -> Any:
    names: dict[str, Any] = {"scale": 2.0}
    exec(compile("def f(x): return x * scale", "/usr/lib/site-packages/other.py", "exec"), names)
    return (lambda x, f=names["f"]: f(x)), (lambda: names.update(scale=7.0))


def with_default(x: cr.Tensor, *, scale: float = 2.0) -> cr.Tensor:
    return x * scale


Names = dict[str, Callable[[], tuple[Callable[[cr.Tensor], Any], Callable[[], Any]]]]


last: Any = None


def set_it(x: cr.Tensor) -> cr.Tensor:
    global last
    last = 2
    return x * 3


sets_last = cr.compile(set_it)


def changed(o: Any, f: Callable[[cr.Tensor], Any], **values: Any) -> Any:
    return f, (lambda: set_attributes(o, **values))


def attribute(o: Any, name: str = "scale") -> Any:
    return (lambda x: x * getattr(o, name)), (lambda: setattr(o, name, 7.0))


def with_attributes(o: Any, **values: Any) -> Any:
    set_attributes(o, **values)
    return o


def maybe(o: Any) -> Any:
    return (lambda x: x * getattr(o, "later", 1.0)), (lambda: setattr(o, "later", 7.0))


def tries(o: Any, x: cr.Tensor) -> Any:
    try:
        return x * o.later
    except AttributeError:
        return x


def of_class(name: str, value: Any, read: Callable[[Any, cr.Tensor], Any]) -> Any:
    kind = fresh(Plain)
    o = kind()
    return (lambda x: read(o, x)), (lambda: setattr(kind, name, value))


def mapping(d: Any, change: Callable[[Any], Any]) -> Any:
    return (lambda x: x * sum(k * v for k, v in enumerate(d.values(), 1))), (lambda: change(d))


def partial_of() -> Any:
    w: Any = cr.ones(3)
    f = functools.partial(lambda w, x: x * w.scale, w)
    w.scale = 2.0
    return (lambda x: f(x)), (lambda: setattr(w, "scale", 3.0))


def keywords() -> Any:
    o = Own()
    return (lambda x, o=o: x * o.gain), (lambda: setattr(o, "gain", 3.0))


def closed_over() -> Any:
    k = 2.0

    class Calls:
        def __call__(self, x: cr.Tensor) -> cr.Tensor:
            return x * k

    def change() -> None:
        nonlocal k
        k = 3.0

    o = Calls()
    return (lambda x: o(x)), change


def operator_of(name: str, value: Any, read: Callable[[Any, cr.Tensor], Any]) -> Any:
    """A class whose operators share one function, and one of them replaced."""

    def times(o: Any, x: Any) -> Any:
        return x * 3

    kind = type("Operators", (), {"__module__": __name__, "__mul__": times, "__rmul__": times, "__radd__": times})
    o = kind()
    return (lambda x: read(o, x)), (lambda: setattr(kind, name, value))


@pytest.fixture(autouse=True)
def same_number_of_threads() -> Iterator[None]:
    many = cr.get_num_threads()
    yield
    cr.set_num_threads(many)


def threads() -> Any:
    many = cr.get_num_threads()
    return (lambda x: x * (cr.get_num_threads() > many)), (lambda: cr.set_num_threads(many + 1))


NAMES: Names = {
    "__mul__ of three names": lambda: operator_of("__mul__", lambda o, x: x * 5, lambda o, x: o * x),
    "__rmul__ of three names": lambda: operator_of("__rmul__", lambda o, x: x * 5, lambda o, x: x * o),
    "__radd__ of three names": lambda: operator_of("__radd__", lambda o, x: x * 5, lambda o, x: x + o),
    "__bool__ in place of __len__": lambda: of_class("__bool__", lambda o: False, lambda o, x: x if o else x * 2),
    "threads": threads,
    "an object without attributes": lambda: attribute(Plain()),
    "a class whose base has it": lambda: (lambda o: ((lambda x: x * o.scale), lambda: setattr(type(o), "scale", 7.0)))(
        fresh(Plain)()
    ),
    "a name that is a variable": lambda: attribute(Own(), "".join(["ga", "in"])),
    "a variable, or a default": lambda: (lambda o, name: changed(o, lambda x: x * getattr(o, name, 1.0), gain=7.0))(
        Own(), "".join(["ga", "in"])
    ),
    "an attribute that is added": lambda: (lambda o: changed(o, lambda x: x * len(vars(o)), more=7.0))(Own()),
    "the object of a method": lambda: (lambda o: changed(o, o.scaled, gain=7.0))(Own()),
    "the dict of a method": entry_by_a_method,
    "a wrapped method": lambda: of_class(
        "third", cr.no_grad()(lambda self, x: x * 7), lambda o, x: type(o).third.__wrapped__(o, x)
    ),
    "what __getattr__ gave": lambda: (lambda o: changed(o, lambda x: x * o.gift, gift=7.0))(Gives()),
    "a module that it imports": setting,
    "a number of an installed package": installed,
    "a read-only view of a dict": entry_by_a_view,
    "an attribute by attrgetter": lambda: (lambda a, get: changed(a, lambda x: x * get(a), gain=7.0))(
        Own(), operator.attrgetter("gain")
    ),
    "an object in a dict": lambda: (lambda d: changed(d["o"], lambda x: x * d["o"].gain, gain=7.0))({"o": Own()}),
    "getattr: an object": lambda: maybe(Plain()),
    "getattr: an object with others": lambda: maybe(Own()),
    "getattr: a tensor": lambda: maybe(cr.ones(2)),
    "getattr: a module": lambda: maybe(nn.Linear(2, 2)),
    "getattr: a function": lambda: maybe(lambda: None),
    "getattr: a module of Python": lambda: maybe(with_attributes(types.ModuleType("user"), __file__="/home/user.py")),
    "getattr: a slot": lambda: (lambda o: ((lambda x: x * getattr(o, "scale", 1.0)), lambda: setattr(o, "scale", 7.0)))(
        Slots()
    ),
    "try": lambda: (lambda o: ((lambda x: tries(o, x)), lambda: setattr(o, "later", 7.0)))(Own()),
    "the sign of zero": lambda: (lambda o: ((lambda x: x * o.gain), lambda: setattr(o, "gain", -o.gain)))(
        with_attributes(Own(), gain=0.0)
    ),
    "the type of a number": lambda: (
        lambda o: ((lambda x: x.long() * o.gain), lambda: setattr(o, "gain", float(o.gain)))
    )(with_attributes(Own(), gain=2)),
    "a property": lambda: of_class("twice", property(lambda self: 7.0), lambda o, x: x * o.twice),
    "a descriptor": lambda: of_class("scale", Five(), lambda o, x: x * o.scale),
    "a method of a class": lambda: of_class("half", classmethod(lambda cls: 7.0), lambda o, x: x * o.half()),
    "an operator": lambda: of_class("__mul__", lambda self, x: x * 7, lambda o, x: o * x),
    "a length": lambda: of_class("__len__", lambda self: 7, lambda o, x: x * len(o)),
    "what an operator closes over": closed_over,
    "a builtin": lambda: (hidden, lambda: globals().update(max=lambda a, b: 7.0)),
    "a global": lambda: (named_later, lambda: globals().update(not_there_yet=7.0)),
    "an entry of a dict": lambda: mapping({"a": 1.0}, lambda d: d.update(b=2.0)),
    "the order of a dict": lambda: mapping({"a": 1.0, "b": 5.0}, lambda d: d.update(a=d.pop("a"))),
    "the order of an OrderedDict": lambda: mapping(OrderedDict(a=1.0, b=5.0), lambda d: d.move_to_end("a")),
    "the order of a deque": lambda: (lambda d: ((lambda x: x * d[0]), d.reverse))(deque([2.0, 3.0])),
    "an attribute of a list": lambda: attribute(with_attributes(Numbers(), scale=2.0)),
    "a default by keyword": lambda: (with_default, lambda: setattr(with_default, "__kwdefaults__", {"scale": 7.0})),
    "an argument of a partial": partial_of,
    "an object in a default": keywords,
}


@pytest.mark.parametrize("what", NAMES)
def test_names(what: str) -> None:
    """Names that are hidden, added or replaced between calls, also such as were not there."""

    def program(compiler: Compile) -> Any:
        f, change = NAMES[what]()
        g, seen = compiler(f), []
        try:
            for k in range(8):
                if k == 4:
                    change()
                seen.append(g(cr.arange(3.0)))
        finally:
            sys.modules.pop("user_settings", None)
            for name in ("max", "not_there_yet"):
                globals().pop(name, None)
            with_default.__kwdefaults__ = {"scale": 2.0}
        return seen

    both(program)


def test_constant_result_is_of_its_call() -> None:
    def program(compiler: Compile) -> Any:
        f, seen = compiler(lambda x: (x * 2, cr.tensor([1.0, 2.0], dtype=cr.float64))), []
        for _ in range(6):
            y = f(cr.ones(2))[1]
            seen.append(y.tolist())
            y.fill_(9.0)
        return seen

    both(program)


def test_constant_gradient_is_of_its_call() -> None:
    def program(compiler: Compile) -> Any:
        w: Any = cr.zeros(2, dtype=cr.float64, requires_grad=True)
        seen = []

        def give(x: cr.Tensor) -> cr.Tensor:
            w.grad = cr.tensor([1.0, 2.0], dtype=cr.float64)
            return x * 2

        f = compiler(give)
        for _ in range(6):
            f(cr.ones(2))
            seen.append(plain(w.grad))
            w.grad.mul_(3.0)
        return seen

    both(program)


@pytest.mark.parametrize(
    "write", [lambda w, x: w.add_(x), lambda w, x: w.index_add_(0, cr.tensor([0, 2, 1]), x)], ids=["add", "index_add"]
)
def test_captured_tensor_written_before_backward(write: Any) -> None:
    """A replay counts what it writes outside, as the step does."""
    w = cr.ones(3)
    f = cr.compile(lambda x: write(w, x))
    for _ in range(5):
        v = cr.ones(3, requires_grad=True)
        y = (v * w).sum()
        f(cr.ones(3))
        with pytest.raises(RuntimeError, match="modified|in place"):
            y.backward()


def test_backward_of_a_replay_writes_nothing() -> None:
    """What the replay wrote, and another graph saved since, stays as it is."""
    w, x, v = cr.ones(3), cr.ones(3, requires_grad=True), cr.ones(3, requires_grad=True)
    f = cr.compile(lambda x: w.add_(1) * x)
    for k in range(5):
        y, z = f(x).sum(), (v * w).sum()
        y.backward()
        z.backward()
        assert v.grad is not None and v.grad.tolist() == [sum(range(2, k + 3))] * 3


def test_input_written_by_a_replay_before_backward() -> None:
    f = cr.compile(lambda x: x.add_(1))
    for _ in range(5):
        v, x = cr.ones(3, requires_grad=True), cr.ones(3)
        y = (v * x).sum()
        f(x)
        with pytest.raises(RuntimeError, match="modified|in place"):
            y.backward()


def test_written_input_that_is_captured_once() -> None:
    def program(compiler: Compile) -> Any:
        w, seen = cr.arange(4000.0), []
        f = compiler(lambda x: (x.add_(1), x.mul_(2), x * w)[2])
        for k in range(8):
            seen.append(plain(f(w.view(4000) if k == 6 else cr.full((4000,), float(k)))))
        return seen, w

    both(program, replays=False)


@pytest.mark.parametrize("dtype", [cr.float32, cr.float64])
def test_random_numbers_in_tiles(dtype: cr.dtype) -> None:
    def program(compiler: Compile) -> Any:
        f = compiler(lambda x: (cr.rand(64, 4096, dtype=dtype) * x).softmax(-1).sum(-1))
        return [f(cr.ones(64, 4096, dtype=dtype)) for _ in range(4)]

    both(program)


DRAWS: dict[str, Callable[[cr.Tensor], cr.Tensor]] = {
    "rand": lambda x: cr.rand(5) + x,
    "randint": lambda x: cr.randint(0, 100, (5,)) + x,
    "randperm": lambda x: cr.randperm(5) + x,
    "multinomial": lambda x: cr.multinomial(x.abs() + 1, 3),
    "bernoulli": lambda x: cr.bernoulli(x.abs() + 0.5),
    "dropout": lambda x: F.dropout(x + 1, 0.5),
}


@pytest.mark.parametrize("what", DRAWS)
def test_each_run_draws(what: str) -> None:
    def program(compiler: Compile) -> Any:
        f = compiler(DRAWS[what])
        return [f(cr.zeros(5)) for _ in range(6)], cr.rand(1)

    both(program)


def test_global_that_is_only_set() -> None:
    for k in range(6):
        globals()["last"] = None if k != 3 else 1
        sets_last(cr.ones(2))
        assert last == 2


def test_part_of_an_argument_elsewhere() -> None:
    base = cr.arange(20.0).reshape(5, 4)
    f = cr.compile(lambda x: (x * 2, x[1:]))
    for row in (0, 0, 3, 1):
        y = f(base[row])[1]
        assert y.tolist() == base[row, 1:].tolist()
        y.add_(1)
    assert base.sum().item() == 190 + 4 * 3


def test_result_written_before_backward() -> None:
    w = cr.ones(3, requires_grad=True)
    f = cr.compile(lambda x: (x * w).exp())
    for k in range(5):
        y = f(cr.ones(3))
        z = y.sum()
        if k > 2:
            y.detach().mul_(2)
            with pytest.raises(RuntimeError, match="modified"):
                z.backward()
        else:
            z.backward()


def test_default_dtype_and_graph_of_an_argument() -> None:
    def program(compiler: Compile) -> Any:
        f, seen = compiler(lambda x: x * 2 + cr.ones(3)), []
        for k in range(12):
            x = cr.full((3,), float(k), dtype=cr.float32, requires_grad=k >= 8)
            cr.set_default_dtype(cr.float64 if 4 <= k < 8 else cr.float32)
            seen.append(str(f(x).dtype))
            if k >= 8:
                f(x).sum().backward()
                seen.append(plain(x.grad))
        return seen

    try:
        both(program)
    finally:
        cr.set_default_dtype(cr.float32)


def test_tensor_read_with_and_without_a_graph() -> None:
    def program(compiler: Compile) -> Any:
        w = cr.ones(3)

        def step(x: cr.Tensor) -> cr.Tensor:
            with cr.no_grad():
                scale = w.sum()
            return w * x * scale

        f, seen = compiler(step), []
        for k in range(8):
            w.requires_grad_(k >= 4)
            seen.append(f(cr.ones(3)).requires_grad)
        return seen

    both(program)


def test_same_work_on_turned_operands() -> None:
    def program(compiler: Compile) -> Any:
        f = compiler(lambda x: (x @ x, x @ x.T, x.sum(0), x.T.sum(0), x.softmax(1) - x.T.softmax(1)))
        return [f(cr.arange(64.0).reshape(8, 8) * 0.01 * k) for k in range(5)]

    both(program)


def test_rows_that_read_the_row_behind() -> None:
    def program(compiler: Compile) -> Any:
        def step(x: cr.Tensor) -> cr.Tensor:
            y = x * 2
            y[:-1].add_(x[:-1])
            return y[1:] * 3

        f = compiler(step)
        return [f(cr.arange(1024.0 * 64).reshape(1024, 64) * k) for k in range(5)]

    both(program)


def test_rows_that_read_every_second_row() -> None:
    def program(compiler: Compile) -> Any:
        def step(x: cr.Tensor) -> cr.Tensor:
            y = cr.zeros(2048, 64)
            y[:1024].copy_(x.exp().softmax(1))
            return y[::2] * 3

        f = compiler(step)
        return [f(cr.arange(1024.0 * 64).reshape(1024, 64).sin() * k) for k in range(4)]

    both(program)


def test_result_in_a_tensor_from_outside() -> None:
    def program(compiler: Compile) -> Any:
        w = cr.ones(2048)
        f, seen = compiler(lambda x: cr.mul(x, 2, out=w) * 3), []
        for k in range(6):
            seen += [f(cr.full((2048,), float(k))), w * 1]
        return seen

    both(program)


def test_object_by_keyword() -> None:
    """It is kept, and what the step reads of it is compared."""

    def program(compiler: Compile) -> Any:
        o, seen = Own(), []
        f = compiler(lambda x, o: x * o.gain)
        for k in range(8):
            o.gain = float(k // 3)
            seen.append(f(cr.ones(3), o=o))
        return seen

    both(program)


@pytest.mark.parametrize("none", [False, True])
def test_group_of_parameters_that_have_gradients(none: bool) -> None:
    def program(compiler: Compile) -> Any:
        w, v, seen = cr.nn.Parameter(cr.ones(3)), cr.nn.Parameter(cr.ones(3)), []
        o = optim.SGD([w], lr=0.1)

        def step(x: cr.Tensor) -> Any:
            (w * v * x).sum().backward()
            o.step()
            o.zero_grad()
            return w.detach() * 1

        f = compiler(step)
        for k in range(8):
            if k == 4:
                if none:
                    v.grad = None
                o.add_param_group({"params": [v]})
            seen.append(f(cr.full((3,), 0.5)))
        return seen, w, v

    both(program, replays=False)


def test_hooks_of_an_optimizer() -> None:
    def program(compiler: Compile) -> Any:
        w, seen = cr.nn.Parameter(cr.ones(3)), []
        o = optim.SGD([w], lr=0.1)

        def step(x: cr.Tensor) -> Any:
            (w * x).sum().backward()
            o.step()
            o.zero_grad()
            return w.detach() * 1

        f = compiler(step)
        for k in range(8):
            if k == 4:
                o.register_step_post_hook(lambda *_: (w.data.mul_(0.5), None)[1])
            seen.append(f(cr.full((3,), 0.5)))
        return seen, w

    both(program, replays=False)


@pytest.mark.parametrize("where", ["the module", "all modules"])
@pytest.mark.parametrize("kind", ["forward", "forward_pre"])
def test_hooks_beside_other_hooks(kind: str, where: str) -> None:
    """Of another module there is one already."""

    def program(compiler: Compile) -> Any:
        m, other, seen = nn.Linear(2, 2), nn.Linear(2, 2), []
        handles = [other.register_forward_hook(lambda *_: None), m.register_full_backward_hook(lambda *_: None)]
        f = compiler(cr.no_grad()(lambda x: m(x)))
        double = (lambda m, x, y: y * 2) if kind == "forward" else (lambda m, x: (x[0] * 2,))
        try:
            for k in range(8):
                if k == 4:
                    of: Any = m if where == "the module" else sys.modules["chainrule.nn.module"]
                    add = f"register_{kind}_hook" if where == "the module" else f"register_module_{kind}_hook"
                    handles.append(getattr(of, add)(double))
                seen.append(f(cr.ones(1, 2)))
        finally:
            for handle in handles:
                handle.remove()
        return seen

    both(program)


def test_other_code_in_the_recorded_call() -> None:
    """What it changes was not looked at before: the next call is recorded in its place."""
    settings, sums = {"counts": False}, {"n": 0}

    def count() -> None:
        sums["n"] += 1

    @cr.compile
    def f(x: cr.Tensor) -> cr.Tensor:
        if settings["counts"]:
            count()
        return x * 2

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k in range(6):
            settings["counts"] = k > 0
            f(cr.ones(2))
    assert sums["n"] == 5


def test_two_optimizers_keep_their_plans_apart() -> None:
    """What one step notes while it is recorded is no guard of another's."""
    calls: Any = queue.SimpleQueue()

    def make(k: int) -> Any:
        w = cr.nn.Parameter(cr.ones(3))
        o = optim.SGD([w], lr=0.1, momentum=0.9)

        @cr.compile
        def step() -> None:
            calls.put(k)
            (w * 2).sum().backward()
            o.step()
            o.zero_grad()

        return step, o

    (first, one), (second, _) = make(1), make(2)
    for step in (first, second):
        for _ in range(4):
            step()
    recorded = calls.qsize()
    one.state.clear()
    for _ in range(3):
        second()
    assert calls.qsize() == recorded


def test_profiler_of_the_user_stays() -> None:
    seen: list[str] = []

    def profile(frame: Any, event: str, argument: Any) -> None:
        seen.append(event)

    inner = cr.compile(lambda x: x * 2)
    outer = cr.compile(lambda x: inner(x) + 1)
    before = sys.getprofile()
    try:
        sys.setprofile(profile)
        for _ in range(3):
            outer(cr.ones(2))
        assert sys.getprofile() is profile
    finally:
        sys.setprofile(before)


def test_code_behind_a_compiled_function() -> None:
    """A step goes on noting what it reads after another compiled function has run in it."""
    options = types.SimpleNamespace(scale=2.0)

    def after(x: cr.Tensor) -> Any:
        return x * options.scale

    def program(compiler: Compile) -> Any:
        inner = cr.compile(lambda x: x * 2)
        f, seen = compiler(lambda x: after(inner(x))), []
        for k in range(8):
            options.scale = float(k // 4)
            seen.append(f(cr.ones(2)))
        return seen

    both(program)


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt])
def test_exception_while_recording(kind: type[BaseException]) -> None:
    """Nothing is recorded behind it, and the next call is."""

    @cr.compile
    def f(x: cr.Tensor) -> cr.Tensor:
        if x.ndim and raises[0]:
            raise kind
        return x * 2

    raises = [False]
    f(cr.ones(2))
    raises[0] = True
    with pytest.raises(kind):
        f(cr.ones(2))
    assert not cr._core._recording()
    raises[0] = False
    for _ in range(3):
        f(cr.ones(2))
    assert not f._compiled.lacks()


def test_unrelated_changes_keep_the_plan() -> None:
    """Attributes that the step does not read, and other modules, cost no recording."""
    m, calls = Net().eval(), cast(Any, queue.SimpleQueue())

    @cr.compile
    def f(x: cr.Tensor) -> Any:
        calls.put(1)
        return m(x)

    for k in range(6):
        m.note = k
        nn.Linear(2, 2).train(k % 2 == 0)
        f(cr.ones(2, 6))
    assert calls.qsize() == 2
    for k in range(6):  # two states in turn: a plan for each
        m.gain = (1.5, 0.5)[k % 2]
        f(cr.ones(2, 6))
    assert calls.qsize() == 3


# ---- what a step may not read, or not change ----

counter = itertools.count()
variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable", default=1)
total, large = 0, bytearray(1 << 20)


def counts(x: cr.Tensor) -> cr.Tensor:
    global total
    total += 1
    return x * total


class Keeps(nn.Module):
    def forward(self, x: cr.Tensor) -> cr.Tensor:
        self.last = x * 2
        self.calls: int = getattr(self, "calls", 0) + 1
        return self.last + self.calls


def keeps() -> Callable[[cr.Tensor], Any]:
    kept: list[cr.Tensor] = []

    def f(x: cr.Tensor) -> cr.Tensor:
        kept.append(x)
        return x * 2

    return f


def reads_back() -> Callable[[cr.Tensor], Any]:
    kept: list[int] = []

    def f(x: cr.Tensor) -> cr.Tensor:
        kept.append(1)
        return x * len(kept)

    return f


def adds(kept: Any) -> Callable[[cr.Tensor], Any]:
    def f(x: cr.Tensor) -> cr.Tensor:
        kept.append(len(x))
        return x * 2

    return f


def generates(x: cr.Tensor) -> Any:
    yield x * 2


async def waits(x: cr.Tensor) -> Any:
    return x * 2


UNREPEATABLE: dict[str, tuple[Callable[[], Callable[[cr.Tensor], Any]], str]] = {
    "the clock": (lambda: lambda x: x * time.perf_counter(), r"reads perf_counter\(\) \(.*test_compile_reads.py:\d+\)"),
    "random numbers": (lambda: lambda x: x * random.random(), "random numbers that are not chainrule's"),
    "the environment": (lambda: lambda x: x * len(os.environ["HOME"]), "an environment variable"),
    "getenv": (lambda: lambda x: x * len(os.getenv("HOME", "")), "an environment variable"),
    "a file": (lambda: lambda x: x * len(open(__file__).read()), r"reads open\(\)"),  # noqa: SIM115
    "an identity": (lambda: lambda x: x * (id(x) % 7), r"reads id\(\)"),
    "an iterator": (lambda: lambda x: x * next(counter), "reads counter, a count"),
    "a context variable": (lambda: lambda x: x * variable.get(), r"reads get\(\)"),
    "a large array": (lambda: lambda x: x * large[0], "an array of 1048576 bytes"),
    "a counter": (lambda: counts, "the step changes total"),
    "a module that keeps": (Keeps, "kept outside|the step changes"),
    "a list of tensors": (keeps, "the step changes kept"),
    "a list that it reads": (reads_back, "the step changes kept"),
    "an address": (lambda: lambda x: x * (x.data_ptr() % 3), r"reads data_ptr\(\)"),
    "a version": (lambda: lambda x: x * x._version, "reads _version"),
    "a generator's state": (lambda: lambda x: x * cr.get_rng_state()[0].float(), r"reads get_rng_state\(\)"),
    "a generator": (lambda: generates, "returns a generator"),
    "a coroutine": (lambda: waits, "returns a coroutine"),
    "an object": (lambda: lambda x: types.SimpleNamespace(y=x * 2), "returns a SimpleNamespace"),
}


@pytest.mark.parametrize("what", UNREPEATABLE)
def test_refused_with_a_reason(what: str) -> None:
    make, why = UNREPEATABLE[what]
    f = make()
    fast = cr.compile(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = [fast(cr.ones(3)) for _ in range(3)]
    for result in results:
        if hasattr(result, "close"):
            result.close()
    compiled = fast._compiled if not isinstance(f, nn.Module) else fast.__dict__["_compiled"]
    assert re.search(why, compiled.lacks()), compiled.lacks()
    with pytest.raises(cr.Error, match=why):
        strict = cr.compile(make(), fullgraph=True)
        for _ in range(3):
            if hasattr(result := strict(cr.ones(3)), "close"):
                result.close()


# ---- results ----


def test_results_are_what_eager_gives() -> None:
    """Arguments and captured tensors themselves, one object twice, parts of arguments."""
    base, w, names = cr.arange(6.0).reshape(3, 2), cr.nn.Parameter(cr.ones(2)), ["a", "b"]
    row = base[1]
    f = cr.compile(
        lambda x: {"x": x, "w": w, "row": row, "twice": [y := x * 2, y], "part": x[:1], "none": None, "names": names}
    )
    for k in range(6):
        x = base[0] if k < 3 else cr.full((2,), float(k))
        got = f(x)
        assert got["x"] is x and got["w"] is w and got["row"] is row and got["none"] is None
        assert (
            got["names"] is names
            and got["twice"][0] is got["twice"][1]
            and got["twice"][0].tolist() == (x * 2).tolist()
        )
        got["part"].fill_(-1.0)
        assert x[0].item() == -1
    assert row.tolist() == [2.0, 3.0]


def test_argument_that_is_captured_too() -> None:
    """The argument is returned, also where it is another handle on that memory."""
    w = cr.ones(2)
    f = cr.compile(lambda x: (x, w * 2))
    for k in range(6):
        x = w if k < 3 else w.detach()
        assert f(x)[0] is x


Pair = namedtuple("Pair", "first second")


def test_named_tuple_and_gradient_that_stay_what_they_are() -> None:
    def program(compiler: Compile) -> Any:
        w, seen = cr.ones(2, requires_grad=True), []

        def halve(x: cr.Tensor) -> Pair:
            assert w.grad is not None
            w.grad.mul_(0.5)
            return Pair(x * 2, w.grad * 1)

        f = compiler(halve)
        for k in range(6):
            if k % 3 == 0:
                w.grad = cr.full((2,), float(k))
            g = w.grad
            pair = f(cr.ones(2))
            seen.append([type(pair).__name__, plain(pair.first), plain(pair.second), w.grad is g])
        return seen

    both(program)


MODES: dict[str, Callable[[], Any]] = {
    "no graph": cr.no_grad,
    "inference": cr.inference_mode,
    "autocast": lambda: cr.autocast("cpu", dtype=cr.bfloat16),
    "autocast to another dtype": lambda: cr.autocast("cpu", dtype=cr.float16),
}


@pytest.mark.parametrize("first", MODES)
def test_modes_between_calls(first: str) -> None:
    """Of a step without arguments."""

    def program(compiler: Compile) -> Any:
        x, w = cr.arange(16.0).reshape(4, 4) / 7, cr.full((4, 4), 0.3, requires_grad=True)
        f, seen = compiler(lambda: x @ w), []
        for second in (contextlib.nullcontext, *MODES.values(), contextlib.nullcontext):
            for mode in (MODES[first], second):
                for _ in range(3):
                    with mode():
                        y = f()
                    seen.append([str(y.dtype), plain(y.float())])
        return seen

    both(program)


def test_names_of_arguments() -> None:
    def program(compiler: Compile) -> Any:
        f, seen = compiler(lambda a, b: a - 2 * b), []
        for k in range(8):
            x, y = cr.full((2,), float(k)), cr.ones(2)
            seen.append(f(a=x, b=y) if k < 4 else f(b=x, a=y))
        return seen

    both(program)


def test_leaf_or_result_as_an_argument() -> None:
    def program(compiler: Compile) -> Any:
        w, seen = cr.ones(2, requires_grad=True), []
        f = compiler(lambda x: x * 2 if x.is_leaf else x * 3)
        for k in range(12):
            seen.append(f(w if k % 8 < 4 else w * 1))
        return seen

    both(program)


@pytest.mark.parametrize("kept", [[], deque([1, 2], 2)])
def test_numbers_added_to_a_list(kept: Any) -> None:
    """A log of calls, say: it grows while the function runs itself, and replays leave it as it is."""
    f = cr.compile(adds(kept), fullgraph=True)
    for _ in range(5):
        assert f(cr.ones(2)).tolist() == [2, 2]
    assert f._compiled.last.ready and len(kept) == 2


def test_layouts_in_turn() -> None:
    """Each has a plan of its own."""
    calls, x = cast(Any, queue.SimpleQueue()), cr.arange(64.0).reshape(4, 4, 4)

    @cr.compile
    def f(x: cr.Tensor) -> cr.Tensor:
        calls.put(1)
        return x * 2

    for _ in range(6):
        for axes in ((0, 1, 2), (1, 0, 2), (2, 1, 0), (0, 2, 1)):
            assert f(x.permute(axes)).tolist() == (x * 2).permute(axes).tolist()
    assert calls.qsize() == 8


def test_other_code_in_each_call() -> None:
    """A step that never stays the same is given up."""
    k = 0
    f = cr.compile(lambda x: x * eval(f"lambda: {k}")())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k in range(40):
            assert f(cr.ones(2)).tolist() == [k, k]
    assert re.search("other code than the call before", f._compiled.lacks())


class Interrupts:
    def __float__(self) -> float:
        raise KeyboardInterrupt


def two_optimizers(compiler: Callable[[Any], Any], lr: Any, make: Any = optim.AdamW, which: int = 1) -> Any:
    """Eight calls; an option of one of two optimizers fails in the sixth one."""
    w, v, seen = cr.nn.Parameter(cr.ones(3)), cr.nn.Parameter(cr.ones(3)), []
    one, two = make([w], lr=0.1), make([v], lr=0.1)

    def step(x: cr.Tensor) -> cr.Tensor:
        (w * v * x).sum().backward()
        for o in (one, two):
            o.step()
            o.zero_grad()
        return w.detach() * 1

    f = compiler(step)
    for k in range(8):
        (one, two)[which].param_groups[0]["lr"] = lr if k == 5 else 0.1
        try:
            if lr or k != 5:
                seen.append(plain(f(cr.full((3,), 0.5))))
        except (TypeError, ValueError, KeyboardInterrupt) as e:
            seen.append(type(e).__name__)
            w.grad = v.grad = None
    return seen, w, v


@pytest.mark.parametrize("make", [optim.AdamW, optim.Adafactor])
def test_option_that_fails(make: Any) -> None:
    """The step itself raises the error, at its place."""
    both(lambda compiler: two_optimizers(compiler, "no number", make), replays=False)


@pytest.mark.parametrize("which", [0, 1])
def test_interrupt_before_a_replay(which: int) -> None:
    """What optimizers have counted for it is taken back."""
    seen, *parameters = two_optimizers(cr.compile, Interrupts(), which=which)
    assert seen.pop(5) == "KeyboardInterrupt"
    assert plain([seen, *parameters]) == plain([*two_optimizers(lambda f: f, None)])


def test_captured_tensor_that_is_an_argument_once() -> None:
    """It stays itself when other tensors are the argument."""

    def program(compiler: Compile) -> Any:
        w = cr.ones(3)
        f, seen = compiler(lambda x: w.add_(1) * x), []
        for k in range(8):
            seen.append(plain(f(w if k < 3 else cr.full((3,), float(k)))))
        return seen, w

    both(program, replays=False)


def test_graphs_that_end_at_an_input() -> None:
    """A parameter that the step reads, and from which its argument comes, too; results that retain their gradients."""

    def program(compiler: Compile) -> Any:
        w, v = cr.ones(3, requires_grad=True), cr.full((3,), 2.0, requires_grad=True)
        h = v * 3
        h.retain_grad()
        f, g, seen = compiler(lambda x: (x * w).sum()), compiler(lambda x: (x * h).sum()), []
        for k in range(6):
            w.grad = v.grad = h.grad = None
            f(w * k).backward()
            y = g(w)
            seen += [plain([w.grad, h.grad])]
            y.backward(retain_graph=True)
            seen += [plain([w.grad, v.grad, h.grad])]
        return seen

    both(program, replays=False)


def test_input_whose_graph_was_freed() -> None:
    def program(compiler: Compile) -> Any:
        w, v = cr.ones(3, requires_grad=True), cr.full((3,), 2.0, requires_grad=True)
        f, seen = compiler(lambda x: (x * v).sum()), []
        for k in range(6):
            x = w * w * k
            x.sum().backward()
            seen.append(cr.autograd.grad(f(x), v)[0])
        return seen

    both(program)


class Scaled(cr.autograd.Function):
    """Its gradient reads a number, and changes a tensor."""

    scale = 2.0
    calls = cr.zeros(1)

    @staticmethod
    def forward(ctx: Any, x: cr.Tensor) -> cr.Tensor:
        return x * 1

    @staticmethod
    def backward(ctx: Any, g: cr.Tensor) -> cr.Tensor:
        Scaled.calls.add_(1)
        return g * Scaled.scale


@pytest.mark.parametrize("inside", [False, True])
def test_gradient_of_a_function_of_the_user(inside: bool) -> None:
    """With its backward pass inside the step there is a plan; a forward pass alone runs as it is."""

    def program(compiler: Compile) -> Any:
        w, seen = cr.ones(2, requires_grad=True), []
        Scaled.scale, Scaled.calls = 2.0, cr.zeros(1)

        def step(x: cr.Tensor) -> cr.Tensor:
            y: cr.Tensor = Scaled.apply(x * w).sum() * Scaled.calls
            if inside:
                y.backward()
            return y.detach() if inside else y

        f = compiler(step)
        for k in range(8):
            Scaled.scale = 7.0 if k > 3 else 2.0
            w.grad = None
            y = f(cr.full((2,), float(k)))
            if not inside:
                y.backward()
            seen.append(plain([y.detach(), w.grad, Scaled.calls]))
        if f in compiler.made:
            assert inside or "backward pass that has not begun" in f._compiled.lacks()
        return seen

    both(program, replays=inside)


class Host(cr.autograd.Function):
    """A gradient that the host makes."""

    @staticmethod
    def forward(ctx: Any, x: cr.Tensor) -> cr.Tensor:
        return x * 1

    @staticmethod
    def backward(ctx: Any, g: cr.Tensor) -> cr.Tensor:
        return cr.tensor([[1.0, 2.0, 3.0, 4.0]] * 2, dtype=cr.float64)


def numbers() -> cr.Tensor:
    return cr.tensor([[1.0, 2.0]] * 3, dtype=cr.float64)


HOST: dict[str, Callable[[cr.Tensor], Any]] = {
    "a gradient to which that of a norm is added": lambda x: (
        F.layer_norm(h := x * 2, (4,)).pow(2).sum() + Host.apply(h).sum()
    ),
    "index_add_": lambda x: numbers().index_add_(0, cr.tensor([0, 2]), x[:, :2]),
    "index_copy_": lambda x: numbers().index_copy_(0, cr.tensor([0, 2]), x[:, :2]),
}


@pytest.mark.parametrize("what", HOST)
def test_numbers_of_the_host_that_a_kernel_changes(what: str) -> None:
    """They begin as they were in each run."""

    def program(compiler: Compile) -> Any:
        def step(x: cr.Tensor) -> Any:
            y = HOST[what](x)
            return cr.autograd.grad(y, x)[0] if x.requires_grad else y

        f, gradient = compiler(step), what.startswith("a gradient")
        x = cr.arange(8.0, dtype=cr.float64).reshape(2, 4)
        return [f((x.sin() * (k - 2)).requires_grad_(gradient)) for k in range(6)]

    both(program)


def test_input_written_between_replay_and_backward() -> None:
    w = cr.ones(3, requires_grad=True)
    f = cr.compile(lambda x: (x * w).exp().sum())
    for k in range(4):
        x = cr.full((3,), 1.0).mul_(2)
        y = f(x)
        if k == 3:
            x.add_(1)
            with pytest.raises(RuntimeError, match="modified in place"):
                y.backward()
        else:
            y.backward()


# ---- writes: versions rise as in the step itself ----


def no_grad(f: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def g(w: Any, x: Any) -> None:
        with cr.no_grad():
            f(w, x)

    return g


WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "a parameter": no_grad(lambda w, x: w.add_(1)),
    "its data": lambda w, x: w.data.add_(1),
    "its data and itself": no_grad(lambda w, x: (w.data.add_(1), w.mul_(2))),
    "detached": lambda w, x: w.detach().add_(1),
    "random numbers": no_grad(lambda w, x: w.normal_()),
    "the argument": lambda w, x: x.add_(1),
    "a part of it": lambda w, x: x[0].mul_(2),
    "the argument's data": lambda w, x: x.data.add_(1),
    "an output": lambda w, x: cr.mul(x, 2, out=x),
    "nothing": lambda w, x: w * x,
}


@pytest.mark.parametrize("own", ["main counter", "own counter of w", "own counter of x"])
@pytest.mark.parametrize("name", WRITES)
def test_versions_rise(name: str, own: str) -> None:
    def program(compiler: Compile) -> Any:
        w, seen = nn.Parameter(cr.randn(3, 3)), []
        if own.endswith("w"):
            w.data = cr.randn(3, 3)
        f, alias = compiler(lambda x: (WRITES[name](w, x), x * 1)[1]), w.data
        for _ in range(6):
            x = cr.randn(3, 3)
            if own.endswith("x"):
                x.data = cr.randn(3, 3)
            all_of = (w, alias, x, x.data)
            before = [t._version for t in all_of]
            f(x)
            seen.append([t._version > was for t, was in zip(all_of, before, strict=True)])
        return seen

    both(program)


def test_writes_are_noticed_by_graphs_outside() -> None:
    """Of a weight that was given other memory, which counts its writes by itself."""

    def program(compiler: Compile) -> Any:
        m, seen = nn.Linear(3, 3), []
        m.double().float()
        o = optim.SGD(m.parameters(), lr=0.1)

        def train(x: Any) -> None:
            m(x).sum().backward()
            o.step()
            o.zero_grad()

        step = compiler(train)
        forward = compiler(lambda x: m(x))
        for k in range(6):
            x = cr.randn(2, 3, requires_grad=True)
            y = m(x) if k % 2 else forward(x)
            step(cr.ones(2, 3))
            try:
                y.square().sum().backward()
            except RuntimeError as e:
                seen.append("modified in place" in str(e))
        return seen, m.weight

    both(program)


# ---- errors of what tensors hold: also where nothing uses the result ----

INDEXED: dict[str, Callable[[Any, Any], Any]] = {
    "a part": lambda t, i: t[i],
    "of int32": lambda t, i: t[i.int()],
    "computed": lambda t, i: t[i + 0],
    "with strides": lambda t, i: t[cr.stack([i, i], 1)[:, 0]],
    "gather": lambda t, i: t.gather(0, i),
    "index_select": lambda t, i: t.index_select(0, i),
    "two axes": lambda t, i: t.reshape(10, 1)[i, i % 1],
    "index_put": lambda t, i: t.clone().index_put_((i,), cr.ones(3)),
    "scatter": lambda t, i: t.clone().scatter_(0, i, cr.ones(3)),
    "scatter_reduce": lambda t, i: t.scatter_reduce(0, i, cr.ones(3), "amax"),
    "index_add": lambda t, i: t.index_add(0, i, cr.ones(3)),
    "embedding": lambda t, i: F.embedding(i, t.reshape(10, 1)),
    "cross_entropy": lambda t, i: F.cross_entropy(t.reshape(1, 10).expand(3, 10), i),
    "a quotient": lambda t, i: 100 // (i - 5),
    "a remainder": lambda t, i: 100 % (i - 5),
}


@pytest.mark.parametrize("used", [True, False])
@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("name", INDEXED)
def test_bad_indices(name: str, given: bool, used: bool) -> None:
    """The step itself raises the error, with what it has done by then."""

    def program(compiler: Compile) -> Any:
        t, outside, w, seen = cr.arange(10.0), cr.tensor([1, 2, 3]), cr.ones(1, requires_grad=True), []

        def step(x: cr.Tensor, i: Any = None) -> Any:
            w.grad = None
            found = INDEXED[name](t, outside if i is None else i)
            (w * x.sum()).sum().backward()
            return x * 2 + (found.sum() if used else 0)

        f = compiler(step)
        for k in range(10):
            values = [1, 12 if k in (4, 5) else 5 if k == 7 else 2, -12 if k == 6 else 3]
            outside.copy_(cr.tensor(values))
            w.grad = cr.full((1,), 7.0)
            try:
                seen.append(f(cr.ones(2), outside.clone()) if given else f(cr.ones(2)))
            except (IndexError, RuntimeError, ZeroDivisionError, ValueError) as e:
                seen.append(str(e))
            seen.append(plain(w.grad))
        return seen

    both(program)


# ---- threads, forks, copies ----


def test_threads_record_once() -> None:
    runs, w = cast(Any, queue.SimpleQueue()), cr.randn(16, 16)

    def step(x: cr.Tensor) -> cr.Tensor:
        runs.put(1)
        time.sleep(0.003)
        return (x @ w).relu() + 1

    f, x = cr.compile(step), cr.randn(16, 16)
    want, gate, wrong = f(x).tolist(), threading.Barrier(40), []

    def work() -> None:
        gate.wait()
        if f(x).tolist() != want:
            wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(40)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    before = runs.qsize()
    assert f(x).tolist() == want and not wrong and runs.qsize() == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_fork_while_another_thread_records() -> None:
    w, x, stop = cr.randn(20, 20), cr.randn(20, 20), threading.Event()

    def record() -> None:
        f = cr.compile(lambda x: (x @ w).relu())
        for _ in range(3):
            f(x)

    shared = cr.compile(lambda x: (x @ w).tanh())
    want = [shared(x).tolist() for _ in range(3)][0]

    def busy() -> None:
        while not stop.is_set():
            record()
            shared(x)

    other = threading.Thread(target=busy)
    other.start()
    try:
        for _ in range(20):
            pid = os.fork()
            if not pid:
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                signal.alarm(20)
                record()
                os._exit(0 if shared(x).tolist() == want else 1)
            assert os.waitpid(pid, 0)[1] == 0
    finally:
        stop.set()
        other.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_child_records_what_its_parent_was_recording() -> None:
    f = cr.compile(lambda x: x * 2)
    x = cr.ones(2)
    f(x)
    (known,) = f._compiled.plans.values()
    known.recorders[os.getpid()] = object()  # as if another thread did
    f(x)
    assert f._compiled.lacks()
    pid = os.fork()
    if not pid:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(20)
        f(x)
        os._exit(bool(f._compiled.lacks()))
    assert os.waitpid(pid, 0)[1] == 0


def test_a_compiled_function_is_freed() -> None:
    """Its guards hold what it reads, and the collector sees them."""
    m = Net().eval()
    m.run = cr.compile(lambda x, m=m: m(x))
    for _ in range(3):
        m.run(cr.ones(2, 6))
    assert m.run._compiled.last.ready
    gone = weakref.ref(m)
    del m
    gc.collect()
    assert gone() is None


def test_an_optimizer_is_freed() -> None:
    c = Changed("adamw")

    def step(x: cr.Tensor, c: Changed = c) -> None:
        c.m(x).sum().backward()
        c.o.step()
        c.o.zero_grad()

    f = cr.compile(step)
    for _ in range(4):
        f(cr.ones(4, 6))
    assert f._compiled.last.ready
    gone = weakref.ref(c.o)
    del c, f, step
    gc.collect()
    assert gone() is None


class Named:
    def __init__(self, k: float) -> None:
        self.k, self.w = k, cr.full((3,), k)

    def get(self) -> float:
        return self.k


def from_proxy(proxy: Any) -> float:
    try:
        k: float = proxy.k
        return k
    except ReferenceError:
        return 7.0


# what is kept of an object, and what a step reads of it
WEAK: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "reference": (weakref.ref, lambda r: r().k if r() else 7.0),
    "tensor behind one": (weakref.ref, lambda r: r().w if r() else 7.0),
    "reference to a tensor": (lambda o: weakref.ref(o.w), lambda r: 7.0 if r() is None else r()),
    "list of references": (lambda o: [weakref.ref(o)], lambda r: sum(x().k for x in r if x()) + 7.0),
    "method": (lambda o: weakref.WeakMethod(o.get), lambda r: r()() if r() else 7.0),
    "proxy": (weakref.proxy, from_proxy),
    "values": (lambda o: weakref.WeakValueDictionary(a=o), lambda r: r["a"].k if "a" in r else 7.0),
    "keys": (lambda o: weakref.WeakKeyDictionary({o: 2.0}), lambda r: sum(r.values()) + len(r)),
    "set": (lambda o: weakref.WeakSet([o]), lambda r: sum(x.k for x in r) + 7.0),
}


@pytest.mark.parametrize("kind", WEAK)
def test_weak_references(kind: str) -> None:
    """A plan does not keep what they name alive, and sees that it has ended."""
    make, read = WEAK[kind]

    def program(compiler: Compile) -> Any:
        owner, seen = [Named(2.0)], []
        kept = make(owner[0])
        f = compiler(lambda x: x * read(kept))
        for k in range(9):
            if k == 3:
                owner[0].k = 3.0
            if k == 6:
                gone = weakref.ref(owner.pop())
                gc.collect()
                seen.append(gone() is None)
            seen.append(plain(f(cr.ones(3))))
        return seen

    both(program)


def test_a_replaced_parameter_ends() -> None:
    """Also what a plan returns of it; and a backward pass behind the plan finds only what eager finds."""

    def program(compiler: Compile) -> Any:
        m, w, seen = nn.Linear(3, 3), cr.randn(3, 3, requires_grad=True), []
        f = compiler(lambda x: (m(x) @ w, m.weight, [m.bias]))
        for _ in range(3):
            f(cr.ones(2, 3))[0].sum().backward()
        m.weight.grad = w.grad  # one tensor for both
        y = f(cr.ones(2, 3))[0]
        gone = weakref.ref(m.weight)
        m.weight = nn.Parameter(cr.ones(3, 3))
        gc.collect()
        seen.append(gone() is None)
        y.square().sum().backward()
        for _ in range(3):
            f(cr.ones(2, 3))[0].sum().backward()
        return seen, w.grad, m.weight.grad

    both(program)


def test_objects_end_while_they_are_compared() -> None:
    """A guard that runs a user's code may end the object of a guard behind it."""
    shared: dict[str, Any] = {"o": None}

    class Drops:
        def __getattribute__(self, name: str) -> Any:
            if name == "k" and armed:
                shared["o"] = None
                gc.collect()
            return object.__getattribute__(self, name)

        __slots__ = ("k",)
        k: float

    armed: list[int] = []
    for k in range(6):
        drops, shared["o"], last = Drops(), Named(2.0), Named(3.0)
        drops.k = 1.0
        weak, behind = weakref.ref(shared["o"]), weakref.ref(last)

        def step(x: Any, drops: Any = drops, weak: Any = weak, behind: Any = behind) -> Any:
            return x * drops.k * (weak().k if weak() else 7.0) * behind().k

        f = cr.compile(step)
        for _ in range(3):
            assert f(cr.ones(2)).tolist() == [6.0, 6.0]
        armed.append(k)
        assert f(cr.ones(2)).tolist() == [21.0, 21.0]
        armed.clear()


def test_memory_of_gradients_and_captured_tensors_is_freed() -> None:
    w: Any = cr.ones(500, requires_grad=True)
    reads = cr.compile(lambda: w.grad.norm())
    in_use = []
    for k in range(40):
        w.grad = cr.full((500,), float(k))
        reads()
        captured = cr.ones(700)
        f = cr.compile(lambda x, captured=captured: x * captured)
        for _ in range(3):
            f(cr.ones(700))
        del f, captured
        gc.collect()
        in_use.append(cr.memory_stats("cpu")[0])
    assert reads._compiled.last.ready and in_use[-1] == in_use[9]


def test_memory_of_graphs_from_outside_is_freed() -> None:
    """A leaf and the result of an op that a graph goes on to, and an argument that is captured too."""

    def use() -> None:
        w, x = cr.ones(800, requires_grad=True), cr.ones(800)
        h = (w * 1).exp()
        f = cr.compile(lambda y: (h * w * x * y).sum())
        for _ in range(4):
            f(x).backward(retain_graph=True)
        assert f._compiled.last.ready

    in_use = []
    for _ in range(3):
        use()
        gc.collect()
        in_use.append(cr.memory_stats("cpu")[0])
    assert in_use[1] == in_use[2]


# ---- check ----


def test_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """The state of an object of another extension is not compared; check finds it."""
    items: Any = queue.SimpleQueue()
    items.put(1)
    w = cr.ones(3, requires_grad=True)

    def step(x: cr.Tensor) -> cr.Tensor:
        (w * x * items.qsize()).sum().backward()
        return (x * 2).detach()

    monkeypatch.setenv("CHAINRULE_COMPILE_CHECK", "1")
    for f in (cr.compile(step, check=True), cr.compile(step)):
        w.grad = None
        for _ in range(4):
            f(cr.ones(3))
        assert w.grad is not None and w.grad.tolist() == [4.0 * items.qsize()] * 3
        items.put(1)
        with pytest.raises(RuntimeError, match="a replay differs from the step itself: gradient 0"):
            f(cr.ones(3))


CHECKED: dict[str, Callable[[Any, cr.Tensor, cr.Tensor], Any]] = {
    "result 0": lambda n, w, x: x * n(),
    "written tensor 0": lambda n, w, x: (w.add_(n()), None)[1],
    "generator 0": lambda n, w, x: (cr.rand(100 * n()), x * 2)[1],
}


@pytest.mark.parametrize("what", CHECKED)
def test_check_of_what_a_step_leaves(what: str) -> None:
    items: Any = queue.SimpleQueue()
    items.put(1)
    w = cr.ones(3)
    f = cr.compile(lambda x: CHECKED[what](items.qsize, w, x), check=True)
    for _ in range(4):
        f(cr.ones(3))
    items.put(1)
    with pytest.raises(RuntimeError, match=f"a replay differs from the step itself: {what}"):
        f(cr.ones(3))


def test_check_of_a_training() -> None:
    losses = []
    for options in ({"disable": True}, {"check": True}):
        cr.manual_seed(0)
        c = Changed("adamw")

        def step(x: cr.Tensor, c: Changed = c) -> cr.Tensor:
            loss: cr.Tensor = c.m(x).square().mean() + cr.rand(1).sum()
            loss.backward()
            c.o.step()
            c.o.zero_grad()
            return loss.detach()

        f = cr.compile(step, **options)  # type: ignore[arg-type]
        losses.append([f(cr.randn(8, 6)).item() for _ in range(6)])
    assert losses[0] == losses[1]


cached_from = {"a": 2.0}
cached_scale = 1.0


def behind_the_cache() -> float:
    return cached_scale * cached_from["a"]


@functools.lru_cache
def cached() -> float:
    return behind_the_cache()


class WithCache:
    factor = 2.0

    @functools.lru_cache  # noqa: B019
    def cached(self) -> float:
        return self.factor


def test_a_cache_that_was_filled_before() -> None:
    """Its code does not run in the recordings; once it is emptied, a call reads again what a replay must know."""
    global cached_scale
    here = 3.0
    with_cache = WithCache()

    @functools.cache
    def of_cell() -> float:
        return here

    full = cached(), with_cache.cached(), of_cell()
    assert full == (2, 2, 3)
    f = cr.compile(lambda x: x * cached() + with_cache.cached() - of_cell())
    for _ in range(3):
        assert f(cr.tensor([1.0])).tolist() == [1]
    cached_from["a"] = 5.0
    cached.cache_clear()
    assert f(cr.tensor([1.0])).tolist() == [4]
    cached_scale = 2.0
    cached.cache_clear()
    assert f(cr.tensor([1.0])).tolist() == [9]
    with_cache.factor = 4.0
    WithCache.cached.cache_clear()
    assert f(cr.tensor([1.0])).tolist() == [11]
    here = 1.0
    of_cell.cache_clear()
    assert f(cr.tensor([1.0])).tolist() == [13]
    assert not f._compiled.lacks()
    cached_scale = 1.0
