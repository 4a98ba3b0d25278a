"""WebAssembly: the program compiled by Emscripten trains in node, and its weights have the bits of x86-64-v2.

    check_web.py CHAINRULE [BUILD]      the native program, and the folder for the other one (build/web)

Wants emcc, node and the module acorn (Debian: emscripten, node-acorn)."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STEPS = 40
SIZES = ["--layers 2 --width 64 --heads 4", "--layers 1 --width 40 --heads 5 --dropout 0.2 --batch 5"]


def compiled(build: Path) -> Path:
    options = [
        "-DCHAINRULE_SHARED=OFF",
        "-DCHAINRULE_TESTS=OFF",
        "-DCHAINRULE_EXAMPLES=OFF",
        "-DCMAKE_BUILD_TYPE=Release",
    ]
    # Debian's compiler finds acorn only where it is told to look
    environment = {**os.environ, "NODE_PATH": "/usr/share/nodejs:/usr/lib/nodejs"}
    environment.pop("CMAKE_C_COMPILER_LAUNCHER", None)
    for command in (
        ["emcmake", "cmake", "-S", str(ROOT), "-B", str(build), *options],
        ["cmake", "--build", str(build), "-j", str(os.cpu_count() or 1)],
    ):
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            sys.exit(f"{' '.join(command)}:\n{done.stdout[-3000:]}")
    return build / "chainrule.js"


def trained(program: list[str], size: str, folder: Path) -> tuple[bytes, list[float]]:
    """The weights, without the header, whose order of keys is the program's; and the losses."""
    text = folder / "text"
    text.write_text("".join(f"line {n * n % 97} of {n}\n" for n in range(800)))
    out = folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    command = [*program, "train", "--data", str(text), "--out", str(out), "--steps", str(STEPS), *size.split()]
    environment = {**os.environ, "CHAINRULE_ISA": "v2", "CHAINRULE_ONEDNN": "off", "CHAINRULE_DEVICE": "cpu"}
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    losses = [json.loads(line).get("loss") for line in (out / "run.jsonl").read_text().splitlines()]
    weights = (out / "checkpoint" / "weights.safetensors").read_bytes()
    return weights[8 + int.from_bytes(weights[:8], "little") :], [loss for loss in losses if loss is not None]


def main() -> int:
    native = [str(Path(sys.argv[1]).resolve())]
    missing = [name for name in ("emcc", "emcmake", "node") if not shutil.which(name)]
    if missing or platform.machine() not in ("x86_64", "AMD64"):
        print(f"skipped: {', '.join(missing) or 'the native program is not for x86-64'} (web)")
        print("result: 0 passed, 0 failed, 1 skipped")
        return 0
    script = compiled(Path(sys.argv[2]) if len(sys.argv) > 2 else ROOT / "build" / "web")
    help_text = subprocess.run(["node", "--help"], stdout=subprocess.PIPE, text=True).stdout
    # Emscripten 3.1.6 would load the module by node's fetch, which takes no paths
    web = ["node", *(["--no-experimental-fetch"] if "experimental-fetch" in help_text else []), str(script)]
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for size in SIZES:
            ours, theirs = (trained(program, size, Path(folder)) for program in (native, web))
            same = ours == theirs and len(ours[0]) > 1000 and len(ours[1]) > 1
            failed += not same
            verdict = "ok" if same else "FAILED"
            print(f"{verdict}: {size}: {len(ours[0])} bytes of weights, losses {ours[1][-1]}, {theirs[1][-1]}")
    print(f"result: {len(SIZES) - failed} passed, {failed} failed, 0 skipped")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
