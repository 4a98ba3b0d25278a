"""tools/gpu_sanitize.sh shows a sanitizer every kernel: it runs here with a compute-sanitizer that only
starts the program, on the simulated GPU, which writes down the names of the kernels that were launched.

use: check_families.py        CHAINRULE_BUILD: the build (build/release)
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from environment import simulated

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = Path(os.environ.get("CHAINRULE_BUILD", ROOT / "build" / "release"))
STUB = """#!/bin/sh
while [ $# -gt 0 ]; do
    case $1 in
        --tool | --leak-check | --error-exitcode) shift 2 ;;
        *) break ;;
    esac
done
"$@" && echo "========= ERROR SUMMARY: 0 errors"
"""


def kernels() -> dict[str, set[str]]:
    """The kernels of each file; those that are written at run time are `walk`."""
    found = {
        path.name: set(re.findall(r"^KERNEL\(.*\) (\w+)\(", path.read_text(), re.MULTILINE))
        for path in sorted((ROOT / "src/dev/cuda").glob("*.cu"))
    }
    return {**found, "elementwise.c": {"walk"}}


def main() -> int:
    environment = simulated(BUILD)
    if not environment:
        print("skipped kernels that sanitizers see: no simulated GPU\nresult: 0 passed, 0 failed, 1 skipped")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        stub, names = Path(folder) / "compute-sanitizer", Path(folder) / "names"
        stub.write_text(STUB)
        stub.chmod(0o755)
        done = subprocess.run(
            ["sh", str(ROOT / "tools" / "gpu_sanitize.sh"), "memcheck", str(BUILD)],
            env={
                **os.environ,
                **environment,
                "CUDASIM_NAMES": str(names),
                "PATH": f"{folder}:{os.environ['PATH']}",
                "CUDASIM_DEVICES": "2",
                "CUDASIM_CC": "90",  # which runs hopper.cu too
            },
            text=True,
            capture_output=True,
        )
        ran = set(names.read_text().split()) if names.exists() else set()
    wrong = [] if done.returncode == 0 else [f"gpu_sanitize.sh memcheck: {done.stdout[-3000:]}{done.stderr[-500:]}"]
    wanted = kernels()
    wrong += [
        f"{file}: {', '.join(sorted(missing))} is run by no program of tools/gpu_sanitize.sh"
        for file, names_ in wanted.items()
        if (missing := names_ - ran)
    ]
    for line in wrong:
        print(line)
    count = len(wanted) + 1
    print(f"result: {count - len(wrong)} passed, {len(wrong)} failed, 0 skipped")
    return 1 if wrong or len(wanted) < 15 else 0


if __name__ == "__main__":
    sys.exit(main())
