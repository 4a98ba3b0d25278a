"""WebAssembly in node against this machine's native library at x86-64-v2, bit for bit: the program trains, the
package's functions compute, and its own tests pass.

    test_web.py [CHAINRULE]      the native program, default build/release/chainrule

Wants emcc, node and the module acorn (Debian: emscripten, node-acorn)."""

from __future__ import annotations

import gzip
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import build_web
import gen_web

ROOT = Path(__file__).resolve().parent.parent
RELEASE = Path(os.environ.get("CHAINRULE_BUILD", ROOT / "build" / "release"))
NATIVE = {**os.environ, "CHAINRULE_ISA": "v2", "CHAINRULE_ONEDNN": "off", "CHAINRULE_DEVICE": "cpu"}
STEPS = 40
LIMITS = {"small": 360_000, "whole": 568_000}  # bytes of the modules after gzip: measured, and a little
SIZES = ["--layers 2 --width 64 --heads 4", "--layers 1 --width 40 --heads 5 --dropout 0.2 --batch 5"]


def node() -> list[str]:
    """Emscripten 3.1.6 would load a module by node's fetch, which takes no paths."""
    help_text = subprocess.run(["node", "--help"], stdout=subprocess.PIPE, text=True).stdout
    return ["node", *(["--no-experimental-fetch"] if "experimental-fetch" in help_text else [])]


# ---- the program


def trained(program: list[str], size: str, folder: Path) -> tuple[bytes, list[float]]:
    """The weights, without the header, which has the seconds; and the losses."""
    (folder / "text").write_text("".join(f"line {n * n % 97} of {n}\n" for n in range(800)))
    out = folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    command = [*program, "train", "--data", "text", "--out", "out", "--steps", str(STEPS), *size.split()]
    done = subprocess.run(command, cwd=folder, env=NATIVE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        return done.stdout.encode()[-500:], []
    losses = [json.loads(line).get("loss") for line in (out / "run.jsonl").read_text().splitlines()]
    weights = (out / "checkpoint" / "weights.safetensors").read_bytes()
    return weights[8 + int.from_bytes(weights[:8], "little") :], [loss for loss in losses if loss is not None]


def check_program(native: str, folder: Path) -> int:
    failed = 0
    for size in SIZES:
        web = [*node(), str(build_web.OBJECTS / "chainrule.js")]
        ours, theirs = (trained(program, size, folder) for program in ([native], web))
        same = ours == theirs and len(ours[0]) > 1000 and len(ours[1]) == STEPS
        failed += not same
        last = (ours[1][-1:], theirs[1][-1:])
        print(
            f"{'ok' if same else 'FAILED'}: program {size}: losses {last}" + ("" if same else f"\n{theirs[0][-400:]!r}")
        )
    return failed


# ---- the functions of the package

PYTHON = """
import json, sys
import chainrule as cr
cases = json.load(open(sys.argv[1]))
for case in cases:
    tensors = [cr.tensor(x, dtype=getattr(cr, d)) for x, d in case["tensors"]]
    try:
        y = getattr(cr, case["name"])(*tensors, *case["more"])
        ys = y if isinstance(y, (tuple, list)) else [y]
        case["result"] = y if isinstance(y, bool) else [
            [
                str(y.dtype).split(".")[-1],
                list(y.shape),
                [x.hex() if isinstance(x, float) else x for x in y.reshape(-1).tolist()],
            ]
            for y in ys
        ]
    except Exception as e:
        case["error"] = str(e)
json.dump(cases, open(sys.argv[1], "w"))
"""


def inputs(n: int, dtype: str) -> list[list[object]]:
    """n tensors (2, 3) of numbers between 0 and 1, which every function takes; integers 1 to 7; bools."""
    make: Callable[[int], float | bool] = {
        "float32": lambda k: (k * 37 % 64 + 3) / 72,
        "float64": lambda k: (k * 37 % 64 + 3) / 72,
        "int64": lambda k: k * 5 % 7 + 1,
        "bool": lambda k: k % 3 != 0,
    }[dtype]
    return [[[[make(6 * t + 3 * i + j + t) for j in range(3)] for i in range(2)], dtype] for t in range(n)]


def cases() -> list[dict[str, object]]:
    """Calls of every function of tensors, whose other arguments have defaults, or are a small whole number."""
    found: list[dict[str, object]] = []
    for op in gen_web.read_ops()[0]:
        visible = gen_web.shown(op.codes)
        n = len(visible) - len("".join(visible).lstrip("t"))
        if not op.function or not n or "g" in visible or op.name.startswith("empty"):
            continue
        needed = [code for p, code in zip(op.params[n:], visible[n:], strict=True) if not gen_web.value(p)]
        if any(code not in "indlLb" for code in needed):
            continue
        more: list[object] = [[1] if code in "lL" else bool(1) if code == "b" else 1 for code in needed]
        casts = op.name == "logsumexp"  # Python casts integers, C does not
        for dtype in ("float32", "float64") if casts else ("float32", "float64", "int64", "bool"):
            found.append({"name": op.name, "tensors": inputs(n, dtype), "more": more})
    return found


def check_functions(folder: Path) -> int:
    """Writes the cases with the native results for the tests in node."""
    path = folder / "cases.json"
    path.write_text(json.dumps(cases()))
    environment = {**NATIVE, "PYTHONPATH": str(RELEASE / "python")}
    done = subprocess.run([sys.executable, "-c", PYTHON, str(path)], env=environment, capture_output=True, text=True)
    if done.returncode:
        print(f"FAILED: native results: {done.stderr[-800:]}")
        return 1
    return 0


def check_package(native: str, folder: Path) -> tuple[int, int]:
    """The tests in web/tests: passed and failed."""
    environment = {
        **NATIVE,
        "CHAINRULE_WEB": str(build_web.OUT),
        "CHAINRULE_NATIVE": native,
        "CHAINRULE_CASES": str(folder),
    }
    tests = sorted(str(path) for path in (ROOT / "web" / "tests").glob("*.test.js"))
    command = ["node", "--expose-gc", "--test", "--test-reporter=tap", *tests]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    counts = dict(line[2:].split() for line in done.stdout.splitlines() if line.startswith(("# pass ", "# fail ")))
    passed, failed = int(counts.get("pass", 0)), int(counts.get("fail", 0))
    if failed or not passed or done.returncode:
        print(done.stdout[-20000:], done.stderr[-2000:])
    return passed, max(failed, int(not passed or done.returncode != 0))


DENO = """
const { load } = await import(Deno.args[0] + "/chainrule/index.js");
const run = (await load()).Run.train(await Deno.readTextFile(Deno.args[1]), JSON.parse(Deno.args[2]));
while (run.step());
console.log(await run.hash());
"""


def check_deno(native: str, folder: Path) -> tuple[int, int, int]:
    """A run in deno has the weights of the native program: passed, failed, skipped."""
    if not shutil.which("deno"):
        print("skipped deno: it is not here (pip install deno)")
        return 0, 0, 1
    wanted, _ = trained([native], SIZES[0], folder)
    options = json.dumps({"layers": 2, "width": 64, "heads": 4, "steps": STEPS})
    (folder / "deno.mjs").write_text(DENO)
    words = ["deno", "run", "--allow-read", "--allow-env", "deno.mjs", f"file://{build_web.OUT}", "text", options]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    same = done.stdout.strip() == sha256(wanted).hexdigest()
    print(f"{'ok' if same else 'FAILED'}: a run in deno {done.stdout.strip()} {done.stderr[-500:]}")
    return int(same), int(not same), 0


def check_sizes() -> int:
    """How many modules are larger than they were."""
    package = build_web.OUT / "chainrule"
    sizes = {name: len(gzip.compress((package / f"{name}.wasm").read_bytes(), 9)) for name in LIMITS}
    large = [name for name, size in sizes.items() if size > LIMITS[name]]
    print(f"{'FAILED' if large else 'ok'}: bytes after gzip {sizes}, at most {LIMITS}")
    return len(large)


def check_types() -> tuple[int, int, int]:
    """A user's program compiles with the package's types: passed, failed, skipped."""
    if not shutil.which("tsc"):
        print("skipped types of the package: no tsc here (apt-get install node-typescript)")
        return 0, 0, 1
    options = "--noEmit --strict --target es2022 --module es2022 --moduleResolution node --lib es2022,dom"
    command = ["tsc", *options.split(), str(ROOT / "web" / "tests" / "user.ts")]
    done = subprocess.run(command, capture_output=True, text=True)
    print(done.stdout[-2000:], end="")
    return int(not done.returncode), int(done.returncode != 0), 0


def main() -> int:
    native = str(Path(sys.argv[1] if len(sys.argv) > 1 else RELEASE / "chainrule").resolve())
    absent = build_web.missing()
    if absent or platform.machine() not in ("x86_64", "AMD64"):
        print(f"skipped web: no {', '.join(absent) or 'native program for x86-64'} here (make deps)")
        print("result: 0 passed, 0 failed, 1 skipped")
        return 0
    build_web.assemble()
    build_web.compiled(build_web.OBJECTS, "chainrule")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        large = check_sizes()
        failed = check_program(native, folder)
        passed = len(SIZES) - failed + len(LIMITS) - large
        failed += large
        failed += check_functions(folder)
        more, broken = check_package(native, folder)
        rest = [check_types(), check_deno(native, folder)]
        passed, failed = passed + more, failed + broken
        right, wrong, skipped = (sum(each) for each in zip(*rest, strict=True))
        print(f"result: {passed + right} passed, {failed + wrong} failed, {skipped} skipped")
    return int(failed + wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
