"""The list of bench/everyday.py: every name is timed, or it is said why not; every line runs in both libraries."""

from __future__ import annotations

import re
import runpy
import sys
from typing import Any

import chainrule as cr
import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "tools"))
import gen_python  # noqa: E402

BENCH: dict[str, Any] = runpy.run_path(str(ROOT / "bench" / "everyday.py"), run_name="bench")
CALLS: list[str] = BENCH["CALLS"]


def names_in(call: str) -> set[str]:
    return set(re.findall(r"\b([a-z]\w*)\(", call))


def known() -> set[str]:
    kinds = ("builtin_function_or_method", "method_descriptor")
    return {n for owner in (cr, cr.Tensor) for n in dir(owner) if not n.startswith("_") and type(getattr(owner, n)).__name__ in kinds}


def test_every_name() -> None:
    """In-place forms run the kernels of the others: a few stand for all."""
    untimed = set(" ".join(BENCH["UNTIMED"].values()).split())
    timed = {name for call in CALLS for name in names_in(call)}
    assert not untimed & timed
    missing = {n for n in known() - timed - untimed - set(gen_python.ALIASES) if n.removesuffix("_") not in timed | set(gen_python.ALIASES)}
    assert not missing, f"neither in CALLS nor in UNTIMED of bench/everyday.py: {' '.join(sorted(missing))}"


def test_reasons() -> None:
    """Each stands for a line that there is."""
    assert not set(BENCH["REASONS"]) - set(CALLS)


@pytest.mark.parametrize("library", ["chainrule", "torch"])
def test_every_line(library: str) -> None:
    lib = pytest.importorskip(library, reason=f"{library} is not installed")
    names = {**BENCH["functions"](lib), **BENCH["operands"](lib, 10)}
    absent = []
    with lib.no_grad():
        for call in CALLS:
            try:
                exec(call, dict(names))
            except (NameError, AttributeError, TypeError) as e:
                if library == "torch" or (names_in(call) <= known() and "yet" not in str(e)):
                    raise AssertionError(call) from e
                absent.append(call)
    if absent:
        pytest.skip(f"not in chainrule yet: {', '.join(absent)}")
