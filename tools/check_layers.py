"""Checks how the sources hang together (docs/design.md, "The house").  It fails on

* an #include of src/ or python/src/ that points up or sideways, and a system header outside src/core/os.c
* a file under src/dev that sees tensors: core/tensor.h or core/links.h, directly or through a header of core
* a function that is declared in two headers, or in a .c file
* a line of a header under include/ that is too long, and a core card (include/chainrule.h) of too many lines
* any other line of C that is too long (ruff checks Python's); generated files and golden values are exempt
* WGSL in a C string under src/dev/webgpu

A room is a folder of src/.  ROOMS names the rooms that each may include, besides itself, the public
header and the headers of C.  The Python extension includes the public header, CPython's and its
own.
use: check_layers.py [repository]
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

C_COLUMNS = 120
HEADER_COLUMNS = 100  # of the headers under include/
CARD_LINES = 400  # of include/chainrule.h

GROUND = ("core/os.h", "core/status.h")  # the headers of core for the rooms above the public header

ROOMS: dict[str, tuple[str, ...]] = {
    "core": (),
    "dev": ("core",),
    "ops": ("core", "dev"),
    "grad": ("core", "dev", "ops"),
    "plan": ("core", "dev", "ops", "grad"),
    "value": ("core",),
    "io": GROUND,  # the rooms above chainrule.h include each other only in this order
    "nn": (*GROUND, "io"),
    "text": (*GROUND, "io"),
    "optim": (*GROUND, "io", "nn"),
    "dist": (*GROUND, "core/config.h", "core/library.h", "core/tensor.h", "dev/dev.h", "io", "nn", "optim"),
    "models": (*GROUND, "io", "ops/linear.h"),
    "cli": (*GROUND, "io/json.h", "io/utf8.h"),  # reads its own logs
}

STANDARD = set(
    "assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg stdatomic"
    " stdbool stddef stdint stdio stdlib stdnoreturn string tgmath threads time uchar wchar wctype".split()
)
TENSORS = {"core/tensor.h", "core/links.h"}  # a device sees arrays (core/array.h) instead
COMPILER = {"immintrin.h", "cpuid.h", "arm_neon.h"}  # of the processor, not of the platform; for devices
VENDORS = {
    "wgpu.h": "dev/webgpu/api.h"
}  # header of a library that is opened at run time -> the only file that may include it
MADE = {"wgsl.gen.h"}  # by the build
PLATFORM = "core/os.c"
EXTENSION = {"chainrule.h", "Python.h", "structmember.h"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)

COMMENT_OR_STRING = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.DOTALL)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)
PROTOTYPE = re.compile(
    r"^(?!(?:static|typedef|return|else)\b)(?:[A-Za-z_]\w*[ \n*]+)+([a-z]\w*)\([^;{}]*\)\s*;|^cr_\w+_kernel (\w+);",
    re.MULTILINE,
)
WGSL = re.compile(r"@compute|@group|workgroupBarrier|var<storage")
# They generate a kernel from each program, and the declarations of arrays.
WGSL_BUILDERS = {"src/dev/webgpu/elementwise.c", "src/dev/webgpu/wgsl.c"}
GENERATED = re.compile(r"[Gg]enerated by (tools|tests)/|made from .* by tools/")  # in the first lines of a file
C_SUFFIXES = {".c", ".h", ".cpp", ".cu", ".cuh", ".wgsl"}
C_FOLDERS = ("bench", "examples", "python", "src", "tests")


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
    return any(
        target == entry or home == entry for entry in ROOMS["dev" if device else room] + (("dev",) if device else ())
    )


def check_system(file: str, name: str) -> str | None:
    if name == "chainrule.h" or (name.endswith(".h") and name[:-2] in STANDARD) or file == PLATFORM:
        return None
    if (name in COMPILER and file.startswith("dev/")) or VENDORS.get(name) == file:
        return None
    return f"<{name}> is not a header of C; only src/{PLATFORM} knows the platform"


def resolve(src: Path, path: Path, name: str) -> Path:
    near, far = (path.parent / name).resolve(), (src / name).resolve()
    return near if near.is_file() else far


@cache
def sees_tensors(src: Path, path: Path) -> bool:
    """Is this a header of tensors, or does it include one, directly or not?"""
    if not path.is_file() or src not in path.parents:
        return False
    names = (name for kind, name in INCLUDE.findall(path.read_text(encoding="utf-8")) if kind == '"')
    return path.relative_to(src).as_posix() in TENSORS or any(
        sees_tensors(src, resolve(src, path, name)) for name in names
    )


def check_own(src: Path, path: Path, file: str, name: str) -> str | None:
    found = resolve(src, path, name)
    if name == "chainrule.h" or name in MADE:
        return None
    if not found.is_file():
        return f'"{name}" is not there'
    if src not in found.parents:
        return f'"{name}" lies outside src/'
    target = found.relative_to(src).as_posix()
    room = room_of(file)
    if room.split("/")[0] not in ROOMS:
        return f"src/{room} is a room that tools/check_layers.py does not know"
    if not allowed(room, target):
        return f'"{target}" is not below src/{room}'
    if room.startswith("dev") and room_of(target) == "core" and sees_tensors(src, found):
        return f'"{target}" shows tensors to a device; kernels receive arrays (core/array.h)'
    return None


def check_extension(path: Path, kind: str, name: str) -> str | None:
    if kind == '"':
        return (
            None if (path.parent / name).is_file() and "/" not in name else f'"{name}" is not a header of the extension'
        )
    return (
        None
        if name in EXTENSION or name.removesuffix(".h") in STANDARD
        else f"the extension uses C's own headers and {', '.join(sorted(EXTENSION))}"
    )


def code_of(text: str) -> str:
    """C without comments, strings and directives, on the same lines."""

    def blank(found: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", found[0])

    return DIRECTIVE.sub(blank, COMMENT_OR_STRING.sub(blank, text))


def generated(text: str) -> bool:
    return bool(GENERATED.search(text[:400]))


def check_prototypes(repository: Path) -> Iterator[str]:
    """A function has one declaration, in a header.  A list macro such as CR_KERNELS declares what its list names."""
    first: dict[str, str] = {}
    for path in sorted(p for folder in ("include", "src", "python/src") for p in (repository / folder).rglob("*.[ch]")):
        text = path.read_text(encoding="utf-8")
        if generated(text):
            continue
        code = code_of(text)
        for found in PROTOTYPE.finditer(code):
            name = found[1] or found[2]
            here = f"{path.relative_to(repository).as_posix()}:{code.count(chr(10), 0, found.start()) + 1}"
            if path.suffix == ".c":
                yield f"{here}: {name} is declared in a .c file; declare it in a header"
            elif name in first:
                yield f"{here}: {name} is declared in {first[name]} too"
            else:
                first[name] = here


def check_lines(repository: Path) -> Iterator[str]:
    """Lines over the limit, and the length of the core card."""
    limits = dict.fromkeys((repository / "include").rglob("*.h"), HEADER_COLUMNS)
    for folder in C_FOLDERS:
        paths = (repository / folder).rglob("*")
        limits |= {path: C_COLUMNS for path in paths if path.suffix in C_SUFFIXES and path.parent.name != "golden"}
    for path, limit in sorted(limits.items()):
        text, name = path.read_text(encoding="utf-8"), path.relative_to(repository).as_posix()
        if limit != HEADER_COLUMNS and generated(text):
            continue
        for number, line in enumerate(text.split("\n"), 1):
            if len(line) > limit:
                yield f"{name}:{number}: {len(line)} columns, more than {limit}"
        if name == "include/chainrule.h" and text.count("\n") > CARD_LINES:
            yield (
                f"{name}:{text.count(chr(10))}: more than {CARD_LINES} lines; move declarations to a part in"
                " include/chainrule/"
            )


def check_wgsl(repository: Path) -> Iterator[str]:
    for path in sorted((repository / "src/dev/webgpu").glob("*.[ch]")):
        text, name = path.read_text(encoding="utf-8"), path.relative_to(repository).as_posix()
        for found in COMMENT_OR_STRING.finditer(text):
            if found[0][0] == '"' and WGSL.search(found[0]) and name not in WGSL_BUILDERS:
                yield f"{name}:{text.count(chr(10), 0, found.start()) + 1}: WGSL in a C string; put it in a .wgsl file"


def problems(repository: Path) -> tuple[list[str], int]:
    """The violations, and how many files of C were read."""
    repository = repository.resolve()
    found, count = check_includes(repository)
    found += check_prototypes(repository)
    found += check_lines(repository)
    found += check_wgsl(repository)
    return found, count


def check_includes(repository: Path) -> tuple[list[str], int]:
    src = repository / "src"
    found: list[str] = []
    count = 0
    extension = repository / "python" / "src"
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
                found.append(f"{path.relative_to(repository).as_posix()}:{line}: {problem}")
    for path in sorted((repository / "examples").glob("*.c")):
        for kind, name in INCLUDE.findall(path.read_text(encoding="utf-8")):
            if kind == '"' or name.startswith(("core/", "dev/", "ops/", "grad/")):
                found.append(f"examples/{path.name}: an example includes only <chainrule.h>, not {name}")
    return found, count


def main() -> int:
    repository = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    found, count = problems(repository)
    for line in found:
        print(line)
    for path in sorted(
        p for folder in ("src", "python/src") for p in (repository / folder).rglob("*.[ch]") if ".gen." not in p.name
    ):
        lines = path.read_text(encoding="utf-8").count("\n")
        if lines > 900:
            print(f"note: {path.relative_to(repository)} has {lines} lines")
    print(f"{count} files, {len(found)} violations")
    return 1 if found or not count else 0


if __name__ == "__main__":
    sys.exit(main())
