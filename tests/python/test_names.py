"""Every function and method of the module, found by introspection, against PyTorch: see table.py,
vary.py and compare.py.

CHAINRULE_TEST_SEED draws a part of the calls of the table, and variations of them;
CHAINRULE_TEST_FULL=1 thousands of both, and CHAINRULE_TEST_FULL=2 runs every call."""

from __future__ import annotations

import os
import random
from collections import Counter
from typing import Any

import chainrule as cr
import pytest
import table
from compare import compare, ran
from conftest import FULL, LEVEL, REPORT
from differences import expected, stale
from vary import varied

torch: Any = pytest.importorskip(
    "torch", reason="PyTorch is not installed: compared with stored results only (test_stored.py)"
)

SEED = os.environ.get("CHAINRULE_TEST_SEED", "1")
PART = {0: 40, 1: 120}.get(LEVEL, 10**6)  # calls of each name
VARIATIONS = 40 if FULL else 4  # of each name


def public(owner: Any) -> list[str]:
    return [
        n
        for n in dir(owner)
        if callable(getattr(owner, n))
        and not n.startswith("__")
        and not isinstance(getattr(owner, n), type)
        and not str(getattr(getattr(owner, n), "__module__", "")).startswith("chainrule.torch")  # another test's import
    ]


FUNCTIONS = [n for n in public(cr) if type(getattr(cr, n)).__name__ == "builtin_function_or_method"]
METHODS = public(cr.Tensor)
FORMS = [(n, False) for n in FUNCTIONS] + [(n, True) for n in METHODS]
RANDOM = set(
    "rand randn randint randperm normal bernoulli multinomial rand_like randn_like randint_like empty empty_like"
    " new_empty manual_seed uniform_ normal_ log_normal_ exponential_ cauchy_ geometric_ bernoulli_ random_".split()
)


def calls_of(form: tuple[str, bool]) -> list[table.Call]:
    name, plain = form[0], form[0].removesuffix("_")
    if plain in table.DERIVED and not oracle(plain, form[1]):
        return []  # test_stub.py calls it
    rows = table.ROWS.get(label(form)) or table.ROWS.get(name) or table.ROWS.get(plain)
    assert rows, f"{name} has no row in table.py"
    return list(rows())


def oracle(name: str, method: bool) -> Any:
    """PyTorch's function for a name of ours; where it has only the other form, that one."""
    modules = (torch, torch.nn.functional, torch.special)
    for owner in (torch.Tensor, *modules) if method else (*modules, torch.Tensor):
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


CHECKED: dict[str, Counter[str]] = {}  # what ran, by form


def wrong(form: tuple[str, bool], calls: list[table.Call], grads: tuple[bool, ...]) -> list[str]:
    """The calls that differ where no difference is expected, each with how."""
    name, method = form
    f, g = getattr(cr.Tensor if method else cr, name), oracle(name, method)
    assert g, f"PyTorch has no {name}: its row in table.py must be empty, and a test elsewhere"
    found = []
    before = ran.copy()
    for call in calls:
        for grad in grads:
            differs = compare(f, g, torch, call, grad=grad, in_place=name.endswith("_"), values=name not in RANDOM)
            if differs and not expected(name, call, differs):
                found.append(f"{label(form)}{call}: {differs}")
                break
    CHECKED.setdefault(label(form), Counter()).update(ran - before)
    return found


@pytest.mark.parametrize("form", FORMS, ids=label)
def test_name(form: tuple[str, bool]) -> None:
    calls = calls_of(form)
    if len(calls) > PART:
        calls = random.Random(f"{SEED} {form[0]}").sample(calls, PART)
    found = wrong(form, calls, (False, True)) if calls else []
    assert not found, f"{len(found)} of {len(calls)} calls differ:\n" + "\n".join(found[: 400 if FULL else 20])


def drawn_from(form: tuple[str, bool], calls: list[table.Call], r: random.Random) -> table.Call:
    """A variation.  n bins along each of d axes are n^d cells of histogramdd: another one where that is too large."""
    while True:
        args, kwargs = varied(r.choice(calls), r, form[0].endswith("_"))
        bins = args[1] if form[0] == "histogramdd" else None
        if not isinstance(bins, int) or bins ** args[0].shape[-1] <= 10**6:
            return args, kwargs


@pytest.mark.parametrize("form", FORMS, ids=label)
def test_variations(form: tuple[str, bool]) -> None:
    calls, r = calls_of(form), random.Random(f"{SEED} {label(form)}")
    drawn = [drawn_from(form, calls, r) for _ in range(VARIATIONS if calls else 0)]
    found = wrong(form, drawn, (False, True) if form[0].endswith("_") else (True,)) if drawn else []
    assert not found, (
        f"{len(found)} of {len(drawn)} variations differ; CHAINRULE_TEST_SEED={SEED} repeats them:\n" + "\n".join(found)
    )


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
    calls = calls_of(form)
    f, g = getattr(cr.Tensor if method else cr, name), oracle(name, method)
    differ = []
    for call in calls[:1] + calls[-1:] if calls else []:
        for bad in spoiled(*call):
            found = compare(f, g, torch, bad, grad=False, in_place=name.endswith("_"), values=False)
            if (
                found
                and "PyTorch gives" not in found
                and found.startswith(("gives", "raises"))
                and not expected(name, bad, found)
            ):
                differ.append(f"{label(form)}{bad}: {found}")
    assert not differ, f"{len(differ)} calls differ:\n" + "\n".join(differ)


def test_what_ran() -> None:
    """No form of any name was left out, and every name that has a gradient had it compared: the
    counts that the report gives."""
    gradients: Counter[str] = Counter()
    for form in FORMS:
        counts, rows = CHECKED.get(label(form), Counter[str]()), len(calls_of(form))
        assert counts["calls"] >= (2 * min(rows, PART) + VARIATIONS if rows else 0), f"{label(form)}: {dict(counts)}"
        assert counts["compared"] or not rows, f"{label(form)}: no call gave anything to compare"
        if rows:
            gradients[form[0].removesuffix("_")] += counts["gradients"]
    gradients.pop("requires_grad")  # has one where the tensor that it is called on has one
    other = {
        name: n for name, n in gradients.items() if name not in table.ELSEWHERE and (n > 0) == (name in table.CONSTANT)
    }
    assert not other, f"gradients compared, or none, against table.CONSTANT: {other}"
    total = sum(CHECKED.values(), Counter[str]())
    REPORT.update({"names beside PyTorch": len(gradients), "calls": total["calls"], "gradients": total["gradients"]})


@pytest.mark.skipif(LEVEL < 2, reason="entries of differences.py that nothing shows: with CHAINRULE_TEST_FULL=2")
def test_no_difference_is_stale() -> None:
    assert not stale(), "no call differs so any more: take the entries out of differences.py"
