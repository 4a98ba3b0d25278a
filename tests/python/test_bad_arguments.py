"""Thousands of bad arguments to every public callable, in processes with a limit of memory and
time: see bad_arguments.py.

A few calls of each, by CHAINRULE_TEST_SEED; with CHAINRULE_TEST_FULL=1 many, also with Python's own debug checks on."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import BUILD, FULL

SEED = os.environ.get("CHAINRULE_TEST_SEED", "1")
PROGRAM = Path(__file__).parent / "bad_arguments.py"
SANITIZED = "LD_PRELOAD" in os.environ  # its shadow memory is larger than any limit


def limit() -> None:
    if not SANITIZED:
        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


WAYS: dict[str, tuple[list[str], dict[str, str], int]] = {
    "plain": ([], {}, 60 if FULL else 3),
    "debug allocator": ([], {"PYTHONMALLOC": "debug"}, 15 if FULL else 1),
    "development mode": (["-X", "dev", "-W", "error::BytesWarning"], {}, 15),
    "one thread, reference": ([], {"CHAINRULE_DEVICE": "ref", "CHAINRULE_NUM_THREADS": "1"}, 15),
}
QUICK = ("plain", "debug allocator")


@pytest.mark.parametrize("way", [pytest.param(w, marks=[] if w in QUICK else [pytest.mark.full]) for w in WAYS])
def test_bad_arguments(way: str, tmp_path: Path) -> None:
    options, environment, calls = WAYS[way]
    if SANITIZED and "PYTHONMALLOC" in environment:
        pytest.skip("the sanitizer's own allocator is on")
    trace = tmp_path / "trace"
    command = [sys.executable, *options, "-X", "faulthandler", str(PROGRAM), f"{SEED} {way}", str(calls), str(trace)]
    try:
        run = subprocess.run(
            command,
            env={**os.environ, "CHAINRULE_BUILD": str(BUILD), **environment},
            cwd=tmp_path,  # a bad argument may be the name of a file
            preexec_fn=limit,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=900 if FULL else 240,
            check=False,
        )
    except subprocess.TimeoutExpired:
        pytest.fail(f"hangs in {trace.read_text().strip()}; repeat: CHAINRULE_TEST_SEED={SEED}")
    last = trace.read_text().strip() if trace.exists() else "the start"
    assert run.returncode == 0, (
        f"exit {run.returncode} at {last}\n{run.stdout[-2000:]}{run.stderr[-3000:]}\nrepeat: CHAINRULE_TEST_SEED={SEED}"
    )
    print(run.stdout.strip())
