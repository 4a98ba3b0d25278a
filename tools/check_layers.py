"""Reads the #include lines of src/ and python/src/ and fails on an arrow that points up or sideways (docs/design.md, "The house").

A room is a folder of src/.  Below are the rooms each may look into, beside itself, the public header and C's own headers.  The Python
extension uses the public header, CPython's and its own.
use: check_layers.py [repository]
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

GROUND = ("core/os.h", "core/status.h")  # what rooms above the public header may use of core

ROOMS: dict[str, tuple[str, ...]] = {
    "core": (),
    "dev": ("core",),
    "ops": ("core", "dev"),
    "grad": ("core", "dev", "ops"),
    "value": ("core",),
    "io": GROUND,  # the rooms over chainrule.h use each other only in this order
    "nn": (*GROUND, "io"),
    "text": (*GROUND, "io"),
    "optim": (*GROUND, "io", "nn"),
    "dist": (*GROUND, "io", "nn", "optim"),
    "models": GROUND,
    "cli": (*GROUND, "io/json.h", "io/utf8.h"),  # reads its own logs
}

STANDARD = set(
    "assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg stdatomic stdbool stddef"
    " stdint stdio stdlib stdnoreturn string tgmath threads time uchar wchar wctype".split()
)
COMPILER = {"immintrin.h", "cpuid.h", "arm_neon.h"}  # of the processor, not of the platform; for devices
VENDORS = {"wgpu.h": "dev/webgpu/api.h"}  # of a library that is opened at run time: the one file that knows it
PLATFORM = "core/os.c"
EXTENSION = {"chainrule.h", "Python.h", "structmember.h"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def room_of(path: str) -> str:
    """The folder of src/ that a file belongs to; each device is a room of its own."""
    parts = path.split("/")
    return "/".join(parts[:2]) if parts[0] == "dev" and len(parts) > 2 else parts[0]


def allowed(room: str, target: str) -> bool:
    """May a file of this room include this file of src/?"""
    home = room_of(target)
    if home == room:
        return True
    device = room.startswith("dev/")
    return any(target == entry or home == entry for entry in ROOMS["dev" if device else room] + (("dev",) if device else ()))


def check_system(file: str, name: str) -> str | None:
    if name == "chainrule.h" or (name.endswith(".h") and name[:-2] in STANDARD) or file == PLATFORM:
        return None
    if (name in COMPILER and file.startswith("dev/")) or VENDORS.get(name) == file:
        return None
    return f"<{name}> is no header of C's own; the platform is known to src/{PLATFORM} alone"


def check_own(src: Path, path: Path, file: str, name: str) -> str | None:
    near, far = (path.parent / name).resolve(), (src / name).resolve()
    found = near if near.is_file() else far
    if name == "chainrule.h":
        return None
    if not found.is_file():
        return f'"{name}" is not there'
    if src not in found.parents:
        return f'"{name}" lies outside src/'
    target = found.relative_to(src).as_posix()
    room = room_of(file)
    if room.split("/")[0] not in ROOMS:
        return f"src/{room} is a room that tools/check_layers.py does not know"
    return None if allowed(room, target) else f'"{target}" is not below src/{room}'


def check_extension(path: Path, kind: str, name: str) -> str | None:
    if kind == '"':
        return None if (path.parent / name).is_file() and "/" not in name else f'"{name}" is not a header of the extension'
    return None if name in EXTENSION or name.removesuffix(".h") in STANDARD else f"the extension uses C's own headers and {', '.join(sorted(EXTENSION))}"


def problems(repository: Path) -> tuple[list[str], int]:
    src = (repository / "src").resolve()
    found: list[str] = []
    count = 0
    extension = repository.resolve() / "python" / "src"
    for path in sorted(p for folder in (src, extension) for p in folder.rglob("*") if p.suffix in (".c", ".h")):
        text = path.read_text(encoding="utf-8")
        count += 1
        for match in INCLUDE.finditer(text):
            kind, name = match.groups()
            if extension in path.parents:
                problem = check_extension(path, kind, name)
            else:
                file = path.relative_to(src).as_posix()
                problem = check_system(file, name) if kind == "<" else check_own(src, path, file, name)
            if problem:
                line = text.count("\n", 0, match.start(2)) + 1
                found.append(f"{path.relative_to(repository.resolve()).as_posix()}:{line}: {problem}")
    for path in sorted((repository / "examples").glob("*.c")):
        for kind, name in INCLUDE.findall(path.read_text(encoding="utf-8")):
            if kind == '"' or name.startswith(("core/", "dev/", "ops/", "grad/")):
                found.append(f"examples/{path.name}: an example uses <chainrule.h> alone, not {name}")
    return found, count


def main() -> int:
    repository = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    found, count = problems(repository)
    for line in found:
        print(line)
    for path in sorted(p for folder in ("src", "python/src") for p in (repository / folder).rglob("*.[ch]") if ".gen." not in p.name):
        lines = path.read_text(encoding="utf-8").count("\n")
        if lines > 900:
            print(f"note: {path.relative_to(repository)} has {lines} lines")
    print(f"{count} files, {len(found)} arrows that point up or sideways")
    return 1 if found or not count else 0


if __name__ == "__main__":
    sys.exit(main())
