"""The environment in which a process finds the simulated NVIDIA GPU of a build, as tests/test.h has
it: with CHAINRULE_TEST_CUDA=1 the true one."""

from __future__ import annotations

import os
from pathlib import Path

LIBRARIES = {
    "CHAINRULE_CUDA": "libcuda.so.1",
    "CHAINRULE_NVRTC": "libnvrtc.so.13",
    "CHAINRULE_CUBLASLT": "libcublasLt.so.13",
    "CHAINRULE_CUSOLVER": "libcusolver.so.12",
    "CHAINRULE_NCCL": "libnccl.so.2",
    "CHAINRULE_CACHE": "cache",
}


def simulated(build: Path) -> dict[str, str]:
    """Variables to add to the environment; none where this build has no simulator."""
    folder = build / "cudasim"
    if os.environ.get("CHAINRULE_TEST_CUDA") == "1" or not (folder / "libcuda.so.1").exists():
        return {}
    libraries = {name: str(folder / file) for name, file in LIBRARIES.items()}
    return {**libraries, "CUDASIM_QUIET": "1"}
