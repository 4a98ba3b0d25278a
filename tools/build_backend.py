"""The build backend: scikit-build-core's, which also asks for wgpu's header where PyPI has a wheel
of it; without one a wheel is built without WebGPU."""

from __future__ import annotations

import importlib.util
import platform
import sys
import sysconfig
from pathlib import Path
from typing import Any

import tomllib
from scikit_build_core.build import *  # noqa: F403
from scikit_build_core.build import build_wheel as build
from scikit_build_core.build import get_requires_for_build_wheel as get_requires


def has_wheel() -> bool:
    """The wheel of wgpu for this system; it needs cffi, which has none of CPython 3.13 without a GIL."""
    if sysconfig.get_config_var("Py_GIL_DISABLED") and sys.version_info < (3, 14):
        return False
    if sys.platform == "linux":
        return platform.machine() in ("x86_64", "aarch64") and platform.libc_ver()[0] == "glibc"
    return sys.platform in ("darwin", "win32")


def get_requires_for_build_wheel(config_settings: dict[str, Any] | None = None) -> list[str]:
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    header: list[str] = project["optional-dependencies"]["gpu"] if has_wheel() else []
    return [*get_requires(config_settings), *header]


def build_wheel(
    wheel_directory: str, config_settings: dict[str, Any] | None = None, metadata_directory: str | None = None
) -> str:
    """With the header's folder: pip installs what a hook requires apart from scikit-build-core,
    whose folder alone CMake is told.  CPython without a GIL has no stable ABI: its wheel is of that version."""
    wgpu = importlib.util.find_spec("wgpu")
    header = (
        {"cmake.define.CHAINRULE_WGPU_DIR": str(Path(wgpu.origin).parent / "resources")} if wgpu and wgpu.origin else {}
    )
    include = sysconfig.get_path("include")
    free = {"cmake.define.CHAINRULE_PYTHON_INCLUDE": include, "wheel.py-api": ""}
    options = {**header, **(free if sysconfig.get_config_var("Py_GIL_DISABLED") else {})}
    name: str = build(wheel_directory, {**options, **(config_settings or {})}, metadata_directory)
    return name
