"""Every block of code on the pages runs, and prints what the page shows.

use: python tests/check_pages.py [--pictures] [part of a page's name ...]        CHAINRULE_BUILD:
where the library is (build/release)

A page is README.md or a file below docs/.  Its blocks run from top to bottom in a folder of the page's own:
  python    all in one process
  c         the blocks from one `main` to the next are a program, compiled and run where its main stands
  sh        a script; `chainrule` is the program of this build, and the library is installed in $HOME/.local where a
            script names pkg-config or CMake
  js        each a module for node, which imports the package of `make web`
  output    what the block above printed: `...` stands for anything, a number with four or more decimals may be off
            by one in the last.  What python, c and js print must be shown.
A block that begins with a comment that names a file is also written to that file.  A block that
needs a package or a program that is not here is skipped and named.  A page shows what a machine
without a GPU prints.  Blocks of the kinds text and console are for reading; there are no others. A
picture that a page shows from its own folder must be written by its blocks; --pictures puts the new
ones in the place of the old."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from check_examples import BUILD, ROOT, compiled

os.environ.setdefault("CHAINRULE_WGPU", "off")
os.environ.setdefault("CHAINRULE_CUDA", "off")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(.*?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PICTURE = re.compile(r"^!\[[^]]*\]\(([\w.-]+\.(?:svg|png))\)$", re.MULTILINE)
FILE = re.compile(r"(?:/\*|#) ([\w-]+\.\w+)\b")
NUMBER = re.compile(r"-?\d+\.\d{4,}(?:e[-+]?\d+)?")
PACKAGES = {"graphviz", "h11", "matplotlib", "numpy", "torch", "tqdm"}  # a page may use them, the tests do without
PROGRAMS = {"cmake", "dot", "pkg-config"}
TIMEOUT = 600  # seconds for one page


class Missing(Exception):
    """The requirements of a block that are missing here."""


@dataclass
class Block:
    kind: str
    text: str
    line: int  # of the page, of the text's first


def blocks(page: str) -> list[Block]:
    """But those for reading, and what Sphinx makes of {something}."""
    return [
        Block(b[1], b[2], page.count("\n", 0, b.start(2)) + 1)
        for b in FENCE.finditer(page)
        if b[1] not in ("text", "console") and b[1][:1] != "{"
    ]


def same(shown: str, printed: str) -> bool:
    """Is this what the page shows?"""
    numbers = NUMBER.findall(shown)
    pattern = "".join(
        ".*" if part == "..." else r"(-?[\d.]+(?:e[-+]?\d+)?)" if NUMBER.fullmatch(part) else re.escape(part)
        for part in re.split(rf"(\.\.\.|{NUMBER.pattern})", shown.rstrip())
    )
    found = re.fullmatch(pattern, printed.rstrip(), re.DOTALL)
    return found is not None and all(close(a, b) for a, b in zip(numbers, found.groups(), strict=True))


def close(shown: str, printed: str) -> bool:
    digits, _, exponent = shown.partition("e")
    unit = 10.0 ** (int(exponent or 0) - len(digits.partition(".")[2]))
    return abs(float(shown) - float(printed)) < 1.5 * unit


def environment(folder: Path, installed: bool) -> dict[str, str]:
    """For scripts.  The library is installed in .local of the page's folder, which is then $HOME, where a script asks
    for it; nothing else says where it is."""
    found = {**os.environ, "PATH": f"{BUILD}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(BUILD / "python")}
    prefix = folder / ".local"
    if installed and not prefix.exists():
        subprocess.run(["cmake", "--install", str(BUILD), "--prefix", str(prefix)], check=True, capture_output=True)
        if (prefix / "lib64").is_dir() and not (prefix / "lib").exists():  # the pages say lib
            (prefix / "lib").symlink_to("lib64")
    return {**found, "HOME": str(folder)} if prefix.exists() else found


def run_python(block: Block, page: Path, names: dict[str, object]) -> str:
    if not list((BUILD / "python").glob("chainrule/_core*.so")):
        raise Missing("no Python extension in this build")
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out):
            exec(compile("\n" * (block.line - 1) + block.text, str(page), "exec"), names)
    except ModuleNotFoundError as problem:
        if (problem.name or "").partition(".")[0] not in PACKAGES:
            raise
        raise Missing(f"no Python package {problem.name}") from None
    except Exception as problem:
        if type(problem).__name__ != "ExecutableNotFound":  # graphviz's
            raise
        raise Missing("no program dot") from None
    return out.getvalue()


def run_program(command: list[str], folder: Path, more: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, cwd=folder, env=more, capture_output=True, text=True, errors="replace")
    if done.returncode:
        raise AssertionError(f"exit status {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def run_script(block: Block, folder: Path) -> str:
    needs = {name for name in PROGRAMS if re.search(rf"\b{name}\b", block.text)}
    absent = [name for name in sorted(needs) if not shutil.which(name)]
    if absent:
        raise Missing(f"no program {absent[0]}")
    return run_program(
        ["sh", "-eu", "-c", block.text], folder, environment(folder, bool(needs & {"cmake", "pkg-config"}))
    )


def run_module(block: Block, folder: Path) -> str:
    package = ROOT / "build" / "web" / "chainrule"
    if not shutil.which("node"):
        raise Missing("no program node")
    if not package.is_dir():
        raise Missing("no build/web (make web)")
    (folder / "node_modules").mkdir(exist_ok=True)
    if not (folder / "node_modules" / "chainrule").exists():
        (folder / "node_modules" / "chainrule").symlink_to(package)
    return run_program(["node", "--input-type=module", "-e", block.text], folder)


def run_page(page: Path, pictures: bool) -> tuple[int, int, int]:
    """Passed, failed, skipped; in the folder that is current.  Says what failed and what was skipped."""
    folder, text, counts = Path.cwd(), page.read_text(encoding="utf-8"), [0, 0, 0]
    names: dict[str, object] = {"__name__": "__main__"}
    source = ""  # of the C program so far
    for block, after in pairwise([*blocks(text), Block("", "", 0)]):
        where = f"{page.relative_to(ROOT)}:{block.line}"
        named = FILE.match(block.text)
        if named:
            (folder / named[1]).write_text(block.text, encoding="utf-8")
        if block.kind in ("output", "cmake"):
            continue
        printed = ""
        try:
            assert block.kind in ("python", "c", "sh", "js"), f"a block of the kind '{block.kind}' is not known"
            if block.kind == "c":
                source += f'#line {block.line} "{page}"\n{block.text}'
                if "int main(" in block.text:
                    whole, source = source, ""
                    printed = run_program([str(compiled(whole, folder))], folder)
            elif block.kind == "python":
                printed = run_python(block, page, names)
            else:
                printed = run_module(block, folder) if block.kind == "js" else run_script(block, folder)
            shown = after.text if after.kind == "output" else None
            if shown is None and block.kind != "sh" and printed:
                raise AssertionError(f"the page does not show what is printed:\n{printed}")
            if shown is not None and not same(shown, printed):
                raise AssertionError(f"the page shows\n{shown}but it prints\n{printed}")
            counts[0] += 1
        except Missing as reason:
            counts[2] += 1
            print(f"skipped {where}: {reason}")
        except Exception as problem:
            counts[1] += 1
            said = isinstance(problem, AssertionError) and str(problem)
            print(f"FAILED {where}: {said or traceback.format_exc(limit=-3)}")
    wrong = [
        f"{name} was not written by the page's blocks"
        for name in PICTURE.findall(text)
        if not (folder / name).is_file() and not counts[2]
    ]
    if source:
        wrong.append("the last C blocks have no main")
    for line in wrong:
        print(f"FAILED {page.relative_to(ROOT)}: {line}")
    if pictures:
        for name in PICTURE.findall(text):
            if (folder / name).is_file():
                shutil.copyfile(folder / name, page.parent / name)
    return counts[0], counts[1] + len(wrong), counts[2]


def in_its_own_process(page: Path, options: list[str]) -> tuple[Path, float, str]:
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(Path(__file__).resolve()), "--page", str(page), *options]
        path = {**os.environ, "PYTHONPATH": str(BUILD / "python")}
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                env=path,
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=TIMEOUT,
            )
            output = done.stdout
        except subprocess.TimeoutExpired:
            output = f"FAILED {page.relative_to(ROOT)}: not done after {TIMEOUT} s"
    return page, time.monotonic() - start, output


def main() -> int:
    options, words = (
        [w for w in sys.argv[1:] if w.startswith("--")],
        [w for w in sys.argv[1:] if not w.startswith("--")],
    )
    if "--page" in options:
        print("blocks", *run_page(Path(words[0]), "--pictures" in options))
        return 0
    pages = [
        p
        for p in PAGES
        if blocks(p.read_text(encoding="utf-8")) and any(w in str(p.relative_to(ROOT)) for w in words or [""])
    ]
    passed = failed = skipped = 0
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for page, seconds, output in pool.map(lambda p: in_its_own_process(p, options), pages):
            *said, last = output.splitlines() or [""]
            counts = last.split()
            if counts[:1] != ["blocks"]:
                said, counts = output.splitlines(), ["", "0", "1", "0"]
                print(f"FAILED {page.relative_to(ROOT)}: the process ended")
            print("\n".join(said + [f"{page.relative_to(ROOT)}: {seconds:.1f} s"]))
            passed, failed, skipped = passed + int(counts[1]), failed + int(counts[2]), skipped + int(counts[3])
    print(f"result: {passed} passed, {failed} failed, {skipped} skipped; block {passed}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
