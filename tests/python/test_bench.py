"""The list of bench/everyday.py: every name is timed, or it is said why not; every line runs in both libraries.  bench/cuda.py runs, small."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import chainrule as cr
import pytest
from conftest import BUILD, ROOT

sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests" / "cudasim")]
import gen_python  # noqa: E402
from environment import simulated  # noqa: E402

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


# ---- bench/cuda.py

CUDA: dict[str, Any] = runpy.run_path(str(ROOT / "bench" / "cuda.py"), run_name="bench")


def test_cuda_peer() -> None:
    """Every case is right for PyTorch too: on the cpu, small."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    for part in CUDA["PARTS"]:
        for case in CUDA["cases_of"](part, True, 2):
            if case.operands and part != "train":
                CUDA["runner"](torch, case, "cpu", False)()


def test_cuda_on_the_simulator(tmp_path: Path) -> None:
    """bench/run.py's part as it stands, on small sizes: no case fails, and the page has a table for each part."""
    environment = simulated(BUILD)
    if not environment:
        pytest.skip("this build has no simulated GPU")
    command = [sys.executable, str(ROOT / "bench/run.py"), "--quick", "--only", "cuda", "--json", str(tmp_path / "cuda.json"), "--cuda", "--eager"]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=300)
    assert not done.returncode, done.stderr
    got = json.loads((tmp_path / "cuda.json").read_text())["cuda"]
    failed = [f"{row['name']} {row['dtype']}: {row['columns']}" for row in got["rows"] if not all(isinstance(c, dict) for c in row["columns"].values())]
    assert not failed and not got["left_out"] and got["error"] < 1e-5, (failed, got["left_out"], got["error"])
    assert {row["part"] for row in got["rows"]} == set(CUDA["PARTS"])
    assert "The least share of a copy" in done.stdout and "A product in f32 is wrong by" in done.stdout, done.stdout
