"""Makes the source distribution, builds the wheel from it as pip does (build requirements fetched,
nothing else there), installs it into a fresh virtual environment and runs what the README shows.
Ends with the result line of tests/test.h."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LARGEST = 5 * 10**6  # bytes of the wheel
BACKEND = re.findall(r"^requires = \[\"(.*?)\"", (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
PINS = (ROOT / "tools/requirements.txt").read_text(encoding="utf-8").splitlines()
ONEDNN = next(line for line in PINS if line.startswith("onednn"))
WGPU = next(line for line in PINS if line.startswith("wgpu"))
# oneDNN is opened by the first product that suits it, where the processor has AVX-512.
OPENS = sysconfig.get_platform() == "linux-x86_64" and "avx512vl" in Path("/proc/cpuinfo").read_text(encoding="utf-8")
PRODUCT = """
import chainrule as cr
x = cr.ones(512, 512)
assert (x @ x)[0, 0].item() == 512
opened = {line.split()[-1] for line in open("/proc/self/maps") if "libdnnl" in line}
print(*opened)
"""


# The same product on a GPU: its result, or why there is no GPU.  WebGPU finds NVIDIA's GPUs too, so CUDA is off.
ON_GPU = """
import sys
import chainrule as cr
try:
    x = cr.ones(64, 64, device=sys.argv[1])
    print((x @ x)[0, 0].item(), x.device, cr.Device.is_gpu_available())
except RuntimeError as problem:
    assert not cr.Device.is_gpu_available()
    print(problem)
"""
SOFTWARE = "(only a software driver was found: its name is webgpu:0)"


class Failure(Exception):
    """A step that did not work; holds what it printed."""


def run(*command: str | Path, cwd: Path, **switches: str) -> str:
    """In an environment that knows nothing of this repository's build; with the given variables."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("CHAINRULE", "PYTHON", "VIRTUAL_ENV"))}
    environment |= {"PIP_DISABLE_PIP_VERSION_CHECK": "1", **switches}
    done = subprocess.run(
        [str(c) for c in command], cwd=cwd, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if done.returncode:
        raise Failure(f"$ {' '.join(map(str, command))}\n{done.stdout}")
    return done.stdout


def need(ok: bool, message: str) -> None:
    if not ok:
        raise Failure(message)


def environment(folder: Path) -> Path:
    """A fresh virtual environment; its bin folder."""
    run(sys.executable, "-m", "venv", folder, cwd=folder.parent)
    return folder / "bin"


def version() -> str:
    found = re.search(r'#define CR_VERSION "([\d.]+)"', (ROOT / "include/chainrule.h").read_text(encoding="utf-8"))
    need(found is not None, "no version in the header")
    return found.group(1) if found else ""


def build(tools: Path, folder: Path) -> Path:
    """The wheel, built from the source distribution."""
    code = "import scikit_build_core.build as b, sys; b.build_sdist(sys.argv[1])"
    run(tools / "python", "-c", code, folder, cwd=ROOT)
    source = folder / f"chainrule-{version()}.tar.gz"
    need(source.is_file(), f"no {source.name}")
    run(tools / "pip", "wheel", "--quiet", "--no-deps", "--no-cache-dir", "-w", folder, source, cwd=folder)
    return next(folder.glob("*.whl"))


def test_contents(wheel: Path, folder: Path) -> None:
    """Tags, size, files, metadata; nothing of the machine it was built on."""
    size = wheel.stat().st_size
    print(f"{wheel.name}: {size / 1e6:.2f} MB")
    need(size <= LARGEST, f"the wheel has {size} bytes, more than {LARGEST}")
    need("-cp311-abi3-" in wheel.name, "not one wheel for all CPythons from 3.11 on")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    package = {
        str(p.relative_to(ROOT / "python"))
        for p in (ROOT / "python/chainrule").rglob("*")
        if p.suffix in (".py", ".pyi", ".typed")
    }
    package |= {"chainrule/_core.abi3.so"}  # once: `chainrule` is a script that calls it
    found = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file() and ".dist-info" not in str(p)}
    need(found == package, f"missing: {package - found}, too much: {found - package}")
    metadata = (folder / f"chainrule-{version()}.dist-info/METADATA").read_text(encoding="utf-8")
    need(f"\nVersion: {version()}\n" in metadata, "not the version of the header")
    required = [
        line for line in re.findall(r"^Requires-Dist: (.*)$", metadata, re.MULTILINE) if "extra ==" not in line
    ]  # extras: chainrule[viz]
    need(not required, f"the wheel requires {required}")
    extra = re.findall(r"^Requires-Dist: (onednn[^;]*);.*extra == .onednn.", metadata, re.MULTILINE)
    need(
        extra == [ONEDNN.partition(";")[0]],
        f"the extra `onednn` should take {ONEDNN}, as tools/requirements.txt: {extra}",
    )
    extra = re.findall(r"^Requires-Dist: (wgpu.*?); *extra == .gpu.$", metadata, re.MULTILINE)
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    once = project.count(f'"{WGPU}"') == 1
    need(
        extra == [WGPU] and once,
        f"the extra `gpu` and the build should take {WGPU}, as tools/requirements.txt, from one place: {extra}",
    )
    file = folder / "chainrule/_core.abi3.so"
    need(not re.search("R(UN)?PATH", run("readelf", "-d", file, cwd=folder)), "the extension has an RPATH")
    need(".symtab" not in run("readelf", "-S", file, cwd=folder), "the extension is not stripped")
    strange = re.findall(rb"(?:%s|/tmp/|/home/)[\x20-\x7e]*" % re.escape(str(ROOT).encode()), file.read_bytes())
    need(not strange, f"the extension holds paths: {strange[:3]}")
    exported = run("nm", "-D", "--defined-only", file, cwd=folder).split()[2::3]
    need(exported == ["PyInit__core"], f"the extension exports {exported[:5]}")


def test_program(bin_folder: Path, folder: Path) -> None:
    said = run(bin_folder / "chainrule", "info", cwd=folder)
    print("\n".join(line for line in said.splitlines() if line.startswith(("chainrule", "  cpu"))))
    need(said.startswith(f"chainrule {version()}\n"), said)
    need(("oneDNN 3." in said) == OPENS, "the program does not find oneDNN, or should not")
    refused = subprocess.run([bin_folder / "chainrule", "trian"], cwd=folder, text=True, capture_output=True)
    need(refused.returncode == 2 and "did you mean 'train'" in refused.stderr, refused.stderr)


def test_extension(bin_folder: Path, folder: Path) -> None:
    opened = run(bin_folder / "python", "-c", PRODUCT, cwd=folder).split()
    here = [str(bin_folder.parent.resolve() / "lib" / Path(path).name) for path in opened]
    need(bool(opened) == OPENS, "the extension does not find oneDNN, or should not")
    need(opened == here, f"opened {opened}, not the environment's own")
    print("import:", run(bin_folder / "python", ROOT / "bench/import_cost.py", "chainrule", cwd=folder).strip())


def test_gpu(bin_folder: Path, folder: Path) -> None:
    """Without the extra `gpu` there is none, and the message names it.  With it there are three outcomes,
    by the system's drivers: hardware, only software (which `gpu` skips, but `webgpu` finds), no adapter.
    The program's list of devices says the same."""

    def product(device: str) -> str:
        said = run(bin_folder / "python", "-c", ON_GPU, device, cwd=folder, CHAINRULE_CUDA="off")
        return said.splitlines()[-1]  # a driver may write lines of its own before

    said = product("gpu")
    need(f"no GPU 'gpu' here; there are: cpu, ref (wgpu-native not found (pip install {WGPU}))" in said, said)
    run(bin_folder / "pip", "install", "--quiet", WGPU, cwd=folder)
    said = product("gpu")
    print("on a GPU:", said)
    info = run(bin_folder / "chainrule", "info", cwd=folder, CHAINRULE_CUDA="off")
    first = next((line for line in info.splitlines() if line.startswith("  webgpu")), "no line of webgpu")
    if said == "64.0 webgpu:0 True":  # hardware: it comes before software
        need(first.startswith("  webgpu:0 ") and "(software)" not in first, f"the program finds no hardware: {first}")
    elif SOFTWARE in said:
        need(first.startswith("  webgpu:0 ") and "(software)" in first, f"the program finds no software: {first}")
        said = product("webgpu")
        need(said == "64.0 webgpu:0 False", said)
    else:
        need("no GPU 'gpu' here" in said and "(no adapter: " in said, said)
        need(first.startswith("  webgpu   none: ") and "(no adapter: " in first, f"the program finds a GPU: {first}")


def test_readme(bin_folder: Path, folder: Path) -> None:
    """Each snippet in Python, and what it shows as its output."""
    snippets = re.findall(
        r"```python\n(.*?)```\n\n```output\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL
    )
    need(bool(snippets), "the README shows no Python")
    for i, (snippet, wanted) in enumerate(snippets):
        (folder / f"snippet{i}.py").write_text(snippet)
        said = run(bin_folder / "python", folder / f"snippet{i}.py", cwd=folder)
        need(said == wanted, f"the README's snippet printed {said}, promised {wanted}")


def main() -> int:
    if sys.version_info < (3, 11) or not (Path(sysconfig.get_path("include")) / "Python.h").is_file():
        print("no Python.h of CPython 3.11 or newer here (make deps)")
        return 77
    passed = failed = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tools, fresh = environment(folder / "tools"), environment(folder / "fresh")
        try:
            run(tools / "pip", "install", "--quiet", *BACKEND, cwd=folder)
            run(tools / "pip", "download", "--quiet", "-d", folder / "downloaded", ONEDNN, cwd=folder)
        except Failure as problem:
            print(f"{problem}\npip's index cannot be reached, or lacks a package")
            return 77
        try:
            wheel = build(tools, folder)
            run(fresh / "pip", "install", "--quiet", f"{wheel}[onednn]", cwd=folder)
        except Failure as problem:
            print(f"{problem}\nresult: 0 passed, 1 failed, 0 skipped")
            return 1
        for test, given in (
            (test_contents, wheel),
            (test_program, fresh),
            (test_extension, fresh),
            (test_gpu, fresh),
            (test_readme, fresh),
        ):
            (folder / test.__name__).mkdir()
            try:
                test(given, folder / test.__name__)
                passed += 1
            except (Failure, OSError) as problem:
                print(f"FAILED {test.__name__}: {problem}")
                failed += 1
    print(f"result: {passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
