"""Subclasses of Tensor: results keep the class, or are what its ``__torch_function__`` says, as PyTorch's."""

from __future__ import annotations

import copy
import gc
import operator
import pickle
from collections.abc import Callable
from typing import Any

import chainrule as cr
import pytest

try:
    import torch
except ImportError:
    torch: Any = None  # type: ignore[no-redef]
BOTH = [cr] if torch is None else [cr, torch]
both = pytest.mark.parametrize("lib", BOTH, ids=lambda lib: lib.__name__)


class Sub(cr.Tensor):
    """For pickle."""


def classes(lib: Any) -> dict[str, Any]:
    base = lib.Tensor

    class Logged(base):  # type: ignore[misc, valid-type]
        log: list[str] = []

        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            cls.log.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs or {})

    class Refusing(base):  # type: ignore[misc, valid-type]
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is base.add or func is lib.add:
                return "added"
            plain = [a.as_subclass(base) if isinstance(a, cls) else a for a in args]
            return func(*plain, **(kwargs or {}))

    sub = type("Sub", (base,), {})
    return {
        "sub": sub,
        "below": type("Below", (sub,), {}),
        "other": type("Other", (base,), {}),
        "logged": Logged,
        "refusing": Refusing,
    }


CALLS: list[Callable[..., Any]] = [
    lambda lib, x, s, k: s + 1,
    lambda lib, x, s, k: 1 + s,
    lambda lib, x, s, k: x + s,
    lambda lib, x, s, k: s * k["below"],
    lambda lib, x, s, k: k["below"] - s,
    lambda lib, x, s, k: s + k["other"],
    lambda lib, x, s, k: s > 2,
    lambda lib, x, s, k: -s,
    lambda lib, x, s, k: abs(s),
    lambda lib, x, s, k: 2 - s,
    lambda lib, x, s, k: s / 2,
    lambda lib, x, s, k: s // 2,
    lambda lib, x, s, k: s**2,
    lambda lib, x, s, k: 2**s,
    lambda lib, x, s, k: s @ x.T,
    lambda lib, x, s, k: x @ s.T,
    lambda lib, x, s, k: lib.nn.Parameter(x.clone()) + s,
    lambda lib, x, s, k: lib.nn.Parameter(x.clone()) * 2,
    lambda lib, x, s, k: s[0],
    lambda lib, x, s, k: s[x > 2],
    lambda lib, x, s, k: list(s),
    lambda lib, x, s, k: s.T,
    lambda lib, x, s, k: s.mT,
    lambda lib, x, s, k: s.data,
    lambda lib, x, s, k: s.detach(),
    lambda lib, x, s, k: s.sum(),
    lambda lib, x, s, k: s.max(1),
    lambda lib, x, s, k: s.split(1),
    lambda lib, x, s, k: lib.cat([x, s]),
    lambda lib, x, s, k: lib.stack((s, s), dim=1),
    lambda lib, x, s, k: lib.where(x > 2, s, x),
    lambda lib, x, s, k: lib.einsum("ij->ji", s),
    lambda lib, x, s, k: lib.einsum("ij,kj->ik", x, s),
    lambda lib, x, s, k: s.sum().item(),
    lambda lib, x, s, k: s.tolist(),
    lambda lib, x, s, k: tuple(s.shape),
    lambda lib, x, s, k: lib.nn.functional.relu(s),
    lambda lib, x, s, k: lib.nn.functional.linear(s, lib.ones(2, 3)),
    lambda lib, x, s, k: lib.nn.functional.mse_loss(s, x),
    lambda lib, x, s, k: s.clone().add_(1),
    lambda lib, x, s, k: lib.add(s, x, alpha=2),
    lambda lib, x, s, k: s.to(lib.float64),
    lambda lib, x, s, k: lib.zeros_like(s),
    lambda lib, x, s, k: s.new_zeros(2),
    lambda lib, x, s, k: s.reshape(-1).view(3, 2),
    lambda lib, x, s, k: copy.copy(s),
    lambda lib, x, s, k: s.as_subclass(lib.Tensor),
    lambda lib, x, s, k: hasattr((s.__dict__.update(mark=3), s + 1)[1], "mark"),
    lambda lib, x, s, k: k["logged"] + 1,
    lambda lib, x, s, k: lib.sum(k["logged"], dim=0, keepdim=True),
    lambda lib, x, s, k: k["logged"].mean(dim=1),
    lambda lib, x, s, k: lib.cat([x, k["logged"]]),
    lambda lib, x, s, k: (k["logged"][0], 3 - k["logged"], -k["logged"], k["logged"] == 1),
    lambda lib, x, s, k: k["logged"] + s,
    lambda lib, x, s, k: (k["refusing"].add(1), lib.add(x, k["refusing"]), k["refusing"] + 1, k["refusing"] * 2),
]


def described(x: Any) -> Any:
    if isinstance(x, tuple | list) and type(x).__name__ != "Size":
        return [described(v) for v in x]
    return (type(x).__name__, x.tolist()) if hasattr(x, "tolist") else x


@pytest.mark.parametrize("call", CALLS, ids=range(len(CALLS)))
def test_results_are_pytorchs(call: Any) -> None:
    found = []
    for lib in BOTH:
        x = lib.arange(6.0).reshape(2, 3)
        made = classes(lib)
        objects = {name: x.clone().as_subclass(made[name]) for name in made}
        made["logged"].log.clear()
        try:
            result = call(lib, x, objects["sub"], objects)
        except TypeError:
            result = "TypeError"
        log = [*made["logged"].log]
        with lib.no_grad():
            found.append((described(result), log if result != "TypeError" else None))
    assert found[0] == found[-1]


@both
def test_gradients_pass(lib: Any) -> None:
    sub = classes(lib)["sub"]
    leaf = lib.ones(3, requires_grad=True)
    x = leaf.as_subclass(sub)
    y = (x * x).sum()
    assert type(x) is sub and type(y) is sub and not x.is_leaf
    y.backward()
    assert leaf.grad.tolist() == [2, 2, 2] and type(leaf.grad) is lib.Tensor


@both
def test_other_classes(lib: Any) -> None:
    class Scalar:
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is lib.mean:
                return types, kwargs
            return "added" if func is lib.add else NotImplemented

    one = Scalar()
    assert lib.mean(one) == ((Scalar,), None) and lib.mean(one, dim=0)[1] == {"dim": 0}
    assert lib.add(lib.ones(2), one) == lib.add(one, lib.ones(2)) == "added"
    with pytest.raises(TypeError, match="no implementation found|Multiple dispatch failed"):
        lib.sum(one)
    with pytest.raises(TypeError):
        lib.sum(object())


def test_calls_inside_a_conversion() -> None:
    """The class of an operand counts, whatever the code of a later argument calls."""

    class Late:
        def __index__(self) -> int:
            cr.sum(cr.ones(2), dim=0)
            return 2

    x = cr.ones(2).as_subclass(Sub)
    late: Any = Late()
    assert type(cr.add(x, x, alpha=late)) is Sub and type(cr.add(cr.ones(2), cr.ones(2), alpha=late)) is cr.Tensor
    assert type(x.add(1, alpha=late)) is Sub and x.add(1, alpha=late).tolist() == [3, 3]


def test_plain_results_inside() -> None:
    from chainrule._subclass import DisableTorchFunctionSubclass

    x = cr.ones(2).as_subclass(Sub)
    with DisableTorchFunctionSubclass():
        assert type(x + 1) is cr.Tensor and type(x[0]) is cr.Tensor
        assert type(cr._core._disabled_torch_function_impl(cr.add, (), (x, 1), None)) is cr.Tensor
        assert type(x + 1) is cr.Tensor  # after a call inside
    assert type(x + 1) is Sub and type(cr.nn.Buffer(cr.ones(1)) + 1) is cr.Tensor
    for bad in (int, 3):
        with pytest.raises(TypeError):
            x.as_subclass(bad)
    assert "1., 1." in repr(x)


def test_copies_and_pickles() -> None:
    x: Any = cr.ones(2).as_subclass(Sub)
    x.note = [1]
    twin: Any
    for twin in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert type(twin) is Sub and vars(twin)["note"] == [1] and twin.tolist() == [1, 1]


def test_no_object_is_kept() -> None:
    """The results and the arguments of calls with subclasses are freed."""
    refusing = classes(cr)["refusing"]
    x, y = cr.ones(2).as_subclass(Sub), cr.ones(2).as_subclass(refusing)

    def calls() -> None:
        for _ in range(50):
            x.max(0), cr.cat([x, x]), x + 1, 1 - x, x[0], list(x), -x, x.sum(0, keepdim=True), y * 2, y + 1
            cr.einsum("i,i", x, x)
            with pytest.raises(TypeError):
                cr.sum(object())  # type: ignore[arg-type]

    calls()
    gc.collect()
    before = len(gc.get_objects())
    calls()
    gc.collect()
    assert len(gc.get_objects()) - before < 50


@pytest.mark.parametrize("f", [operator.invert, lambda x: x[7], lambda x: x.mT, lambda x: x & 1.5])
def test_failures_of_subclasses(f: Callable[[Any], Any]) -> None:
    """What fails for a tensor fails likewise for one of a subclass."""
    found = []
    for x in (cr.ones(2), Sub([1.0, 1.0])):
        with pytest.raises((RuntimeError, IndexError, TypeError)) as failed:
            f(x)
        found.append((type(failed.value), str(failed.value)))
    assert found[0] == found[1]
