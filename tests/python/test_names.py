"""Every function and method of the module, found by introspection, against PyTorch: see table.py and compare.py.

CHAINRULE_TEST_FULL=1 runs every call of the table, otherwise a part of them that is drawn by CHAINRULE_TEST_SEED."""

from __future__ import annotations

import os
import random
from typing import Any

import chainrule as cr
import pytest
import table
from compare import compare
from conftest import FULL
from differences import expected

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed: compared with stored results only (test_stored.py)")

SEED = os.environ.get("CHAINRULE_TEST_SEED", "1")
PART = 40  # calls of each name


def public(owner: Any) -> list[str]:
    return [n for n in dir(owner) if callable(getattr(owner, n)) and not n.startswith("__") and not isinstance(getattr(owner, n), type)]


FUNCTIONS = [n for n in public(cr) if type(getattr(cr, n)).__name__ == "builtin_function_or_method"]
METHODS = public(cr.Tensor)
FORMS = [(n, False) for n in FUNCTIONS] + [(n, True) for n in METHODS]
RANDOM = set(
    "rand randn randint randperm normal bernoulli multinomial rand_like randn_like randint_like empty empty_like new_empty manual_seed uniform_ normal_ "
    "log_normal_ exponential_ cauchy_ geometric_ bernoulli_ random_".split()
)


def cases(name: str) -> table.Cases | None:
    return table.ROWS.get(name) or table.ROWS.get(name.removesuffix("_"))


def oracle(name: str, method: bool) -> Any:
    """PyTorch's function for a name of ours; where it has only the other form, that one."""
    for owner in (torch.Tensor, torch, torch.nn.functional) if method else (torch, torch.nn.functional, torch.Tensor):
        if hasattr(owner, name):
            return getattr(owner, name)
    if name.endswith("_"):
        return written(oracle(name[:-1], method))
    return None


def written(plain: Any) -> Any:
    """The in-place form of a function that has none in PyTorch."""

    def f(x: Any, *args: Any, **kwargs: Any) -> Any:
        y = plain(x, *args, **kwargs)
        if not torch.can_cast(y.dtype, x.dtype):
            raise RuntimeError(f"result type {y.dtype} can't be cast to {x.dtype}")
        return x.copy_(y)

    return f


def label(form: tuple[str, bool]) -> str:
    return f"Tensor.{form[0]}" if form[1] else form[0]


@pytest.mark.parametrize("form", FORMS, ids=label)
def test_name(form: tuple[str, bool]) -> None:
    name, method = form
    rows = cases(name)
    assert rows, f"{label(form)} has no row in table.py"
    calls = list(rows())
    f, g = getattr(cr.Tensor if method else cr, name), oracle(name, method)
    if not calls:
        return
    assert g, f"PyTorch has no {name}: its row in table.py must be empty, and a test elsewhere"
    if not FULL and len(calls) > PART:
        calls = random.Random(f"{SEED} {name}").sample(calls, PART)
    in_place = name.endswith("_")
    wrong = []
    for call in calls:
        for grad in (False, True):
            found = compare(f, g, torch, call, grad=grad, in_place=in_place, values=name not in RANDOM)
            if found and not expected(name, call, found):
                wrong.append(f"{label(form)}{call}: {found}")
                break
    assert not wrong, f"{len(wrong)} of {len(calls)} calls differ:\n" + "\n".join(wrong[: 400 if FULL else 20])


def spoiled(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[table.Call]:
    """The same call with an argument missing, added, unknown, given twice, or of a wrong type."""
    wrong: list[Any] = [None, "x", 1.5, [1.5], {}, 2**70, X]
    calls = [table.call(*args[:-1], **kwargs)] if args else []
    calls += [table.call(*args, *[None] * 12, **kwargs), table.call(*args, **kwargs, no_such_name=1)]
    if args:
        calls.append(table.call(*args, **kwargs, input=args[0]))
    for i in range(len(args)):
        calls += [table.call(*args[:i], w, *args[i + 1 :], **kwargs) for w in wrong]
    for k in kwargs:
        calls += [table.call(*args, **{**kwargs, k: w}) for w in wrong]
    return calls


X = table.X((2,), grad=False)


@pytest.mark.parametrize("form", FORMS, ids=label)
def test_kinds_of_errors(form: tuple[str, bool]) -> None:
    """Where PyTorch refuses the arguments, so do we, with the same kind of exception."""
    name, method = form
    rows = cases(name)
    assert rows
    calls = list(rows())
    f, g = getattr(cr.Tensor if method else cr, name), oracle(name, method)
    wrong = []
    for call in calls[:1] + calls[-1:] if calls else []:
        for bad in spoiled(*call):
            found = compare(f, g, torch, bad, grad=False, in_place=name.endswith("_"), values=False)
            if found and "PyTorch gives" not in found and found.startswith(("gives", "raises")) and not expected(name, bad, found):
                wrong.append(f"{label(form)}{bad}: {found}")
    assert not wrong, f"{len(wrong)} calls differ:\n" + "\n".join(wrong)
