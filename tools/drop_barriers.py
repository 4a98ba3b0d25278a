"""Takes the barriers out of the CUDA kernels, one at a time, and demands that the thread sanitizer reports each.

    drop_barriers.py [file ...]    only of these files: attention.cu

Runs the cases of a few ops on the simulated GPU whose kernels are sanitized
(build/release/tests/test_cuda_ops_thread), or a test of their own; the simulated NVRTC takes the
barrier out (CUDASIM_DROP_BARRIER).  With all barriers in place the same cases must run without a
report.  In hopper.cu each call that orders the units of sm_90a is taken out too, and any failure is a
report: the simulator's model checks what the sanitizer cannot see."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "build" / "release" / "tests"
PROGRAM: list[Path | str] = [TESTS / "test_cuda_ops_thread", "cases"]
SCANS: list[Path | str] = [TESTS / "test_cuda_order_thread", "float_scans"]
PROGRAMS: dict[str, list[list[Path | str]]] = {  # of files that have their own, each after variables
    "attention.cu": [[TESTS / "test_cuda_attention_thread"]],
    "hopper.cu": [
        ["CUDASIM_ORDER=reverse", TESTS / "test_cuda_hopper", "hopper_attention"],
        ["CUDASIM_ORDER=1", TESTS / "test_cuda_hopper", "hopper_attention"],
        [TESTS / "test_cuda_hopper_thread", "hopper_attention"],
    ],
    "conv.cu": [[TESTS / "test_cuda_kernels_thread", "convolutions"]],
    "factor.cu": [[TESTS / "test_cuda_factor_thread", "factors"]],
    "device.cuh": [
        PROGRAM,
        SCANS,
        [TESTS / "test_cuda_kernels_thread", "tiles"],
        [TESTS / "test_cuda_kernels_thread", "norm_gradients"],
        [TESTS / "test_cuda_attention_thread"],
    ],
    "order.cu": [[TESTS / "test_cuda_order_thread", "samples"], [TESTS / "test_cuda_kernels_thread", "selection"]],
    "scan.cu": [SCANS],
}
OPS = {
    "device.cuh": "sum,softmax",
    "argreduce.cu": "argmax",
    "matmul.cu": "matmul",
}  # whose cases run a file's kernels; of another file: all
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:[^\"\\\n]|\\.)*\"", re.DOTALL)
BARRIER = re.compile(r"\b(?:__syncthreads|__syncwarp)\b")
HOPPER = re.compile(  # what orders the units of sm_90a; the simulator notices too (tests/cudasim/hopper.c)
    r"\b(?:__syncthreads|__syncwarp|barrier_(?:wait|arrive|expect)|synchronize|arrive|begin_products|commit_products"
    r"|publish)\b"
)


def barriers(path: Path) -> list[int]:
    """The lines of a file's barriers."""
    text = COMMENT.sub(lambda found: "\n" * found[0].count("\n"), path.read_text(encoding="utf-8"))
    barrier = HOPPER if path.name == "hopper.cu" else BARRIER
    return [text.count("\n", 0, found.start()) + 1 for found in barrier.finditer(text)]


def cases(file: str, drop: int | None) -> tuple[int, str]:
    environment = {
        **os.environ,
        "CHAINRULE_CACHE": "off",
        "CHAINRULE_CUBLASLT": "off",
        "CHAINRULE_NUM_THREADS": "1",
        "TSAN_OPTIONS": "halt_on_error=1",
    }
    if file in OPS:
        environment["CHAINRULE_TEST_OPS"] = OPS[file]
    if drop is not None:
        environment["CUDASIM_DROP_BARRIER"] = f"{file}:{drop}"
    plain = ["setarch", platform.machine(), "-R"] if shutil.which("setarch") else []
    status, output = 0, ""
    for program in PROGRAMS.get(file, [PROGRAM]):
        if status == 0:
            command = [*plain, "env", *map(str, program)]
            done = subprocess.run(
                command,
                env=environment,
                text=True,
                errors="replace",
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=900,
            )
            status, output = done.returncode, output + done.stdout
    return status, output


def judge(file: str, number: int | None, line: int) -> str:
    """A description of the failure, or nothing."""
    status, output = cases(file, number)
    end = "\n".join(output.splitlines()[-20:])
    if number is None:
        return f"{file}: fails with all its barriers\n{end}" if status else ""
    if "a barrier was dropped" not in output:
        return f"{file}:{line}: no case compiles this barrier\n{end}"
    if status == 0 or ("ThreadSanitizer" not in output and file != "hopper.cu"):  # a race, or a crash for one
        return f"{file}:{line}: without this barrier nothing is reported\n{end}"
    return ""


def main() -> int:
    if not (TESTS / "test_cuda_ops_thread").exists():
        print("skipped: the simulated GPU needs Linux on x86-64 or aarch64, a C++ compiler and the thread sanitizer")
        return 77
    work: list[tuple[str, int | None, int]] = []
    for path in sorted((ROOT / "src/dev/cuda").glob("*.cu*")):
        if sys.argv[1:] and path.name not in sys.argv[1:]:
            continue
        lines = barriers(path)
        if lines:
            work.append((path.name, None, 0))
        work += [(path.name, number, line) for number, line in enumerate(lines, 1)]
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as several:
        problems = [problem for problem in several.map(lambda item: judge(*item), work) if problem]
    print("\n".join(problems) + "\n" if problems else "", end="")
    print(f"{sum(number is not None for _, number, _ in work)} barriers")
    print(f"result: {len(work) - len(problems)} passed, {len(problems)} failed, 0 skipped")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
