"""The tests that the array API standard publishes (data-apis/array-api-tests), of chainrule.array_api, without complex
numbers.

use: python tests/array_api_suite.py [examples of each test, 30]

They are in build/array-api (make build/.for-array-api), or where CHAINRULE_ARRAY_API_TESTS says.  What fails on purpose
is in tests/array_api_suite.txt, with the reason; a line there that nothing needs is a failure."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("CHAINRULE_BUILD", ROOT / "build" / "release"))
SUITE = Path(os.environ.get("CHAINRULE_ARRAY_API_TESTS", ROOT / "build" / "array-api"))
CHOICES = Path(__file__).with_suffix(".txt")
WIDEST = re.compile(r"(widest_complex_dtype = max\(\n.*key=lambda x: x\[1\])\n")  # fails where there is none


def choices() -> dict[str, str]:
    """Pattern of a failed test -> reason."""
    lines = CHOICES.read_text().splitlines()
    return dict(line.split("  # ") for line in lines if line.strip() and not line.startswith("#"))


def failures(folder: Path, examples: str) -> tuple[int, list[str]]:
    """How many tests passed, and the identities of those that failed."""
    shutil.copytree(SUITE, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".git"))
    helpers = folder / "array_api_tests" / "dtype_helpers.py"
    helpers.write_text(WIDEST.sub(r"\1, default=[xp.float64]\n", helpers.read_text()))
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(BUILD / "python"), str(folder / "packages")]),
        "ARRAY_API_TESTS_MODULE": "chainrule.array_api",
        "ARRAY_API_TESTS_VERSION": "2024.12",
        "ARRAY_API_TESTS_SKIP_DTYPES": "complex64,complex128",
        "COLUMNS": "1000",
    }
    options = ["-q", "-rfE", "--tb=no", "-p", "no:cacheprovider", "--max-examples", examples, "--derandomize"]
    command = [sys.executable, "-m", "pytest", *options, "array_api_tests"]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    passed = re.search(r"(\d+) passed", done.stdout)
    if not passed:
        return 0, [(done.stdout + done.stderr)[-2000:]]
    return int(passed[1]), re.findall(r"^(?:FAILED|ERROR) [^:]*::(.*)", done.stdout, re.MULTILINE)


def main() -> int:
    if not (SUITE / "array_api_tests").is_dir():
        print("array-api-tests is not installed (make build/.for-array-api)")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        passed, failed = failures(Path(folder), (sys.argv[1:] or ["30"])[0])
    known = choices()
    wrong = [test for test in failed if not any(re.search(pattern, test) for pattern in known)]
    stale = [pattern for pattern in known if not any(re.search(pattern, test) for test in failed)]
    for test in wrong:
        print(f"failed {test}")
    for pattern in stale:
        print(f"failed {CHOICES.name}: nothing needs the line {pattern}")
    print(f"report {passed} tests of the standard, {len(failed) - len(wrong)} that fail on purpose")
    print(f"result: {passed} passed, {len(wrong) + len(stale)} failed, 0 skipped")
    return 1 if wrong or stale else 0


if __name__ == "__main__":
    sys.exit(main())
