"""Finds the package that was built: in build/release, or where CHAINRULE_BUILD says."""

import os
import sys
from pathlib import Path

BUILD = Path(os.environ.get("CHAINRULE_BUILD", Path(__file__).parents[2] / "build" / "release"))
sys.path.insert(0, str(BUILD / "python"))
