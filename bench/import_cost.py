"""What `import NAME` costs a fresh process: milliseconds and resident megabytes, least of several.
use: import_cost.py NAME [runs]"""

import json
import os
import subprocess
import sys

CHILD = """
import sys, time
def resident():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * 4096 / 1e6
before, start = resident(), time.perf_counter()
__import__(sys.argv[1])
print((time.perf_counter() - start) * 1e3, resident() - before)
"""


def main() -> None:
    name, runs = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 10
    environment = {
        k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"
    }  # compiled once, as after an installation
    command = [sys.executable, "-c", CHILD, name]
    found = [
        subprocess.run(command, env=environment, check=True, text=True, capture_output=True).stdout.split()
        for _ in range(runs)
    ]
    print(json.dumps({"ms": min(float(ms) for ms, _ in found), "mb": min(float(mb) for _, mb in found)}))


if __name__ == "__main__":
    main()
