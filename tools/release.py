"""Builds everything that a release consists of, from a clean checkout on one Linux machine: wheels,
the single-file program, the source distribution, an SBOM and checksums, in build/dist.

    release.py [--target NAME]... [--out FOLDER] [--work FOLDER] [--jobs N] [--twice]

Zig's compiler (PyPI: ziglang) builds for every system.  `make build/.for-release` installs it, and
what checks the results, into a virtual environment of its own:

    build/release-venv/bin/python tools/release.py

The same commit gives the same bytes: times are the commit's (SOURCE_DATE_EPOCH), and no file holds
a path of this machine; --twice builds again in another folder, and compares.  Signatures are made
afterwards, of SHA256SUMS."""

from __future__ import annotations

import argparse
import base64
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WHEEL_LIMIT, PROGRAM_LIMIT = 5 * 10**6, 6 * 10**6  # bytes


@dataclass(frozen=True)
class Target:
    zig: str
    tag: str  # of the wheel
    program: str = ""  # name of the single-file program; "": none of this target

    @property
    def module(self) -> str:
        return "_core.pyd" if "windows" in self.zig else "_core.abi3.so"


TARGETS = {
    "linux-x86_64": Target("x86_64-linux-gnu.2.28", "manylinux_2_28_x86_64"),
    "linux-aarch64": Target("aarch64-linux-gnu.2.28", "manylinux_2_28_aarch64"),
    "musl-x86_64": Target("x86_64-linux-musl", "musllinux_1_2_x86_64", "chainrule-linux-x86_64"),
    "musl-aarch64": Target("aarch64-linux-musl", "musllinux_1_2_aarch64", "chainrule-linux-aarch64"),
    "windows-x86_64": Target("x86_64-windows-gnu", "win_amd64", "chainrule-windows-x86_64.exe"),
    "macos-arm64": Target("aarch64-macos.11.0-none", "macosx_11_0_arm64", "chainrule-macos-arm64"),
    "macos-x86_64": Target("x86_64-macos.11.0-none", "macosx_11_0_x86_64", "chainrule-macos-x86_64"),
}


def run(*command: str | Path, **variables: str) -> None:
    words = [str(c) for c in command]
    environment = {**os.environ, **variables}
    done = subprocess.run(words, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        sys.exit(f"$ {' '.join(words)}\n{done.stdout[-6000:]}")


def epoch() -> int:
    """Seconds of the commit, or SOURCE_DATE_EPOCH."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(given)
    found = subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=ROOT, text=True, capture_output=True
    ).stdout.strip()
    return int(found or 315532800)


def version() -> str:
    found = re.search(r'#define CR_VERSION "([\d.]+)"', (ROOT / "include/chainrule.h").read_text(encoding="utf-8"))
    assert found
    return found[1]


# ---- Python.h and python3.dll of other systems


def python_headers(folder: Path) -> Path:
    """This machine's Python.h with a pyconfig.h that holds for every target: the stable ABI needs no more."""
    include = folder / "python-include"
    if not include.is_dir():
        shutil.copytree(sysconfig.get_path("include"), include)
    shutil.copyfile(ROOT / "cmake/pyconfig.h", include / "pyconfig.h")
    return include


def import_library(include: Path, folder: Path) -> Path:
    """Of python3.dll: every name of the headers, of which the linker takes those in use."""
    declared = re.compile(r"PyAPI_(FUNC|DATA)\s*\([^)]*\)\s*(?:\(\*)?(\w+)")
    text = "".join(path.read_text(encoding="utf-8") for path in sorted(include.glob("*.h")))
    kinds = {name: kind for kind, name in declared.findall(text)}
    kinds |= dict.fromkeys(re.findall(r"#define\s+Py\w+\s+(_Py\w+_SizeT)\b", text), "FUNC")
    rows = [f"    {name}{' DATA' if kind == 'DATA' else ''}" for name, kind in sorted(kinds.items())]
    definition, library = folder / "python3.def", folder / "python3.lib"
    definition.write_text("\n".join(["LIBRARY python3.dll", "EXPORTS", *rows, ""]))
    run(
        sys.executable,
        "-m",
        "ziglang",
        "dlltool",
        "-m",
        "i386:x86-64",
        "-D",
        "python3.dll",
        "-d",
        definition,
        "-l",
        library,
    )
    return library


# ---- one target


def compile_target(target: Target, work: Path, jobs: int) -> Path:
    """The build folder."""
    folder = work / target.zig
    include = python_headers(work)
    wgpu = importlib.util.find_spec("wgpu")
    options = {
        "CMAKE_BUILD_TYPE": "Release",
        "CMAKE_TOOLCHAIN_FILE": ROOT / "cmake/zig.cmake",
        "CHAINRULE_TARGET": target.zig,
        "CHAINRULE_ZIG": f"{sys.executable} -m ziglang",
        "CMAKE_SKIP_RPATH": "ON",
        "CMAKE_EXE_LINKER_FLAGS": "-s",
        "CMAKE_MODULE_LINKER_FLAGS": "-s",
        "CHAINRULE_SHARED": "OFF",
        "CHAINRULE_TESTS": "OFF",
        "CHAINRULE_EXAMPLES": "OFF",
        "CHAINRULE_PROGRAM": "ON" if target.program else "OFF",
        "CHAINRULE_PYTHON": "ON",
        "CHAINRULE_PYTHON_INCLUDE": include,
        "Python_EXECUTABLE": sys.executable,
        "CHAINRULE_WGPU_DIR": Path(wgpu.origin).parent / "resources" if wgpu and wgpu.origin else "",
    }
    if "windows" in target.zig:
        options["CHAINRULE_PYTHON_IMPORTS"] = import_library(include, work)
    given = [f"-D{name}={value}" for name, value in options.items()]
    run("cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", *given)
    wanted = ["chainrule_python", *(["chainrule"] if target.program else [])]
    run("ninja", "-C", folder, "-j", str(jobs), *wanted)
    return folder


def check_file(path: Path) -> None:
    """No path of this machine."""
    found = re.findall(rb"(?:%s|/tmp/|/home/|/root/)[\x20-\x7e]*" % re.escape(bytes(ROOT)), path.read_bytes())
    if found:
        sys.exit(f"{path} holds paths: {found[:3]}")


# ---- files


def metadata(work: Path) -> Path:
    """The .dist-info of every wheel, by scikit-build-core from pyproject.toml."""
    folder = work / "metadata"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    code = "import scikit_build_core.build as b, sys; b.prepare_metadata_for_build_wheel(sys.argv[1])"
    run(sys.executable, "-c", code, folder)
    return next(folder.glob("*.dist-info"))


def digest(data: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")


def make_wheel(target: Target, module: Path, info: Path, out: Path) -> Path:
    """Sorted, with the commit's time and plain modes."""
    package = ROOT / "python"
    sources = [p for p in (package / "chainrule").rglob("*") if p.suffix in (".py", ".pyi", ".typed")]
    files = {str(p.relative_to(package)): p.read_bytes() for p in sources}
    files[f"chainrule/{target.module}"] = module.read_bytes()
    for path in sorted(p for p in info.rglob("*") if p.is_file() and p.name not in ("WHEEL", "RECORD")):
        files[f"{info.name}/{path.relative_to(info)}"] = path.read_bytes()
    tag = f"cp311-abi3-{target.tag}"
    files[f"{info.name}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: chainrule tools/release.py\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    )
    record = f"{info.name}/RECORD"
    rows = [f"{name},{digest(data)},{len(data)}" for name, data in sorted(files.items())]
    files[record] = "\n".join([*rows, f"{record},,", ""]).encode()
    path = out / f"chainrule-{version()}-{tag}.whl"
    when = time.gmtime(epoch())[:6]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in sorted(files, key=lambda name: (name.startswith(info.name), name)):
            entry = zipfile.ZipInfo(name, when)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o755 if name.endswith((".so", ".pyd")) else 0o644) << 16
            archive.writestr(entry, files[name])
    return path


def build(name: str, work: Path, info: Path, out: Path, jobs: int) -> list[Path]:
    target, start = TARGETS[name], time.monotonic()
    folder = compile_target(target, work, jobs)
    module = folder / "python/chainrule" / target.module
    check_file(module)
    made = [make_wheel(target, module, info, out)]
    if target.program:
        program = out / target.program
        shutil.copy2(next(p for p in (folder / "chainrule", folder / "chainrule.exe") if p.is_file()), program)
        check_file(program)
        made.append(program)
    for path in made:
        limit = WHEEL_LIMIT if path.suffix == ".whl" else PROGRAM_LIMIT
        size = path.stat().st_size
        print(f"{name:15} {path.name:60} {size / 1e6:5.2f} MB", flush=True)
        if size > limit:
            sys.exit(f"{path.name} has {size} bytes, more than {limit}")
    print(f"{name:15} built in {time.monotonic() - start:.0f} s", flush=True)
    return made


def source(out: Path) -> Path:
    code = "import scikit_build_core.build as b, sys; print(b.build_sdist(sys.argv[1]))"
    run(sys.executable, "-c", code, out, SOURCE_DATE_EPOCH=str(epoch()))
    return out / f"chainrule-{version()}.tar.gz"


def bill(made: list[Path], out: Path) -> None:
    """The SBOM, in CycloneDX's form: what is in the files beside our own code."""
    runtime = {
        "musl": ("MIT", "the C library of the static programs"),
        "mingw-w64": ("ZPL-2.1", "start-up code and import libraries of the files for Windows"),
        "compiler-rt": ("Apache-2.0 WITH LLVM-exception", "helper functions of the compiler"),
    }
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(epoch()))
    zig = importlib.util.find_spec("ziglang")
    tools = [{"type": "application", "name": "zig", "version": zig_version()}] if zig else []
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": when,
            "tools": {"components": tools},
            "component": {
                "type": "library",
                "name": "chainrule",
                "version": version(),
                "licenses": [{"expression": "MIT"}],
            },
        },
        "components": [
            {"type": "library", "name": name, "licenses": [{"expression": spdx}], "description": what}
            for name, (spdx, what) in runtime.items()
        ]
        + [
            {
                "type": "file",
                "name": path.name,
                "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(path.read_bytes()).hexdigest()}],
            }
            for path in sorted(made)
        ],
    }
    (out / "chainrule.cdx.json").write_text(json.dumps(document, indent=1) + "\n")


def zig_version() -> str:
    return subprocess.run([sys.executable, "-m", "ziglang", "version"], text=True, capture_output=True).stdout.strip()


def sums(out: Path) -> None:
    files = sorted(p for p in out.iterdir() if p.is_file() and p.name != "SHA256SUMS")
    (out / "SHA256SUMS").write_text("".join(f"{hashlib.sha256(p.read_bytes()).hexdigest()}  {p.name}\n" for p in files))


def platform_of(wheel: Path) -> str:
    """The tag that auditwheel finds; of musl's wheels what they need, since it reads no C library of theirs here."""
    if "musllinux" in wheel.name:
        with zipfile.ZipFile(wheel) as archive:
            names = set(re.findall(rb"\0(lib[\w.+-]*\.so[\w.]*)(?=\0)", archive.read("chainrule/_core.abi3.so")))
        return (
            "needs " + b", ".join(sorted(names & {b"libc.so", b"libm.so.6", b"libc.so.6", b"libgcc_s.so.1"})).decode()
        )
    words = [sys.executable, "-m", "auditwheel", "show", str(wheel)]
    done = subprocess.run(words, text=True, capture_output=True)
    said = " ".join((done.stdout + done.stderr).split())
    if (found := re.search(r'consistent with the following platform tag: "(\w+)"', said)) is None:
        sys.exit(f"auditwheel: {said}")
    return found[1]


def check(made: list[Path]) -> None:
    """auditwheel, abi3audit and twine, where they are installed."""
    wheels = [p for p in made if p.suffix == ".whl"]
    for wheel in wheels:
        if "linux" in wheel.name and importlib.util.find_spec("auditwheel"):
            print(f"auditwheel      {wheel.name}: {platform_of(wheel)}", flush=True)
        if importlib.util.find_spec("abi3audit"):
            run(sys.executable, "-m", "abi3audit", "--strict", wheel)
            print(f"abi3audit       {wheel.name}: no violation", flush=True)
    if importlib.util.find_spec("twine"):
        run(sys.executable, "-m", "twine", "check", "--strict", *[p for p in made if p.suffix in (".whl", ".gz")])
        print("twine           metadata passed", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Builds wheels, programs, sdist, SBOM and checksums.")
    parser.add_argument("--target", action="append", choices=list(TARGETS), default=[], help="default: all")
    parser.add_argument("--out", type=Path, default=ROOT / "build/dist")
    parser.add_argument("--work", type=Path, default=ROOT / "build/release-work", help="object files")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--twice", action="store_true", help="builds again, without a cache, and compares the bytes")
    given = parser.parse_args()
    out, work = given.out.resolve(), given.work.resolve()
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    work.mkdir(parents=True, exist_ok=True)
    os.environ["SOURCE_DATE_EPOCH"] = str(epoch())
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    info = metadata(work)
    made = [path for name in given.target or TARGETS for path in build(name, work, info, out, given.jobs)]
    made.append(source(out))
    bill(made, out)
    sums(out)
    check(made)
    if given.twice:
        os.environ["CCACHE_DISABLE"] = "1"
        with tempfile.TemporaryDirectory(dir=work.parent) as name:
            other, again = Path(name) / "another work folder", Path(name) / "dist"
            other.mkdir()
            again.mkdir()
            for target in given.target or TARGETS:
                build(target, other, metadata(other), again, given.jobs)
            source(again)
            differ = [p.name for p in again.iterdir() if p.read_bytes() != (out / p.name).read_bytes()]
        if differ:
            sys.exit(f"two builds differ: {', '.join(differ)}")
        print("twice           the same bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
