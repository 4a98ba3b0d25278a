"""Checks the kernels for sm_90a and the simulator's model of its units without a GPU:

* layouts.cpp, compiled for the host, compares swizzles, operands, fragments (those of sm_80 too) and descriptors with
  CUTLASS;
* NVRTC compiles hopper.cu for sm_90a: ptxas serializes no product of a warpgroup and spills nothing, and the
  machine code has as many products (HGMMA) and tensor copies (UTMALDG) as expected.

use: check_hopper.py        CHAINRULE_NVIDIA: the folder of NVIDIA's packages (build/nvrtc)
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from check_cuda import DEFINITIONS, ROOT, Result, figures_of, text_of

PACKAGES = Path(os.environ.get("CHAINRULE_NVIDIA", ROOT / "build" / "nvrtc"))
CUDA = PACKAGES / "nvidia/cu13"


def check_layouts(result: Result) -> None:
    cutlass = PACKAGES / "cutlass_library/source/include"
    compiler = shutil.which(os.environ.get("CXX", "c++"))
    if not compiler or not (cutlass / "cute/tensor.hpp").exists() or not (CUDA / "include/cuda_runtime_api.h").exists():
        return result.skip("layouts of tensor cores: no CUTLASS (make build/.for-nvrtc), no C++ compiler: not compared")
    with tempfile.TemporaryDirectory(prefix="chainrule-") as folder:
        includes = [f"-I{path}" for path in (cutlass, CUDA / "include", CUDA / "include/cccl")]
        source, program = str(ROOT / "tests/cudasim/layouts.cpp"), f"{folder}/layouts"
        command = [compiler, "-std=c++17", "-w", *includes, source, "-o", program]
        made = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        done = subprocess.run([program], text=True, capture_output=True) if made.returncode == 0 else made
    found = re.search(r"^result: (\d+) passed, (\d+) failed", done.stdout or "", re.MULTILINE)
    fine = done.returncode == 0 and found is not None and int(found[1]) > 40000
    result.check(fine, f"layouts of tensor cores differ from CUTLASS's:\n{done.stdout[-3000:]}")
    if fine and found:
        print(f"report {found[1]} places of elements for tensor cores agree with CUTLASS")


def compile_text(library: ctypes.CDLL, text: str) -> tuple[bytes, str]:
    """The machine code for sm_90a, empty if there is none, and what the compiler says."""
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    options = [b"--gpu-architecture=sm_90a", b"--std=c++17", b"--ptxas-options=-v"]
    library.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"hopper", 0, None, None)
    status = library.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    library.nvrtcGetProgramLog(program, log)
    code = b""
    if not status:
        library.nvrtcGetCUBINSize(program, ctypes.byref(size))
        cubin = ctypes.create_string_buffer(size.value)
        library.nvrtcGetCUBIN(program, cubin)
        code = cubin.raw
    library.nvrtcDestroyProgram(ctypes.byref(program))
    return code, log.value.decode(errors="replace")


def products(definitions: str) -> int:
    """Products of 16 along the axis that is summed: in the code of hopper.cu, each once."""
    head = int(re.search(r"HEAD=(\d+)", definitions)[1])  # type: ignore[index]
    if "PASS=0" in definitions:  # q k^T before and in the loop, weights v in and behind it, of 128 keys
        return 2 * head // 16 + 2 * 128 // 16
    sides = 128 // head  # of 64 queries: k q^T, v g^T, dv and dk; dq from 128 keys
    return sides * (2 * head // 16 + 2 * 64 // 16) + 128 // 16


def count(code: bytes, disassembler: str) -> dict[str, int]:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(code)
        file.flush()
        said = subprocess.run([disassembler, "-c", file.name], check=True, text=True, stdout=subprocess.PIPE).stdout
    return {name: len(re.findall(rf"\b{name}\b", said)) for name in ("HGMMA", "UTMALDG", "HMMA", "STL", "LDL")}


def check_code(result: Result) -> None:
    found = sorted((CUDA / "lib").glob("libnvrtc.so.*"))
    if not found:
        return result.skip("kernels for sm_90a: no NVRTC (make build/.for-nvrtc): not compiled")
    for builtins in found[0].parent.glob("libnvrtc-builtins.so.*"):
        ctypes.CDLL(str(builtins), mode=ctypes.RTLD_GLOBAL)
    library = ctypes.CDLL(str(found[0]))
    own = CUDA / "bin/nvdisasm"
    disassembler = str(own) if own.exists() else shutil.which("nvdisasm")
    if not disassembler:
        result.skip("machine code for sm_90a: no nvdisasm (make build/.for-nvrtc): not counted")
    for definitions in DEFINITIONS["hopper"]:
        code, said = compile_text(library, text_of("hopper", definitions))
        figures = figures_of(said)
        name = f"hopper.cu [{definitions}]"
        result.check(len(code) > 0 and len(figures) == 1, f"NVRTC of {name}:\n{said}")
        result.check(all(of.spilled == 0 for of in figures), f"{name}: registers are spilled: {figures}")
        result.check("serialized" not in said and "injected" not in said, f"{name}: products are serialized:\n{said}")
        if code and disassembler:
            counts, wanted = count(code, disassembler), products(definitions)
            fine = counts["HGMMA"] == wanted and counts["UTMALDG"] >= 2
            result.check(
                fine and not counts["HMMA"] + counts["STL"] + counts["LDL"],
                f"{name}: {counts}, wanted {wanted} HGMMA, UTMALDG, and no HMMA, STL or LDL",
            )
            print(f"report {name}: {counts['HGMMA']} HGMMA, {counts['UTMALDG']} UTMALDG, no spills")


def main() -> int:
    result = Result()
    check_layouts(result)
    check_code(result)
    return result.end()


if __name__ == "__main__":
    sys.exit(main())
