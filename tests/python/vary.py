"""Calls of table.py, varied at random: other sizes, dtypes and layouts, values with ties,
infinities and NaN, arguments to match. What fits together in the table mostly still does; where it
does not, both libraries must refuse it in the same way."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import table

SIZES = [1, 2, 3, 4, 8, 15, 17, 32, 33, 65, 130]  # around the widths of vectors
LARGEST = 600  # elements of one tensor
LAYOUTS = [*table.LAYOUTS, "plain", "offset", "expanded"]


def tensors(x: Any) -> list[table.X]:
    if isinstance(x, table.X):
        return [x]
    return [t for i in x for t in tensors(i)] if isinstance(x, (list, tuple)) else []


def rebuilt(x: Any, f: Callable[[Any], Any]) -> Any:
    """The argument x with f of what is in it."""
    return type(x)(rebuilt(i, f) for i in x) if isinstance(x, (list, tuple)) else f(x)


def other_sizes(found: list[table.X], r: random.Random) -> dict[int, int]:
    """Size -> another: equal sizes stay equal, so that shapes still broadcast and multiply; 0 and 1
    stay what they are."""
    old = sorted({n for x in found for n in x.shape} - {0, 1})
    choices = SIZES
    while True:
        new = {n: r.choice(choices) for n in old}
        if all(math.prod(new.get(n, n) for n in x.shape) <= LARGEST for x in found):
            break
        choices = choices[:-1]
    if r.random() < 0.1 and old:
        new[r.choice(old)] = 0
    return new


def varied(call: table.Call, r: random.Random, in_place: bool) -> table.Call:
    """in_place: the first tensor is written to, so that its elements are apart."""
    args, kwargs = call
    found = tensors([*args, *kwargs.values()])
    sizes = other_sizes(found, r) if r.random() < 0.8 else {}
    dtypes = {
        d: r.choice(table.ANY)
        for d in sorted({x.dtype for x in found})
        if r.random() < (0.4 if d in table.FLOATS else 0.1)
    }
    front = (r.choice([1, 2, 3]),) if r.random() < 0.1 else ()
    kind, seed, numbers = (
        r.choice(["any"] * 5 + ["whole"] * 2 + ["special"]),
        r.randrange(10**6),
        r.choice(["none", "lists", "all"]),
    )
    counts = {math.prod(x.shape): math.prod(sizes.get(n, n) for n in x.shape) for x in found}
    first = True

    def other(x: Any) -> Any:
        nonlocal first
        if isinstance(x, table.X):
            layouts = [n for n in LAYOUTS if n != "expanded"] if in_place and first else LAYOUTS
            first = False
            high = (
                sizes.get(int(x.high), x.high) if x.dtype == "int64" and x.low >= 0 else x.high
            )  # indices follow the size of the axis
            shape = front + tuple(sizes.get(n, n) for n in x.shape)
            layout = x.layout if x.layout == "sorted" else r.choice(layouts)
            new = replace(
                x,
                shape=shape,
                dtype=dtypes.get(x.dtype, x.dtype),
                layout=layout,
                high=high,
                seed=seed + x.seed,
                kind=kind,
            )
            return replace(new, grad=False) if kind == "special" else new
        return x

    def argument(x: Any) -> Any:
        def number(i: Any) -> Any:
            return (
                sizes.get(i, counts.get(i, i))
                if type(i) is int and (numbers == "all" or (numbers == "lists" and x is not i))
                else other(i)
            )

        return rebuilt(x, number)

    return tuple(argument(x) for x in args), {k: argument(x) for k, x in kwargs.items()}
