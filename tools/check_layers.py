"""Checks how the sources hang together (docs/design.md, "The house").  It fails on

* an #include of src/ or python/src/ that points up or sideways, and a system header outside src/core/os_*.c
* a name that a file of src/ uses and a room above it defines, by the symbols of the objects of the build
  (CHAINRULE_BUILD, else build/release)
* a file under src/dev that sees tensors: core/tensor.h or core/links.h, directly or through a header of core
* a function that is declared in two headers, or in a .c file
* a line of a header under include/ that is too long, and a core card (include/chainrule.h) of too many lines
* any other line of C that is too long (ruff checks Python's); generated files and golden values are exempt
* WGSL in a C string under src/dev/webgpu
* modules of python/chainrule that import each other in a circle, at module level or inside functions; imports for
  types only do not count

A room is a folder of src/.  ROOMS names the rooms that each may include, besides itself, the public
header and the headers of C.  The Python extension includes the public header, CPython's and its
own.
use: check_layers.py [repository]
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

C_COLUMNS = 120
HEADER_COLUMNS = 100  # of the headers under include/
CARD_LINES = 400  # of include/chainrule.h

# The headers of core for the rooms above the public header.
GROUND = tuple(f"core/{name}.h" for name in ("formats", "os", "out", "pack", "status", "table", "tree", "utf8"))

ROOMS: dict[str, tuple[str, ...]] = {
    "core": (),
    "dev": ("core",),
    "ops": ("core", "dev"),
    "grad": ("core", "dev", "ops"),
    "plan": ("core", "dev", "ops", "grad"),
    "value": ("core",),
    "nn": GROUND,  # the rooms above chainrule.h include each other only in this order
    "io": GROUND,
    "text": (*GROUND, "io"),
    "optim": (*GROUND, "dev/elementary.h", "io", "nn"),
    "dist": (*GROUND, "core/config.h", "core/library.h", "core/tensor.h", "dev/dev.h", "io", "nn", "optim"),
    "train": (*GROUND, "io"),
    "models": (*GROUND, "io", "ops/linear.h", "grad/checkpoint.h"),
    "cli": (*GROUND, "io/json.h", "dev/registry.h"),  # reads its own logs
}

# A room calls those before it; nn and value do not call each other.
ORDER = ("core", "dev", "ops", "grad", "plan", "nn value", "io", "text", "optim", "dist", "train", "models", "cli")
HEIGHT = {room: height for height, rooms in enumerate(ORDER) for room in rooms.split()}

STANDARD = set(
    "assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg stdatomic"
    " stdbool stddef stdint stdio stdlib stdnoreturn string tgmath threads time uchar wchar wctype".split()
)
TENSORS = {"core/tensor.h", "core/links.h"}  # a device sees arrays (core/array.h) instead
# of the processor, not of the platform; for devices
COMPILER = {"immintrin.h", "cpuid.h", "arm_neon.h", "wasm_simd128.h"}
VENDORS = {
    "wgpu.h": "dev/webgpu/api.h"
}  # header of a library that is opened at run time -> the only file that may include it
MADE = {"wgsl.gen.h"}  # by the build
PLATFORM = re.compile(r"core/os_\w+\.[ch]")
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
    if name == "chainrule.h" or (name.endswith(".h") and name[:-2] in STANDARD) or PLATFORM.fullmatch(file):
        return None
    if (name in COMPILER and file.startswith("dev/")) or VENDORS.get(name) == file:
        return None
    return f"<{name}> is not a header of C; only src/core/os_*.c knows the platform"


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


def symbols(build: Path, src: Path) -> Iterator[tuple[str, str, bool]]:
    """File of src/, name, and does the file define it?  Of the objects of files that are still there."""
    objects = sorted(
        str(path)
        for path in (build / "CMakeFiles").glob("*.dir/src/**/*.o")
        if (src / str(path).partition(".dir/src/")[2]).with_suffix("").is_file()
    )
    if not objects:
        return
    done = subprocess.run(["nm", "-A", "-P", "-g", *objects], capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines():
        path, _, rest = line.partition(": ")
        name, kind = rest.split()[:2]
        yield path.partition(".dir/src/")[2].removesuffix(".o"), name, kind not in "Uw"


def check_calls(repository: Path, build: Path) -> list[str]:
    """Names that point up.  One definition counts where several files have one, such as those of instruction sets."""
    found = list(symbols(build, repository / "src"))
    home = {name: file for file, name, defined in found if defined}
    height = {file: HEIGHT.get(file.split("/")[0], -1) for file, _, _ in found}
    problems = []
    for file, name in sorted({(file, name) for file, name, defined in found if not defined and name in home}):
        target = home[name]
        sideways = height[target] == height[file] and target.split("/")[0] != file.split("/")[0]
        if height[target] > height[file] or sideways:
            problems.append(f"src/{file}: uses {name}, which src/{target} defines, above it")
    return problems if found else [f"no objects in {build}: build first"]


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
    found += check_circles(repository)
    return found, count


def module_names(package: Path) -> dict[str, Path]:
    """Dotted name -> file of every module of a package."""
    found = {}
    for path in sorted(package.rglob("*.py*")):  # a stub stands for an extension
        if path.suffix not in (".py", ".pyi"):
            continue
        parts = path.relative_to(package.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports_of(name: str, path: Path, modules: dict[str, Path]) -> set[str]:
    """The modules that a module imports anywhere, but under TYPE_CHECKING."""
    found: set[str] = set()
    if path.suffix == ".pyi":
        return found
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    nodes: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            nodes += node.orelse
            continue
        nodes += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = ".".join(package.split(".")[: len(package.split(".")) + 1 - node.level]) if node.level else ""
            base = ".".join(part for part in (above, node.module) if part)
            names = [f"{base}.{alias.name}" for alias in node.names]
        else:
            continue
        for target in names:
            while target and target not in modules:
                target = target.rpartition(".")[0]
            found |= {target} & modules.keys()
    return found - {name}


def check_circles(repository: Path) -> Iterator[str]:
    """A line for each circle of imports: takes away the modules that import no other, until none is left."""
    modules = module_names(repository / "python" / "chainrule")
    left = {name: imports_of(name, path, modules) for name, path in modules.items()}
    while left:
        ends = {name for name, names in left.items() if not names & left.keys()}
        if ends:
            left = {name: names for name, names in left.items() if name not in ends}
            continue
        name, seen = min(left), list[str]()
        while name not in seen:
            seen.append(name)
            name = min(left[name] & left.keys())
        circle = seen[seen.index(name) :]
        yield f"python: modules import each other: {' -> '.join([*circle, name])}"
        left[name].discard(circle[1] if len(circle) > 1 else name)


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
    if shutil.which("nm"):
        found += check_calls(repository, Path(os.environ.get("CHAINRULE_BUILD", repository / "build" / "release")))
    else:
        print("note: nm is absent: calls were not checked")
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
