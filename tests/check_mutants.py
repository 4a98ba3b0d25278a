#!/usr/bin/env python3
"""A fixed sample of broken gradients: the tests notice each (tools/mutate.py breaks all of them)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

sys.exit(
    subprocess.run(
        [sys.executable, str(Path(__file__).resolve().parent.parent / "tools" / "mutate.py"), "--quick"]
    ).returncode
)
