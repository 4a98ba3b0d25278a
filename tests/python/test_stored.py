"""A few calls of every name against results that PyTorch gave, stored in stored.json: what runs
where PyTorch is not installed.

use: python tests/python/test_stored.py     writes stored.json anew (with PyTorch)"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

if __name__ == "__main__":
    import conftest  # noqa: F401
import compare
import table

import chainrule as cr  # isort: skip

STORED = Path(__file__).parent / "stored.json"


def chosen(name: str) -> list[table.Call]:
    """The first call of a name and two more, with tensors small enough to store."""
    calls = list((table.ROWS.get(f"Tensor.{name}") or table.ROWS.get(name) or table.ROWS[name.removesuffix("_")])())
    return [calls[i] for i in sorted({0, len(calls) // 2, len(calls) - 1})] if calls else []


def result(f: Any, lib: Any, call: table.Call) -> Any:
    """[dtype, shape, numbers] of every tensor that comes out, then the numbers of every gradient;
    None where the call fails or gives something else."""
    o = compare.Outcome(f, lib, call, True, False)
    found = compare.tensors(o.value, lib)
    if o.error or not found or sum(t.numel() for t in found) > 24:
        return None
    out = [
        [str(t.dtype).split(".")[1], list(t.shape), [short(v) for v in compare.numbers(t.detach().tolist())]]
        for t in found
    ]
    gradients = compare.backward(o, lib) or []
    return [out, [None if g is None else [short(v) for v in compare.numbers(g.tolist())] for g in gradients]]


def short(v: Any) -> Any:
    return float(f"{v:.8g}") if isinstance(v, float) else v


def close(a: Any, b: Any, tolerance: float) -> bool:
    """Two results of `result`: nested lists, strings and numbers; no gradient is one of zeros."""
    if a is None or b is None:
        return a is b or all(abs(x) <= tolerance for x in a or b)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(close(x, y, tolerance) for x, y in zip(a, b, strict=True))
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (a != a and b != b) or abs(a - b) <= tolerance * max(1.0, abs(a), abs(b))
    return type(a) is type(b) and bool(a == b)


@pytest.mark.parametrize("name", list(json.loads(STORED.read_text())) if STORED.exists() else [])
def test_stored(name: str) -> None:
    wanted = json.loads(STORED.read_text())[name]
    for i, want in wanted.items():
        call = chosen(name)[int(i)]
        got = result(getattr(cr.Tensor, name, None) or getattr(cr, name), cr, call)
        coarse = any(t in repr(want) for t in ("float16", "bfloat16")) or "float16" in repr(call)
        assert close(got, want, 0.03 if coarse else 2e-5), f"{name}{call}:\n{got}\nstored:\n{want}"


def write() -> None:
    import torch  # noqa: PLC0415
    from test_names import FORMS, RANDOM, oracle  # noqa: PLC0415

    stored: dict[str, dict[str, Any]] = {}
    for name, method in reversed(FORMS):
        if name.endswith("_") or name in RANDOM or name in stored or name in table.ELSEWHERE:
            continue
        for i, call in enumerate(chosen(name)):
            try:
                want = result(oracle(name, method), torch, call)
            except RuntimeError:  # a derivative that PyTorch has not
                continue
            mine = result(getattr(cr.Tensor if method else cr, name), cr, call)
            if name in table.CONSTANT and want:  # PyTorch gives nextafter one
                want[1] = []
            if want and mine and want[0] and want[0][0][0] == mine[0][0][0]:
                stored.setdefault(name, {})[str(i)] = want
    STORED.write_text(
        "{\n" + ",\n".join(f"{json.dumps(n)}: {json.dumps(w)}" for n, w in sorted(stored.items())) + "\n}\n"
    )
    print(f"{len(stored)} names, {STORED.stat().st_size >> 10} KiB")


if __name__ == "__main__":
    write()
    sys.exit()
