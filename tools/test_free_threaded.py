"""Builds the Python extension for a CPython without a GIL and runs the suites of threads, autograd, compiled steps and
more with it.  The interpreter: CHAINRULE_FREE_PYTHON, else python3.14t or python3.13t of the PATH.

Prints how many times as much work eight threads of small ops do as one; nothing depends on it.  Ends with the result
line of tests/test.h."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build/free"
PACKAGES = BUILD / "packages"
# Hypothesis's last versions have compiled parts, for few interpreters.
NEEDED = ["pytest==8.4.2", "hypothesis==6.130.0", "numpy"]
SUITES = """threads autograd views compile compile_reads nn data index random value save dtypes subclass interop optim
models generation""".split()
ASK = """
import sys, sysconfig
print(sysconfig.get_config_var("Py_GIL_DISABLED"), sysconfig.get_path("include"), *sys.version_info[:2])
"""
SCALING = """
import sys, threading, time
import chainrule as cr
assert not sys._is_gil_enabled(), "the extension turned the GIL on"
cr.set_num_threads(1)

def work(n):
    x = cr.ones(16)
    for _ in range(n):
        x = (x + 1) * 0.5

def rate(threads, n=20000):
    all = [threading.Thread(target=work, args=(n,)) for _ in range(threads)]
    start = time.perf_counter()
    for t in all: t.start()
    for t in all: t.join()
    return threads * n / (time.perf_counter() - start)

work(1000)
one, eight = (max(rate(n) for _ in range(3)) for n in (1, 8))
print(f"{eight / one:.2f} times the work of one thread by eight; one: {1e9 / one / 2:.0f} ns an op")
"""


def interpreter() -> str | None:
    names = (os.environ.get("CHAINRULE_FREE_PYTHON", ""), "python3.14t", "python3.13t")
    return next((found for name in names if name and (found := shutil.which(name))), None)


def build(include: str) -> None:
    options = ["CMAKE_BUILD_TYPE=Release", "CHAINRULE_PYTHON=ON", f"CHAINRULE_PYTHON_INCLUDE={include}"]
    options += [f"CHAINRULE_{part}=OFF" for part in ("TESTS", "EXAMPLES", "SHARED", "PROGRAM")]
    command = ["cmake", "-S", str(ROOT), "-B", str(BUILD), "-G", "Ninja", *(f"-D{option}" for option in options)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["ninja", "-C", str(BUILD), "--quiet", "chainrule_python", "chainrule_package"], check=True)


def install(version: str) -> None:
    if PACKAGES.is_dir():
        return
    tag = f"cp{version.replace('.', '')}t"
    only = ["--only-binary", ":all:", "--python-version", version, "--abi", tag, "--abi", "none"]
    command = [sys.executable, "-m", "pip", "install", "-q", "--target", str(PACKAGES), *only, *NEEDED]
    subprocess.run(command, check=True)


def main() -> int:
    python = interpreter()
    if not python:
        print("skipped: no CPython without a GIL (CHAINRULE_FREE_PYTHON)\nresult: 0 passed, 0 failed, 1 skipped")
        return 0
    asked = subprocess.run([python, "-c", ASK], check=True, text=True, capture_output=True)
    free, include, *version = asked.stdout.split()
    if free != "1":
        print(f"{python} has a GIL\nresult: 0 passed, 1 failed, 0 skipped")
        return 1
    build(include)
    install(".".join(version))
    paths = os.pathsep.join([str(BUILD / "python"), str(PACKAGES)])
    environment = {**os.environ, "PYTHONPATH": paths, "PYTHON_GIL": "0", "CHAINRULE_BUILD": str(BUILD)}
    files = [f"tests/python/test_{name}.py" for name in SUITES]
    command = [python, "-X", "faulthandler", "-m", "pytest", *files]
    done = subprocess.run(command, cwd=ROOT, env=environment, text=True, capture_output=True)
    scaled = subprocess.run([python, "-c", SCALING], env=environment, text=True, capture_output=True)
    found = re.findall(r"^result: (\d+) passed, (\d+) failed, (\d+) skipped", done.stdout, re.MULTILINE)
    passed, failed, skipped = map(int, found[-1]) if found else (0, 1, 0)
    failed += scaled.returncode != 0
    if failed or done.returncode:
        print(done.stdout[-4000:], done.stderr[-4000:], scaled.stderr)
    print(f"report CPython {'.'.join(version)} without a GIL: {scaled.stdout.strip()}")
    print(f"result: {passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or done.returncode else 0


if __name__ == "__main__":
    sys.exit(main())
