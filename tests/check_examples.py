"""The C program on the front page of README.md compiles and does what its comment says, and so does every program in examples/.

use: python tests/check_examples.py        CHAINRULE_BUILD: where the library is (build/release)
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("CHAINRULE_BUILD", ROOT / "build" / "release")).resolve()
WARNINGS = ["-std=gnu17", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
EXPECTED = {
    "hello": ["g     = 24.7041", "dg/da = 138.8338", "dg/db = 645.5773"],  # micrograd's own numbers
    "moons": ["step 200"],
    "own_op": ["gradient of cube: ok", "its second derivative: ok", "its gradient: ok"],
}


def build_and_run(source: str, expected: list[str]) -> str:
    """What is wrong, or nothing."""
    with tempfile.TemporaryDirectory() as folder:
        path, program = Path(folder) / "program.c", Path(folder) / "program"
        path.write_text(source, encoding="utf-8")
        compiler = os.environ.get("CC", "cc")
        libraries = [str(BUILD / "libchainrule.a"), "-lm", "-lpthread", "-ldl"]
        made = subprocess.run([compiler, *WARNINGS, f"-I{ROOT / 'include'}", str(path), *libraries, "-o", str(program)], capture_output=True, text=True)
        if made.returncode:
            return made.stderr
        done = subprocess.run([str(program)], capture_output=True, text=True, timeout=120)
    missing = [text for text in expected if text not in done.stdout]
    if done.returncode or missing:
        return f"exit {done.returncode}, without {missing}:\n{done.stdout}{done.stderr}"
    return ""


def main() -> int:
    block = re.search(r"```c\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    programs = {"README.md": (block[1] if block else "", ["1.000 -2.000 3.000"])}
    for path in sorted((ROOT / "examples").glob("*.c")):
        programs[path.name] = (path.read_text(encoding="utf-8"), EXPECTED.get(path.stem, ["an entry in EXPECTED"]))
    failed = 0
    for name, (source, expected) in programs.items():
        wrong = build_and_run(source, expected)
        if wrong:
            failed += 1
            print(f"FAILED {name}: {wrong}")
    print(f"result: {len(programs) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
