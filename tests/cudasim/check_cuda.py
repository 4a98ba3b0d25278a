"""Checks with NVIDIA's tools, where they are installed: nvcc and NVRTC compile the kernels; cuda.h,
nvrtc.h and cublasLt.h are compared with the declarations of the library and the simulator.

    check_cuda.py                  kernels by nvcc, for one architecture (with
    CHAINRULE_TEST_FULL=1 for all); headers check_cuda.py --nvrtc FOLDER   every text in the folder
    (CUDASIM_KEEP of the simulated NVRTC) by the real one check_cuda.py --loops FILE     the machine
    instructions of each loop of a file's kernels, for the last architecture, by kind (PyPI's
    nvidia-cuda-nvdisasm)

Prints registers, static shared memory and spills of each kernel; a spill is a failure.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent.parent
KERNELS = ROOT / "src/dev/cuda"
FULL = os.environ.get("CHAINRULE_TEST_FULL", "") != ""
ARCHITECTURES = ["75", "80", "86", "89", "90a", "100", "120"] if FULL else ["90a"]
PACKAGES = [
    Path(place) / "nvidia/cu13" for place in (ROOT / "build" / "nvrtc", sysconfig.get_path("purelib"))
]  # nvidia-cuda-nvrtc (Makefile)
# Kernels that may spill more than one word, and their definitions: a division of 64 bits is a call, which
# saves registers.  No loop spills, except a few words for
# each tile of keys with heads of 120, and in float64.
SPILLS_ALLOWED = {
    ("attention", "HEAD=120"),
    ("attention_dkv", "A=f64"),
    ("put", ""),
    ("scatter", ""),
    ("in_order", ""),
    ("max_pool", ""),
    ("conv_direct", ""),
}
SPILLED_MOST = 96
SPILLED_WORD = 8  # bytes: one word, stored once and loaded once

# Definitions that the files are compiled with, a selection: the simplest, and those with the most
# conversions.  A file that is not listed is a
# failure.
DEFINITIONS = {
    "argreduce": ["T=f32 MAX=1", "T=bf16 MAX=0"],
    "attention": [
        "PASS=0 T=bf16 A=f32 MASKED=0 HEAD=128 MT=2 NT=8",
        "PASS=0 T=bf16 A=f32 MASKED=0 HEAD=64 MT=2 NT=8",
        "PASS=0 T=f16 A=f32 MASKED=1 HEAD=128 MT=2 NT=4",
        "PASS=1 T=bf16 A=f32 MASKED=0 HEAD=64 MT=2 NT=8",
        "PASS=1 T=bf16 A=f32 MASKED=0 HEAD=128 MT=2 NT=4",
        "PASS=1 T=f16 A=f32 MASKED=1 HEAD=128 MT=1 NT=4",
        "PASS=2 T=bf16 A=f32 MASKED=0 HEAD=64 MT=2 NT=8",
        "PASS=2 T=bf16 A=f32 MASKED=0 HEAD=128 MT=2 NT=4",
        "PASS=2 T=f16 A=f32 MASKED=1 HEAD=128 MT=2 NT=2",
        "PASS=2 T=f16 A=f32 MASKED=0 HEAD=128 MT=1 NT=2",
        "PASS=0 T=bf16 A=f32 MASKED=0 HEAD=40 MT=2 NT=8",
        "PASS=0 T=bf16 A=f32 MASKED=0 HEAD=120 MT=2 NT=8",
        "PASS=1 T=bf16 A=f32 MASKED=0 HEAD=56 MT=2 NT=8",
        "PASS=1 T=f16 A=f32 MASKED=0 HEAD=104 MT=1 NT=4",
        "PASS=2 T=bf16 A=f32 MASKED=1 HEAD=96 MT=2 NT=2",
        "PASS=0 T=f32 A=f32 MASKED=1 R=4 C=1",
        "PASS=1 T=bf16 A=f32 MASKED=0 R=4 C=2",
        "PASS=2 T=f32 A=f32 MASKED=1 R=4 C=2",
        "PASS=2 T=f64 A=f64 MASKED=0 R=2 C=2",
        "PASS=3 T=f32 A=f32 MASKED=0 R=4 C=1",
        "PASS=4 T=f32 A=f32 MASKED=1 R=1 C=1 KEYS=64",
        "PASS=4 T=bf16 A=f32 MASKED=0 R=1 C=1 KEYS=64",
        "PASS=4 T=f64 A=f64 MASKED=0 R=1 C=1 KEYS=64",
    ],
    "channels": ["T=f32 A=f32", "T=bf16 A=f32", "T=f64 A=f64"],
    "conv": [
        "KIND=0 T=bf16 TO=bf16 A=f32 ROUND=0 F=bf16 MT=2",
        "KIND=0 T=f32 TO=f32 A=f32 ROUND=0 F=f32 MT=2",
        "KIND=0 T=f32 TO=f32 A=f32 ROUND=0 F=bf16 MT=1",
        "KIND=1 T=f16 TO=f16 A=f32 ROUND=0 F=f16 MT=2",
        "KIND=1 T=f32 TO=f32 A=f32 ROUND=0 F=bf16 MT=1",
        "KIND=2 T=bf16 TO=f32 A=f32 ROUND=0 F=bf16 MT=2",
        "KIND=2 T=f32 TO=f32 A=f32 ROUND=0 F=f32 MT=2",
        "KIND=0 T=f32 TO=f32 A=f32 ROUND=0 R=8",
        "KIND=1 T=f32 TO=f32 A=f32 ROUND=1 R=4",
        "KIND=2 T=f32 TO=f32 A=f32 ROUND=0 R=8",
        "KIND=2 T=f64 TO=f64 A=f64 ROUND=0 R=4",
        "KIND=0 T=f64 TO=f64 A=f64 ROUND=0 R=2",
        "KIND=0 T=bf16 TO=bf16 A=f32 ROUND=0 R=8",
        "KIND=0 T=f32 TO=f32 A=f32 ROUND=0",
        "KIND=1 T=bf16 TO=bf16 A=f32 ROUND=0",
        "KIND=2 T=f64 TO=f64 A=f64 ROUND=0",
    ],
    "hopper": [f"PASS={p} T={t} A=f32 MASKED=0 HEAD={d}" for p in (0, 2) for t in ("bf16", "f16") for d in (64, 128)],
    "factor": ["T=f32", "T=f64"],
    "index": [
        "T=f32 INDEX=i64 ADD=1",
        "T=f16 INDEX=i32 ADD=1",
        "T=f32 INDEX=i64 ADD=1 KEY=u16 A=f32",
        "T=bf16 INDEX=i64 ADD=1 KEY=u16 A=f32",
        "T=u64 INDEX=i32 ADD=0 KEY=u64 A=u64",
    ],
    "matmul": [
        "T=f32 TO=f32 A=f32 ROUND=0",
        "T=bf16 TO=bf16 A=f32 ROUND=0",
        "T=bf16 TO=f32 A=f32 ROUND=0",
        "T=i64 TO=i64 A=u64 ROUND=0",
    ],
    "nonzero": ["PIECE=512"],
    "order": ["T=f32 POSITION=u32 TILE=2048", "T=bf16 POSITION=u32 TILE=2048", "T=i64 POSITION=u64 TILE=2048"],
    "pool": ["T=f32 A=f32", "T=bf16 A=f32", "T=f64 A=f64"],
    "packed": [
        "T=f32 A=f32 FORMAT=q8_0 BLOCK=32 BYTES=34",
        "T=bf16 A=f32 FORMAT=q4_0 BLOCK=32 BYTES=18",
        "T=f64 A=f64 FORMAT=q4_k BLOCK=256 BYTES=144",
    ],
    "random": ["T=f32 A=f32", "T=f64 A=f64", "T=i8 A=f32"],
    "reduce": [
        "T=f32 A=f32 TO=f32 KIND=0 MAP=0",
        "T=bf16 A=f32 TO=bf16 KIND=0 MAP=6",
        "T=i32 A=i64 TO=i64 KIND=2 MAP=0",
    ],
    "rows": ["T=f32 A=f32", "T=bf16 A=f32", "T=f64 A=f64"],
    "sample": ["T=f32", "T=f64"],
    "squares": ["T=f32 A=f32", "T=bf16 A=f32"],
    "scan": [
        "T=f32 TO=f32 HOW=float_sum EXTREME=0 V=5",
        "T=bf16 TO=bf16 HOW=log_sum EXTREME=0 V=5",
        "T=f64 TO=f64 HOW=float_product EXTREME=0 V=5",
        "T=b8 TO=i64 HOW=integer_product EXTREME=0 V=5",
        "T=f64 TO=f64 HOW=smallest EXTREME=1 V=5",
    ],
}


def text_of(file: str, definitions: str) -> str:
    defines = "".join(
        f"#define {name} {value}\n" for name, _, value in (part.partition("=") for part in definitions.split())
    )
    parts = [
        (path.name, path.read_text(encoding="utf-8"))
        for path in (KERNELS / "device.cuh", KERNELS / "arguments.h", KERNELS / f"{file}.cu")
    ]
    device, arguments, kernel = (f'#line 1 "{name}"\n{text}\n' for name, text in parts)
    return re.sub(
        r'^#include "(\w+\.cuh)"\n',
        lambda found: (KERNELS / found[1]).read_text(encoding="utf-8"),
        device + arguments + defines + kernel,
        flags=re.M,
    )


class Result:
    passed = 0
    failed = 0
    skipped = 0

    def check(self, fine: bool, problem: str) -> None:
        self.passed += fine
        self.failed += not fine
        if not fine:
            print(problem)

    def skip(self, why: str) -> None:
        self.skipped += 1
        print(f"skipped {why}")

    def end(self) -> int:
        print(f"result: {self.passed} passed, {self.failed} failed, {self.skipped} skipped")
        return 1 if self.failed else 0


# ---- nvcc
REPORT = re.compile(
    r"Compiling entry function '(?P<name>\w+)' for 'sm_(?P<architecture>\w+)'.*?(?P<stores>\d+) bytes spill stores,"
    r" (?P<loads>\d+) bytes spill loads"
    r".*?Used (?P<registers>\d+) registers(?P<rest>[^\n]*)",
    re.DOTALL,
)


class Figures(NamedTuple):
    name: str
    architecture: str
    registers: int
    shared: int
    spilled: int


def figures_of(said: str) -> list[Figures]:
    """The output of ptxas for each kernel and architecture: registers, bytes."""
    shared = re.compile(r"(\d+) bytes smem")
    return [
        Figures(
            f["name"],
            f["architecture"],
            int(f["registers"]),
            int(found[1]) if (found := shared.search(f["rest"])) else 0,
            int(f["stores"]) + int(f["loads"]),
        )
        for f in REPORT.finditer(said)
    ]


def is_fine(of: Figures, definitions: str) -> bool:
    return of.spilled <= SPILLED_WORD or (
        of.spilled <= SPILLED_MOST and any(of.name == name and part in definitions for name, part in SPILLS_ALLOWED)
    )


def nvcc(file: str, definitions: str) -> tuple[str, dict[str, list[str]], bool]:
    """The output, figures by kernel in the order of ARCHITECTURES, and whether all is well."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.cu"
        source.write_text(text_of(file, definitions), encoding="utf-8")
        codes = [f"-gencode=arch=compute_{a},code=sm_{a}" for a in ARCHITECTURES]
        command = ["nvcc", "-std=c++17", "-fatbin", "-Xptxas=-v", *codes, str(source), "-o", f"{folder}/kernel.fatbin"]
        done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    figures = figures_of(done.stdout)
    fine = done.returncode == 0 and all(is_fine(of, definitions) for of in figures)
    rows: dict[str, list[str]] = {}
    for of in sorted(figures, key=lambda of: ARCHITECTURES.index(of.architecture)):
        rows.setdefault(of.name, []).append(f"{of.registers}/{of.shared}/{of.spilled}")
    return done.stdout if done.returncode else f"registers are spilled: {rows}", rows, fine and bool(rows)


def check_nvcc(result: Result) -> None:
    files = sorted(path.stem for path in KERNELS.glob("*.cu"))
    for file in files:
        result.check(
            file in DEFINITIONS, f"{file}.cu: add what it is compiled with to DEFINITIONS of {Path(__file__).name}"
        )
    if not shutil.which("nvcc"):
        return result.skip("kernels by nvcc: nvcc is absent: not checked")
    work = [(file, definitions) for file in files for definitions in DEFINITIONS.get(file, [])[: None if FULL else 1]]
    mark = "report " if FULL else ""  # `make test-all` prints what begins so
    print(f"{mark}registers/bytes of shared memory/bytes spilled of CUDA kernels on sm_{', sm_'.join(ARCHITECTURES)}")
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as several:
        for (file, definitions), (said, figures, fine) in zip(
            work, several.map(lambda item: nvcc(*item), work), strict=True
        ):
            for name, row in figures.items():
                print(f"{mark}{file}.cu {name} [{definitions}]: {' '.join(row)}")
            result.check(fine, f"nvcc of {file}.cu [{definitions}]:\n{said}")


def show_loops(file: str) -> int:
    """The length of each loop in instructions and their number by kind; outer loops include inner
    ones, and branches for edges count too."""
    for definitions in DEFINITIONS[file]:
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "kernel.cu"
            source.write_text(text_of(file, definitions), encoding="utf-8")
            subprocess.run(
                [
                    "nvcc",
                    "-std=c++17",
                    "-cubin",
                    f"-arch=sm_{ARCHITECTURES[-1]}",
                    str(source),
                    "-o",
                    f"{folder}/kernel.cubin",
                ],
                check=True,
            )
            said = subprocess.run(
                ["nvdisasm", "-c", f"{folder}/kernel.cubin"], check=True, text=True, stdout=subprocess.PIPE
            ).stdout
        for name, body in re.findall(r"^\.text\.(\w+):\n(.*?)(?=^//|\Z)", said, re.DOTALL | re.MULTILINE):
            labels: dict[str, int] = {}
            kinds: list[str] = []
            for label, kind, target in re.findall(
                r"^(\.L_\w+):|^\s+/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?([A-Z]\w*)[^;\n]*?(\.L_\w+)?\)?\s*;",
                body,
                re.MULTILINE,
            ):
                if label:
                    labels[label] = len(kinds)
                    continue
                kinds.append(kind)
                begin = labels.get(target, len(kinds)) if kind == "BRA" else len(kinds)
                if len(kinds) - begin > 1:
                    found = Counter(kinds[begin:]).most_common()
                    print(
                        f"{file}.cu {name} [{definitions}]: {len(kinds) - begin} instructions:"
                        f" {', '.join(f'{n} {what}' for what, n in found)}"
                    )
    return 0


# ---- headers: numbers and parameters in nvidia.h and test_cudasim.c against NVIDIA's
SECTIONS = {"driver": "cuda.h", "NVRTC": "nvrtc.h", "cuBLASLt": "cublasLt.h", "cuSOLVER": "cusolverDn.h"}
LISTS = {"driver": "DRIVER", "NVRTC": "NVRTC", "cuBLASLt": "LT", "cuSOLVER": "SOLVER"}  # of test_cudasim.c


LARGE = {
    "cublasLt.h": "nvidia-cublas, of 420 MB",
    "cusolverDn.h": "nvidia-cusolver, of 260 MB (and cublas_v2.h, of nvidia-cublas)",
}


def includes() -> list[Path]:
    places = [Path(os.environ["CUDA_HOME"]) / "include"] if "CUDA_HOME" in os.environ else []
    return [
        place
        for place in [*places, *(package / "include" for package in PACKAGES), Path("/usr/local/cuda/include")]
        if place.is_dir()
    ]


def has_header(result: Result, header: str) -> bool:
    if any((place / header).is_file() for place in includes()):
        return True
    package = LARGE.get(header)
    where = f" (of PyPI's {package}, which nothing here installs: CUDA_HOME names a folder that has it in include/)"
    result.skip(f"{header}: absent: not compared{where if package else ''}")
    return False


def check_headers(result: Result) -> None:
    ours = (ROOT / "tests/cudasim/nvidia.h").read_text(encoding="utf-8")
    lists = (ROOT / "tests/cudasim/test_cudasim.c").read_text(encoding="utf-8")
    parts = re.split(r"/\* ---- (\w+) \*/", ours)[1:]
    for title, body in zip(parts[::2], parts[1::2], strict=True):
        header = SECTIONS[title]
        if not has_header(result, header):
            continue
        lines = [f"#include <{header}>"]
        lines += [
            f'_Static_assert({name} == {value}, "{name}");' for name, value in re.findall(r"\b(\w+) = (\d+)", body)
        ]
        macro = re.search(rf"#define {LISTS[title]}\(f\)((?:.*\\\n)*.*\n)", lists)
        assert macro
        for kind, name, parameters in re.findall(
            r"f\((CUresult|nvrtcResult), (\w+), (\((?:[^()]|\([^()]*\))*\))\)", macro[1]
        ):
            lines.append(f"{kind} {name}{parameters};".replace("\\\n", ""))  # another declaration would be an error
        done = subprocess.run(
            [
                os.environ.get("CC", "cc"),
                "-std=c17",
                "-fsyntax-only",
                *(f"-I{place}" for place in includes()),
                "-x",
                "c",
                "-",
            ],
            input="\n".join(lines) + "\n",
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        result.check(done.returncode == 0, f"{header} disagrees:\n{done.stdout}")


# ---- headers: the declarations of src/dev/cuda/api.h against NVIDIA's
PREFIXES = {
    "CUDA_ATTRIBUTE_": "CU_DEVICE_ATTRIBUTE_",
    "CUDA_STREAM_": "CU_STREAM_",
    "CUDA_EVENT_": "CU_EVENT_",
    "CUDA_CAPTURE_": "CU_STREAM_CAPTURE_MODE_",
    "CUDA_MAP_": "CU_TENSOR_MAP_",
    "CUDA_": "CUDA_ERROR_",
    "LT_R_": "CUDA_R_",
    "LT_COMPUTE_": "CUBLAS_COMPUTE_",
    "LT_DESC_": "CUBLASLT_MATMUL_DESC_",
    "LT_EPILOGUE_": "CUBLASLT_EPILOGUE_",
    "LT_LAYOUT_": "CUBLASLT_MATRIX_LAYOUT_",
    "LT_PREFERENCE_": "CUBLASLT_MATMUL_PREF_",
    "LT_REDUCTION_": "CUBLASLT_REDUCTION_SCHEME_",
}
NAMES = {  # names that differ in more than the prefix
    "CUDA_DYNAMIC_SHARED": "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES",
    "CUDA_ATTRIBUTE_MULTIPROCESSORS": "CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT",
    "CUDA_ATTRIBUTE_MAJOR": "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR",
    "CUDA_ATTRIBUTE_MINOR": "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR",
    "LT_NOT_SUPPORTED": "CUBLAS_STATUS_NOT_SUPPORTED",
    "LT_ALLOC_FAILED": "CUBLAS_STATUS_ALLOC_FAILED",
    "LT_INVALID_VALUE": "CUBLAS_STATUS_INVALID_VALUE",
    "LT_ARCHITECTURE_MISMATCH": "CUBLAS_STATUS_ARCH_MISMATCH",
    "LT_DESC_BIAS": "CUBLASLT_MATMUL_DESC_BIAS_POINTER",
    "LT_LAYOUT_BATCH_STRIDE": "CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET",
    "LT_PREFERENCE_REDUCTIONS": "CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK",
    "LT_PREFERENCE_WORKSPACE": "CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES",
    "LT_PREFERENCE_ALIGNMENT_A": "CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES",
    "SOLVER_ALLOC_FAILED": "CUSOLVER_STATUS_ALLOC_FAILED",
    "SOLVER_UPPER": "CUBLAS_FILL_MODE_UPPER",
    "SOLVER_VALUES": "CUSOLVER_EIG_MODE_NOVECTOR",
    "SOLVER_VECTORS": "CUSOLVER_EIG_MODE_VECTOR",
    "SOLVER_DETERMINISTIC": "CUSOLVER_DETERMINISTIC_RESULTS",
    "NCCL_IN_PROGRESS": "ncclInProgress",
    "NCCL_BYTE": "ncclUint8",
    "NCCL_F32": "ncclFloat32",
    "NCCL_F64": "ncclFloat64",
    "NCCL_SUM": "ncclSum",
}
# Two declarations are compatible for a call if they have as many parameters of the same sizes, and
# floats at the same places.
SAME_CALL = """
#include <cstddef>
#include <cstdint>
#include <type_traits>
template <class A, class B> constexpr bool alike = sizeof(A) == sizeof(B) &&
    std::is_floating_point<A>::value == std::is_floating_point<B>::value;
template <class F> struct call;
template <class R, class... A> struct call<R(A...)> {
    template <class S, class... B> static constexpr bool same(S (*)(B...)) {
        if constexpr (sizeof...(A) != sizeof...(B)) return false;
        else return alike<R, S> && (... && alike<A, B>);
    }
};
"""
LT_HEURISTIC = """
static_assert(sizeof(lt_heuristic) == sizeof(cublasLtMatmulHeuristicResult_t), "lt_heuristic");
static_assert(sizeof(lt_algorithm) == sizeof(cublasLtMatmulAlgo_t), "lt_algorithm");
static_assert(offsetof(lt_heuristic, workspace) ==
              offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize), "lt_heuristic.workspace");
static_assert(offsetof(lt_heuristic, status) ==
              offsetof(cublasLtMatmulHeuristicResult_t, state), "lt_heuristic.status");
static_assert(offsetof(lt_heuristic, waves) ==
              offsetof(cublasLtMatmulHeuristicResult_t, wavesCount), "lt_heuristic.waves");
"""
PREFIX_OF = {"cuda.h": "CUDA_", "cublasLt.h": "LT_", "cusolverDn.h": "SOLVER_", "nccl.h": "NCCL_"}
LAYOUTS = {"cublasLt.h": LT_HEURISTIC}


def their_name(ours: str) -> str:
    prefix = next((prefix for prefix in PREFIXES if ours.startswith(prefix)), "")
    return NAMES.get(ours) or PREFIXES.get(prefix, "") + ours[len(prefix) :]


def check_api(result: Result) -> None:
    if not shutil.which(os.environ.get("CXX", "c++")):
        return result.skip("src/dev/cuda/api.h: no C++ compiler: not compared")
    text = re.sub(r"/\*.*?\*/", "", (KERNELS / "api.h").read_text(encoding="utf-8"), flags=re.DOTALL).replace(
        "\\\n", ""
    )
    for name, value in re.findall(r"^#define (\w+) (.+)$", text, re.MULTILINE):
        text = re.sub(rf"\b{name}\b", value, text)
    before, _, rest = text.partition("#define CUDA_FUNCTIONS(f)")
    types = "\n".join(re.findall(r"^typedef [^;{]*(?:\{[^}]*\}[^;]*)?;", before, re.MULTILINE))
    constants = [
        (name, value)
        for body in re.findall(r"enum\s*\{([^}]*)\}", before)
        for name, value in re.findall(r"(\w+) = (\d+)", body)
    ]
    headers = (*SECTIONS.values(), "nccl.h")
    lists = dict(zip(headers, re.split(r"#define \w+_FUNCTIONS\(f\)", rest), strict=True))
    for header, body in lists.items():
        if not has_header(result, header):
            continue
        functions = re.findall(r'f\(\w+, "(\w+)", \(((?:[^()]|\([^()]*\))*)\)\)', body)
        lines = [f"#include <{header}>", SAME_CALL, types, LAYOUTS.get(header, "")]
        lines += [
            f'static_assert(call<int({parameters})>::same(&{symbol}), "{symbol}");' for symbol, parameters in functions
        ]
        prefix = PREFIX_OF.get(header, "none")
        lines += [
            f'static_assert({value} == {their_name(ours)}, "{ours}");'
            for ours, value in constants
            if ours.startswith(prefix)
        ]
        done = subprocess.run(
            [
                os.environ.get("CXX", "c++"),
                "-std=c++17",
                "-fsyntax-only",
                *(f"-I{place}" for place in includes()),
                "-x",
                "c++",
                "-",
            ],
            input="\n".join(lines) + "\n",
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        result.check(
            done.returncode == 0 and bool(functions), f"{header} and src/dev/cuda/api.h disagree:\n{done.stdout}"
        )


# ---- NVRTC
def check_nvrtc(result: Result, folder: Path) -> None:
    found = [
        path
        for place in [*(package / "lib" for package in PACKAGES), Path("/usr/local/cuda/lib64")]
        for path in place.glob("libnvrtc.so.*")
    ]
    if not found:
        return result.skip("kernels by NVRTC: nvidia-cuda-nvrtc is absent: not checked")
    for builtins in found[0].parent.glob("libnvrtc-builtins.so.*"):
        ctypes.CDLL(str(builtins), mode=ctypes.RTLD_GLOBAL)
    library = ctypes.CDLL(str(found[0]))
    texts = [(path.name, path.read_bytes(), "80") for path in sorted(folder.glob("*.cu"))]
    texts += [
        (f"{file}.cu [{d}]", text_of(file, d).encode(), a)
        for file, all_ in DEFINITIONS.items()
        for d in all_
        for a in ARCHITECTURES
    ]

    def compile_one(item: tuple[str, bytes, str]) -> tuple[str, list[Figures]]:
        name, text, architecture = item
        program, size = ctypes.c_void_p(), ctypes.c_size_t()
        options = [f"--gpu-architecture=sm_{architecture}".encode(), b"--std=c++17", b"--ptxas-options=-v"]
        library.nvrtcCreateProgram(ctypes.byref(program), text, name.encode(), 0, None, None)
        status = library.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
        library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        library.nvrtcGetProgramLog(program, log)
        library.nvrtcDestroyProgram(ctypes.byref(program))
        said = log.value.decode(errors="replace")
        return f"NVRTC of {name} for sm_{architecture}: error {status}\n{said}" if status else "", figures_of(said)

    kernels = most = 0
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as several:
        for (name, text, _), (problem, figures) in zip(texts, several.map(compile_one, texts), strict=True):
            definitions = " ".join(
                f"{define}={value}" for define, value in re.findall(r"#define (\w+) (\S+)\n", text.decode())
            )
            spilled = [str(of) for of in figures if not is_fine(of, definitions)]
            result.check(not problem and not spilled, problem or f"NVRTC of {name}: registers are spilled: {spilled}")
            kernels, most = kernels + len(figures), max([most, *(of.registers for of in figures)])
    print(
        f"report {len(texts)} texts by NVRTC: {kernels} kernels of at most {most} registers, none of which spills but"
        " those that may"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="Our CUDA kernels and the simulator against NVIDIA's tools.")
    parser.add_argument("--nvrtc", type=Path, metavar="FOLDER", help="compile the texts in it by NVRTC")
    parser.add_argument("--loops", metavar="FILE", help="count the instructions of each loop of this file's kernels")
    given = parser.parse_args()
    if given.loops:
        return show_loops(given.loops)
    result = Result()
    if given.nvrtc:
        check_nvrtc(result, given.nvrtc)
    else:
        check_nvcc(result)
        check_headers(result)
        check_api(result)
    return result.end()


if __name__ == "__main__":
    sys.exit(main())
