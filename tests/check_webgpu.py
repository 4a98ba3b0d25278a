"""Messages where there is no GPU: no library, one that is none of wgpu-native, another version
of it, no Vulkan, no driver.

Each runs the program test_webgpu, which says in one line why it went without a GPU.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("CHAINRULE_BUILD", ROOT / "build" / "release"))
PROGRAM = BUILD / "tests" / "test_webgpu"


def said(**environment: str) -> str:
    inherited = {k: v for k, v in os.environ.items() if k != "CHAINRULE_TEST_GPU"}
    done = subprocess.run([PROGRAM], env={**inherited, **environment}, text=True, capture_output=True, timeout=60)
    return done.stdout if done.returncode == 0 else f"exit status {done.returncode}: {done.stdout}{done.stderr}"


def complaints() -> list[str]:
    """What the program and the package let a driver say on stderr in a session without a desktop."""
    inherited = {k: v for k, v in os.environ.items() if k not in ("XDG_RUNTIME_DIR", "WAYLAND_DISPLAY", "DISPLAY")}
    commands = [[str(BUILD / "chainrule"), "info"]]
    if list((BUILD / "python").glob("chainrule/_core*.so")):
        commands.append([sys.executable, "-c", "import chainrule as cr; cr.Device('gpu')"])
    environment = inherited | {"PYTHONPATH": str(BUILD / "python")}
    found = (subprocess.run(words, env=environment, text=True, capture_output=True).stderr for words in commands)
    return [line for text in found for line in text.splitlines() if "XDG_RUNTIME_DIR" in line]


def another_version(folder: Path) -> Path:
    """A library with every name that is looked for, which calls itself 28.1.2."""
    text = (ROOT / "src/dev/webgpu/api.h").read_text(encoding="utf-8")
    names = re.findall(r"\bf\((\w+)\)", text)
    lines = [f"int wgpu{name}(void) {{ return {'0x1c010200' if name == 'GetVersion' else 0}; }}" for name in names]
    (folder / "fake.c").write_text("\n".join(lines), encoding="utf-8")
    subprocess.run(
        [os.environ.get("CC", "cc"), "-shared", "-fPIC", "-o", folder / "fake.so", folder / "fake.c"], check=True
    )
    return folder / "fake.so"


def main() -> int:
    if "built without" in said(CHAINRULE_WGPU="off"):
        print("skipped: built without wgpu.h (pip install wgpu)")
        return 77
    nowhere = {"VK_DRIVER_FILES": "/nowhere.json", "VK_ICD_FILENAMES": "/nowhere.json"}
    cases = [
        ("CHAINRULE_WGPU=off", {"CHAINRULE_WGPU": "off"}),
        ("/nowhere.so cannot be opened", {"CHAINRULE_WGPU": "/nowhere.so"}),
        ("no adapter", nowhere),
    ]
    with tempfile.TemporaryDirectory() as folder:
        if shutil.which(os.environ.get("CC", "cc")):
            cases.append(
                ("wgpu-native 28.1.2 found, 29.x wanted", {"CHAINRULE_WGPU": str(another_version(Path(folder)))})
            )
        (Path(folder) / "libvulkan.so.1").touch()  # found before the system's, and no library
        cases.append(("no adapter", {"LD_LIBRARY_PATH": folder}))
        cases.append(("the library found is not wgpu-native", {"CHAINRULE_WGPU": "libm.so.6"}))
        wrong = [
            (want, got)
            for want, environment in cases
            if want not in (got := said(**environment)) or "no GPU 'webgpu' here" not in got
        ]
    for want, got in wrong:
        print(f"wanted '{want}', got: {got.strip()}")
    print(f"{len(cases)} ways to have no GPU")
    print("\n".join(said_anyway := complaints()))
    return 1 if wrong or said_anyway else 0


if __name__ == "__main__":
    sys.exit(main())
