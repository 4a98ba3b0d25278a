"""The whole-model check against a PyTorch that is installed: golden/make_gpt.py runs afresh,
tests/test_gpt.c compares with it.

use: python tests/golden/check_gpt.py        CHAINRULE_BUILD: where the tests are (build/release);
without PyTorch: skipped (77)"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = Path(os.environ.get("CHAINRULE_BUILD", ROOT / "build" / "release"))


def main() -> int:
    if importlib.util.find_spec("torch") is None:
        print("PyTorch is not installed (make oracle): compared only with its stored results")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        dump = Path(folder) / "gpt.bin"
        made = subprocess.run([sys.executable, str(Path(__file__).with_name("make_gpt.py")), str(dump)])
        if made.returncode:
            return 1
        return subprocess.run(
            [str(BUILD / "tests" / "test_gpt"), "golden"], cwd=ROOT, env={**os.environ, "CHAINRULE_GPT_DUMP": str(dump)}
        ).returncode


if __name__ == "__main__":
    sys.exit(main())
