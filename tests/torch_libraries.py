"""Programs of packages beside PyTorch, tests/torch_libraries/*.py, print the same by PyTorch and by
``python -m chainrule.torch``, from equal weights and data.

use: python tests/torch_libraries.py [part-of-a-name ...]

The packages are those of tools/requirements-libraries.txt in build/libraries (make build/.for-libraries); a program
whose packages are not there is skipped."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.machinery import PathFinder
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = Path(__file__).with_suffix("")
BUILD = Path(os.environ.get("CHAINRULE_BUILD", ROOT / "build" / "release"))
LIBRARIES = ROOT / "build" / "libraries"
TIMEOUT = 240  # seconds for a program
TOLERANCE = 2e-4  # sums of gradients and trajectories of a few steps in float32
IMPORTS = re.compile(r"^(?:from|import) (\w+)", re.MULTILINE)


def prints(path: Path, ours: bool) -> subprocess.CompletedProcess[str]:
    """What a program prints by chainrule, or by PyTorch."""
    folders = [BUILD / "python"] * ours + [LIBRARIES]
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, folders)),
        "PYTHONWARNINGS": "ignore",
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
    }
    package = ["-m", "chainrule.torch"] if ours else []
    return subprocess.run(
        [sys.executable, *package, str(path)], env=env, capture_output=True, text=True, timeout=TIMEOUT
    )


def missing(path: Path) -> list[str]:
    """The packages that a program imports and that are not installed."""
    names = set(IMPORTS.findall(path.read_text())) - sys.stdlib_module_names - {"same"}
    return sorted(name for name in names if PathFinder.find_spec(name, [str(LIBRARIES), *sys.path]) is None)


def differences(ours: str, theirs: str) -> list[str]:
    """Lines whose words differ, or whose numbers are not near."""
    found = [] if ours.count("\n") == theirs.count("\n") else [f"{ours}has not the number of lines of\n{theirs}"]
    for a, b in zip(ours.splitlines(), theirs.splitlines(), strict=False):
        same = len(a.split()) == len(b.split())
        for x, y in zip(a.split(), b.split(), strict=False):
            try:
                same &= x == y or abs(float(x) - float(y)) <= TOLERANCE * max(1, abs(float(y)))  # a NaN is itself
            except ValueError:
                same &= x == y
        if not same:
            found.append(f"chainrule: {a}\nPyTorch:   {b}")
    return found


def check(path: Path) -> str:
    """ "" or what is wrong."""
    start = time.monotonic()
    try:
        with ThreadPoolExecutor(2) as pool:
            ours, theirs = pool.map(prints, (path, path), (True, False))
    except subprocess.TimeoutExpired as problem:
        return str(problem)
    for name, done in (("PyTorch", theirs), ("chainrule", ours)):
        if done.returncode:
            return f"{name}: {done.stderr[-3000:]}"
    wrong = differences(ours.stdout, theirs.stdout)
    lines = theirs.stdout.count("\n")
    print(f"{path.stem}: {lines} lines, {len(wrong)} differ, {time.monotonic() - start:.0f} s", flush=True)
    return "\n".join(wrong) if lines else "it prints nothing"


def main() -> int:
    parts = sys.argv[1:]
    passed = failed = skipped = 0
    assert differences("a 1.0 b\n", "a 1.1 b\n") and differences("a 1 b\n", "a 1 c\n") and differences("a\n", "a\nb\n")
    for path in sorted(PROGRAMS.glob("*_*.py")):
        if parts and not any(part in path.stem for part in parts):
            continue
        if lacks := missing(path):
            print(f"skipped {path.stem}: not installed: {', '.join(lacks)}", flush=True)
            skipped += 1
        elif wrong := check(path):
            print(f"{path.stem} fails\n{wrong}", flush=True)
            failed += 1
        else:
            passed += 1
    print(f"result: {passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
