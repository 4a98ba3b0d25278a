"""Installs the built library into a temporary folder and uses it as a stranger would: through
pkg-config and through CMake, shared and static.  Then builds library and program once more where
there is no Python and, if the system lets us, no network, and with compiled CUDA kernels, if nvcc
is there.  Ends with the result line of tests/test.h."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LARGEST = 6 * 10**6  # bytes of the shared library with all kernels, without its symbols
CC = os.environ.get("CC", "cc")
SONAME = "libchainrule.so.0.1"  # until 1.0 a minor version may change the interface

PROGRAM = r"""
#include <chainrule.h>
#include <stdio.h>
#include <string.h>
int main(void) {
    cr_tensor *x = cr_full(CR_LIST(2, 3), 0.5, CR_F32, cr_cpu()), *y = cr_sum(x, CR_ALL, false);
    double sum = cr_item(y);
    cr_release(x); cr_release(y);
    printf("%s %g\n", cr_version(), sum);
    return sum == 3 && !strcmp(cr_version(), CR_VERSION) && !cr_error() ? 0 : 1;
}
"""

PROJECT = """
cmake_minimum_required(VERSION 3.20)
project(stranger C)
find_package(chainrule {version} REQUIRED)
add_executable(shared main.c)
target_link_libraries(shared PRIVATE chainrule::chainrule)
add_executable(static main.c)
target_link_libraries(static PRIVATE chainrule::chainrule_static)
"""


class Failure(Exception):
    """A step that did not work; holds what it printed."""


def run(*command: str | Path, **environment: str) -> str:
    done = subprocess.run(
        [str(c) for c in command],
        env={**os.environ, **environment},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    if done.returncode:
        raise Failure(f"$ {' '.join(map(str, command))}\n{done.stdout}")
    return done.stdout


def need(ok: bool, message: str) -> None:
    if not ok:
        raise Failure(message)


def header_functions() -> set[str]:
    """The names that the public header and its parts declare."""
    text = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "include").rglob("*.h")))
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    text = re.sub(r"^#(.*\\\n)*.*$|^(inline|template|typedef) .*$", "", text, flags=re.MULTILINE)
    return set(re.findall(r"\b(cr_\w+)\(", text)) | set(re.findall(r"^extern const \w+ (cr_\w+);", text, re.MULTILINE))


def installed(folder: Path) -> Path:
    """make install with PREFIX and DESTDIR; returns the prefix."""
    run("make", "--no-print-directory", "-C", ROOT, "install", f"DESTDIR={folder}", "PREFIX=/opt/chainrule")
    prefix = folder / "opt/chainrule"
    for pattern in (
        "include/chainrule.h",
        f"lib*/**/{SONAME}",
        "lib*/**/libchainrule.a",
        "lib*/**/chainrule.pc",
        "bin/chainrule",
    ):
        need(len(list(prefix.glob(pattern))) == 1, f"not installed: {pattern}\n" + run("find", prefix))
    return prefix


def test_library(prefix: Path, folder: Path) -> None:
    """SONAME, names, size."""
    library = next(prefix.glob(f"lib*/**/{SONAME}"))
    need(f"[{SONAME}]" in run("readelf", "-d", library), f"the SONAME is not {SONAME}")
    exported = run("nm", "-D", "--defined-only", library).splitlines()
    names = {line.split()[-1].split("@")[0] for line in exported if " A " not in line}  # A: the version itself
    versions = {line.split()[-1].partition("@@")[2] for line in exported if " A " not in line}
    need(versions == {f"CHAINRULE_{SONAME.partition('.so.')[2]}"}, f"versions of the names: {versions}")
    strange = sorted(n for n in names if not n.startswith("cr_"))
    need(not strange, f"exported, but not ours: {' '.join(strange)}")
    declared = header_functions()
    need(len(declared) > 200, f"only {len(declared)} names found in the header")
    need(declared <= names, f"declared, but not in the library: {' '.join(sorted(declared - names))}")
    need(names <= declared, f"in the library, but not declared: {' '.join(sorted(names - declared))}")
    stripped = folder / "stripped.so"
    run("strip", "-o", stripped, library.resolve())
    size = stripped.stat().st_size
    print(f"libchainrule.so without symbols: {size / (1 << 20):.2f} MiB, {len(names)} names")
    need(size <= LARGEST, f"the library has {size} bytes, more than {LARGEST}")


def interface(prefix: Path, folder: Path) -> list[str]:
    """What programs compiled before rely on: the names that the library exports, the sizes of the header's structs."""
    text = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "include").rglob("*.h")))
    structs = sorted(set(re.findall(r"^typedef struct (cr_\w+) *\{", text, re.MULTILINE)))
    rows = "".join(f'    printf("struct {name} %zu\\n", sizeof({name}));\n' for name in structs)
    (folder / "sizes.c").write_text(
        f"#include <chainrule.h>\n#include <stdio.h>\nint main(void) {{\n{rows}    return 0;\n}}\n"
    )
    run("cc", f"-I{prefix}/include", folder / "sizes.c", "-o", folder / "sizes")
    exported = run("nm", "-D", "--defined-only", next(prefix.glob(f"lib*/**/{SONAME}"))).splitlines()
    names = sorted({line.split()[-1].split("@")[0] for line in exported if " A " not in line})
    return [f"name {name}" for name in names] + run(folder / "sizes").splitlines()


def test_interface(prefix: Path, folder: Path) -> None:
    """Nothing of tests/interface.txt is gone or has another size while the SONAME stays.  `test_install.py --interface`
    writes it anew: for a version with another SONAME, and for what is new."""
    kept = (ROOT / "tests/interface.txt").read_text(encoding="utf-8").splitlines()
    found = set(interface(prefix, folder))
    lost = [row for row in kept[1:] if row not in found]
    need(kept[0] == SONAME, f"tests/interface.txt is of {kept[0]}: tools/test_install.py --interface")
    need(not lost, f"programs that use {SONAME} break: {', '.join(lost)}")


def test_paths(prefix: Path, folder: Path) -> None:
    """Nothing that is installed names a folder of the machine that built it."""
    for file in (
        next(prefix.glob(f"lib*/**/{SONAME}")),
        next(prefix.glob("lib*/**/libchainrule.a")),
        prefix / "bin/chainrule",
    ):
        for path in (ROOT, Path(os.path.realpath(ROOT / "build"))):
            need(str(path).encode() not in file.read_bytes(), f"{file.name} holds {path}")
        need(
            file.suffix == ".a" or not re.search("R(UN)?PATH", run("readelf", "-d", file)), f"{file.name} has an RPATH"
        )


def test_static_names(prefix: Path, folder: Path) -> None:
    """The static library takes no name that could be a user's."""
    archive = next(prefix.glob("lib*/**/libchainrule.a"))
    defined = re.findall(r" [ABCDGRSTVW] (\w+)$", run("nm", "--defined-only", archive), re.MULTILINE)
    strange = sorted({name for name in defined if not name.startswith("cr_")})
    need(not strange, f"{len(strange)} names of the static library do not begin with cr_: {' '.join(strange[:10])}")
    own = "int cuda_check(int x) { return x; }\nint ref_sort = 3;\n"
    (folder / "main.c").write_text(PROGRAM + own)
    run(CC, folder / "main.c", "-I", prefix / "include", archive, "-lm", "-ldl", "-pthread", "-o", folder / "own")
    run(folder / "own")


def test_strange_folder(prefix: Path, folder: Path) -> None:
    """A copy in a folder whose name has spaces, a quote and a letter beyond ASCII is configured by
    make, and parts of it are built."""
    copy = folder / "it's a façade"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns("build", ".git", "shared"))
    (copy / "build").mkdir()
    (copy / "build/venv").symlink_to(os.path.realpath(ROOT / "build/venv"))
    (copy / "build/.venv").touch()
    run("make", "--no-print-directory", "-C", copy, "build/release/build.ninja")
    parts = [
        "cuda/matmul_text.c",
        "cudasim",
        "CMakeFiles/chainrule_objects.dir/src/core/os_posix.c.o",
        "python/chainrule/__init__.py",
    ]
    run("ninja", "-C", copy / "build/release", *parts)


def test_musl(prefix: Path, folder: Path) -> None:
    """The library by musl's compiler, and a program with it, static and shared."""
    build = folder / "build"
    options = [
        "-DCMAKE_C_COMPILER=musl-gcc",
        "-DCHAINRULE_TESTS=OFF",
        "-DCHAINRULE_EXAMPLES=OFF",
        "-DCHAINRULE_PROGRAM=OFF",
    ]
    # the kernel's headers, which are no part of musl
    kernel = f"-idirafter /usr/include -idirafter /usr/include/{os.uname().machine}-linux-gnu"
    options.append(f"-DCMAKE_C_FLAGS=-O0 {kernel}")
    run("cmake", "-S", ROOT, "-B", build, *options)
    run("cmake", "--build", build, "-j", str(os.cpu_count() or 1))
    (folder / "main.c").write_text(PROGRAM)
    for link in ((build / "libchainrule.a", "-static"), (build / "libchainrule.so", f"-Wl,-rpath,{build}")):
        run("musl-gcc", folder / "main.c", "-I", ROOT / "include", *link, "-o", folder / "program")
        print("musl:", run(folder / "program").strip())


def test_pkg_config(prefix: Path, folder: Path) -> None:
    (folder / "main.c").write_text(PROGRAM)
    library = next(prefix.glob("lib*/**/chainrule.pc")).parent
    where = {"PKG_CONFIG_PATH": str(library)}
    flags = run("pkg-config", "--cflags", "--libs", "chainrule", **where).split()
    run(CC, folder / "main.c", "-o", folder / "shared", *flags)
    print("pkg-config, shared:", run(folder / "shared", LD_LIBRARY_PATH=str(library.parent)).strip())
    parts = run("pkg-config", "--static", "--cflags", "--libs", "chainrule", **where).split()
    archive = str(library.parent / "libchainrule.a")
    run(CC, folder / "main.c", "-o", folder / "static", *[archive if p == "-lchainrule" else p for p in parts])
    print("pkg-config, static:", run(folder / "static").strip())


def test_cmake(prefix: Path, folder: Path) -> None:
    version = re.search(r'CR_VERSION "([\d.]+)"', (ROOT / "include/chainrule.h").read_text(encoding="utf-8"))
    need(version is not None, "no version in the header")
    (folder / "main.c").write_text(PROGRAM)
    (folder / "CMakeLists.txt").write_text(PROJECT.replace("{version}", version.group(1) if version else ""))
    run("cmake", "-S", folder, "-B", folder / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", folder / "build")
    for kind in ("shared", "static"):
        print(f"find_package, {kind}:", run(folder / "build" / kind).strip())


def test_page(_: Path, folder: Path) -> None:
    """docs/howto/embedding.md to the letter, as a user with a home folder and nothing else."""
    page = (ROOT / "docs/howto/embedding.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(console|c|cmake|sh)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    commands = re.findall(r"^\$ (make install .*?)(?: +#.*)?$", blocks[0][1], re.MULTILINE)
    need(len(commands) == 1, "the page does not install")
    where = {"HOME": str(folder), "PKG_CONFIG_PATH": "", "LD_LIBRARY_PATH": "", "CMAKE_PREFIX_PATH": ""}
    run("sh", "-euc", f"cd '{ROOT}' && {commands[0]}", **where)
    if (folder / ".local/lib64").is_dir():
        (folder / ".local/lib").symlink_to("lib64")
    for kind, text in blocks:
        if named := re.match(r"(?:/\*|#) ([\w-]+\.\w+)\b", text):
            (folder / named[1]).write_text(text, encoding="utf-8")
        elif kind == "sh":
            said = run("sh", "-euc", f"cd '{folder}'\n{text}", **where).splitlines()[-1]
            need(said == "3", f"the page's program says {said}")


def real_cmake() -> str:
    """The program itself: PyPI's `cmake` is a script in Python that calls it."""
    code = "import cmake, os; print(os.path.join(cmake.CMAKE_BIN_DIR, 'cmake'))"
    found = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True)
    return found.stdout.strip() if found.returncode == 0 else shutil.which("cmake") or "cmake"


def without_python(folder: Path) -> str:
    """A PATH that holds every program of this system but Python's."""
    for entry in ("/usr/local/bin", "/usr/bin", "/bin", *os.environ["PATH"].split(":")):
        for program in Path(entry).glob("*") if Path(entry).is_dir() else ():
            if (
                "pyenv" in entry
                or re.match(r"python|pip|pyenv|cmake", program.name)
                or b"python" in first_line(program)
            ):
                continue
            link = folder / program.name
            if not link.exists() and not link.is_symlink():
                link.symlink_to(program)
    return str(folder)


def first_line(program: Path) -> bytes:
    try:
        with program.open("rb") as f:
            start = f.read(100)
    except OSError:
        return b""
    return start.split(b"\n")[0] if start.startswith(b"#!") else b""


def test_python_free(_: Path, folder: Path) -> None:
    (folder / "bin").mkdir()
    path = without_python(folder / "bin")
    need(
        shutil.which("python3", path=path) is None and shutil.which("python", path=path) is None,
        "a Python is still to be found",
    )
    alone = ["unshare", "-rn"]
    if shutil.which("unshare") is None or subprocess.run([*alone, "true"], capture_output=True).returncode:
        print("python-free build: this system lets us take no network away")
        alone = []
    cmake, build = real_cmake(), folder / "build"
    options = [
        "-DCHAINRULE_TESTS=OFF",
        "-DCHAINRULE_EXAMPLES=OFF",
        *(["-DCHAINRULE_CUDA_FATBIN=ON"] if shutil.which("nvcc", path=path) else []),
    ]
    run(*alone, cmake, "-S", ROOT, "-B", build, *options, PATH=path)
    run(*alone, cmake, "--build", build, "-j", str(os.cpu_count() or 1), PATH=path)
    print("python-free build:", run(*alone, build / "chainrule", "info", PATH=path).splitlines()[0])
    inside = len(re.findall(r" fatbin_\w+$", run("nm", build / "libchainrule.so"), re.MULTILINE))
    listed = len(
        re.findall(r"^[a-z]", (ROOT / "src/dev/cuda/fatbin.gen.txt").read_text(encoding="utf-8"), re.MULTILINE)
    )
    need(
        inside == (listed if len(options) > 2 else 0),
        f"{inside} compiled CUDA kernels in the library, {listed} in the list",
    )
    size = sum(path.stat().st_size for path in (build / "cuda" / "fatbin").glob("*.fatbin"))
    need(size < 5_000_000, f"{inside} compiled CUDA kernels take {size} bytes: docs/howto/gpu.md says 4.5 MB")
    print(f"python-free build: {inside} compiled CUDA kernels of {size} bytes" + ("" if inside else ": no nvcc here"))


def test_uninstall(_: Path, folder: Path) -> None:
    """Nothing of ours stays, and what lies beside it does.  `make uninstall` takes back the last `make install`."""
    prefix = installed(folder)
    (prefix / "bin/mine").write_text("")
    run("make", "--no-print-directory", "-C", ROOT, "uninstall", f"DESTDIR={prefix.parents[1]}")
    left = sorted(str(path.relative_to(prefix)) for path in prefix.rglob("*") if not path.is_dir())
    need(left == ["bin/mine"] and not list(prefix.rglob("*chainrule*")), f"left: {left}")


def main() -> int:
    passed = failed = 0
    skipped: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            prefix = installed(folder / "root")
        except Failure as problem:
            print(f"{problem}\nresult: 0 passed, 1 failed, 0 skipped")
            return 1
        if sys.argv[1:] == ["--interface"]:
            rows = interface(prefix, folder)
            (ROOT / "tests/interface.txt").write_text("\n".join([SONAME, *rows, ""]), encoding="utf-8")
            print(f"wrote tests/interface.txt: {len(rows)} names and structs")
            return 0
        needed = {test_pkg_config: "pkg-config", test_page: "pkg-config", test_musl: "musl-gcc"}
        for test in (
            test_library,
            test_interface,
            test_paths,
            test_static_names,
            test_pkg_config,
            test_cmake,
            test_page,
            test_strange_folder,
            test_musl,
            test_python_free,
            test_uninstall,
        ):
            if test in needed and shutil.which(needed[test]) is None:
                skipped.append(f"{test.__name__}: no {needed[test]} here (make deps)")
                continue
            (folder / test.__name__).mkdir()
            try:
                test(prefix, folder / test.__name__)
                passed += 1
            except (Failure, OSError) as problem:
                print(f"FAILED {test.__name__}: {problem}")
                failed += 1
    for line in skipped:
        print(f"skipped {line}")
    print(f"result: {passed} passed, {failed} failed, {len(skipped)} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
