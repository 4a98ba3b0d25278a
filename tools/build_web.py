"""Builds the browser edition: the modules by Emscripten, with the JavaScript package and the page beside them.

    build_web.py            build/web, which any static server serves; build/web-objects and -threads keep what was
                            compiled, for one thread and for many
    build_web.py --program  also the program for node, build/web-objects/chainrule.js

Exit status 77: no Emscripten here, the last line says so."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OBJECTS = ROOT / "build" / "web-objects"
OUT = ROOT / "build" / "web"
SKIPPED = 77  # exit status
OPTIONS = {
    "CHAINRULE_SHARED": "OFF",
    "CHAINRULE_TESTS": "OFF",
    "CHAINRULE_EXAMPLES": "OFF",
    "CMAKE_BUILD_TYPE": "Release",
}
THREADS = ROOT / "build" / "web-objects-threads"
FILES = {  # of the two modules, small and whole
    OBJECTS: ("{}.mjs", "{}.wasm"),
    THREADS: ("{}-threads.mjs", "{}-threads.wasm", "{}-threads.worker.js"),
}


def environment() -> dict[str, str]:
    """Debian's compiler finds the module acorn only where it is told to look."""
    return {"NODE_PATH": "/usr/share/nodejs:/usr/lib/nodejs", **os.environ}


def run(command: list[str]) -> None:
    done = subprocess.run(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}:\n{done.stdout[-3000:]}")


def missing() -> list[str]:
    return [name for name in ("emcc", "emcmake", "node", "ninja", "cmake") if not shutil.which(name)]


def compiled(folder: Path, *targets: str) -> None:
    options = {**OPTIONS, "CHAINRULE_WEB_THREADS": "ON" if folder == THREADS else "OFF"}
    words = [f"-D{name}={value}" for name, value in options.items()]
    if not (folder / "build.ninja").exists():
        run(["emcmake", "cmake", "-G", "Ninja", "-S", str(ROOT), "-B", str(folder), *words])
    run(["cmake", "--build", str(folder), "--target", *targets])


def assemble() -> Path:
    """The package in build/web/chainrule, the page beside it."""
    for folder in FILES:
        compiled(folder, "chainrule_small", "chainrule_whole")
    package = OUT / "chainrule"
    shutil.rmtree(OUT, ignore_errors=True)
    if (ROOT / "web" / "page").is_dir():
        shutil.copytree(ROOT / "web" / "page", OUT)
    package.mkdir(parents=True)
    for pattern in ("*.js", "*.d.ts", "package.json"):
        for path in (ROOT / "web").glob(pattern):
            shutil.copy(path, package)
    (package / "node.js").unlink()  # of the program
    for folder, names in FILES.items():
        for name in names:
            for module in ("small", "whole"):
                shutil.copy(folder / name.format(module), package)
    return package


def main() -> int:
    if absent := missing():
        print(f"no {', '.join(absent)} here (make deps)")
        return SKIPPED
    package = assemble()
    if "--program" in sys.argv:
        compiled(OBJECTS, "chainrule")
    sizes = [len(gzip.compress((package / f"{name}.wasm").read_bytes(), 9)) / 1e3 for name in ("small", "whole")]
    print(f"{package.relative_to(ROOT)}: {sizes[0]:.0f} and {sizes[1]:.0f} kB after gzip; serve build/web")
    return 0


if __name__ == "__main__":
    sys.exit(main())
