"""A short run of the fuzzer of compiled steps (fuzz_compile.py); the stage fuzz-compile runs it for longer."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import BUILD, FULL, REPORT


@pytest.mark.parametrize("kind", ["", "--threads"])
def test_random_worlds(kind: str) -> None:
    programs = (12 if kind else 48) * (8 if FULL else 1)
    command = [sys.executable, str(Path(__file__).parent / "fuzz_compile.py"), "--seed", "1", *kind.split()]
    command += ["--programs", str(programs), "--seconds", "600", "--shorten", "20"]
    done = subprocess.run(command, capture_output=True, text=True, env={"CHAINRULE_BUILD": str(BUILD)})
    assert done.returncode == 0, done.stdout + done.stderr
    counted = re.search(r"(\d+) calls.* (\d+) replays", done.stdout)
    assert counted and int(counted[2]) > int(counted[1]) // 12, "hardly a call was a replay:\n" + done.stdout
    REPORT["calls of compiled functions"] += int(counted[1])
