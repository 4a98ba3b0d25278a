"""A dry run of tools/gpu_check.sh on the simulated GPU: it ends in time, every step has its row, every part of the
bench its table, and the report, its JSON and the archive are there.

use: check_dry.py [OUT]        CHAINRULE_BUILD: the build (build/release)
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

from environment import simulated

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = Path(os.environ.get("CHAINRULE_BUILD", ROOT / "build" / "release"))
MOST = 540  # seconds on a machine of its own; step limits are TIMES as long, for a busy one
TIMES = 4
ABSENT = ("webgpu", "nvcc", "memcheck", "racecheck", "synccheck", "counters")  # steps that a dry run may go without


def expected() -> set[str]:
    suites = {path.stem for path in (ROOT / "tests").glob("test_cuda*.c")}
    return {"build", "cuda_demo", "train", "bench", "check_gpu", "test_tiny", *suites, *ABSENT}


def problems(out: Path, status: int, seconds: float) -> list[str]:
    report, archive = out / "report.json", out / "gpu_check.tar.gz"
    if not report.exists() or not archive.exists() or not (out / "report.md").exists():
        return [f"exit status {status}: a report or the archive is missing"]
    found = json.loads(report.read_text())
    verdicts = {step["step"]: step["verdict"] for step in found["steps"]}
    if "bench_webgpu" in verdicts:  # a GPU that WebGPU reaches
        verdicts["webgpu"] = verdicts["bench_webgpu"]
    wrong = [f"no row of {name}" for name in sorted(expected() - set(verdicts))]
    wrong += [
        f"{step['step']}: {step['verdict']}, {step['said']}"
        for step in found["steps"]
        if step["verdict"] != "ok" and not (step["verdict"] == "went without" and step["step"] in ABSENT)
    ]
    titles = dict(
        re.findall(r'^    "(\w+)": "(.+)",$', (ROOT / "bench/parts/cuda.py").read_text().split("\n}")[0], re.MULTILINE)
    )
    rows = (found["bench"] or {}).get("cuda", {"rows": []})["rows"]
    measured = {row.get("group") for row in rows}
    text = (out / "report.md").read_text()
    wrong += [
        f"no table of {part}" for part, title in titles.items() if title not in measured or f"| {title} |" not in text
    ]
    wrong += [f"{row['what']}, {column}: {why}" for row in rows for column, why in row.get("missing", {}).items()]
    if len(titles) < 7:
        wrong.append(f"only {len(titles)} titles of parts were found")
    if "gpu_check/report.md" not in tarfile.open(archive).getnames():
        wrong.append("report.md is not in the archive")
    if status and not wrong:
        wrong.append(f"exit status {status}")
    if seconds > MOST * (TIMES if os.getloadavg()[0] > 2 * len(os.sched_getaffinity(0)) else 1):
        wrong.append(f"it took {seconds:.0f} s, more than {MOST}")
    return wrong


def main() -> int:
    environment = simulated(BUILD)
    if not environment:
        print("skipped a dry run of tools/gpu_check.sh: no simulated GPU\nresult: 0 passed, 0 failed, 1 skipped")
        return 0
    with tempfile.TemporaryDirectory(prefix="chainrule-") as folder:
        out = Path(sys.argv[1] if len(sys.argv) > 1 else folder).absolute()
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        variables = {"PATH": path, "BUILD": str(BUILD), "QUICK": "1", "TIMES": str(TIMES), "CUDASIM_DEVICES": "2"}
        start = time.monotonic()
        done = subprocess.run(
            ["sh", str(ROOT / "tools/gpu_check.sh"), str(out)],
            env={**os.environ, **environment, **variables},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        seconds = time.monotonic() - start
        wrong = problems(out, done.returncode, seconds)
    print("\n".join([done.stdout[-3000:], *wrong] if wrong else wrong))
    print(f"report a dry run of tools/gpu_check.sh: {seconds:.0f} s")
    print(f"result: {len(expected()) - min(len(wrong), len(expected()))} passed, {len(wrong)} failed, 0 skipped")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
