"""Closes a run of tools/gpu_check.sh: writes OUT/report.json, with every step, the machine and the figures, and packs
the reports and logs into OUT/gpu_check.tar.gz.

use: gpu_report.py OUT
"""

from __future__ import annotations

import json
import sys
import tarfile
from pathlib import Path

PACKED = ("*.md", "*.json", "*.log", "*.svg")  # no build, no cache of kernels
MOST = 4 << 20  # bytes of a log


def steps(out: Path) -> list[dict[str, object]]:
    found = []
    for path in sorted((out / "steps").iterdir()):
        name, verdict, seconds, said = (part.strip() for part in path.read_text().strip().strip("|").split("|"))
        found.append({"step": name, "verdict": verdict, "seconds": int(seconds), "said": said})
    return found


def report(out: Path) -> dict[str, object]:
    bench = out / "bench.json"
    machine = out / "machine.log"
    return {
        "machine": machine.read_text().splitlines() if machine.exists() else [],
        "steps": steps(out),
        "bench": json.loads(bench.read_text()) if bench.exists() else None,
    }


def pack(out: Path) -> Path:
    archive = out / "gpu_check.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        for path in sorted(p for pattern in PACKED for p in out.glob(pattern)):
            if path.stat().st_size <= MOST:
                tar.add(path, f"gpu_check/{path.name}")
    return archive


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    out = Path(sys.argv[1])
    (out / "report.json").write_text(json.dumps(report(out), indent=1) + "\n")
    print(pack(out))
    return 0


if __name__ == "__main__":
    sys.exit(main())
