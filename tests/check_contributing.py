"""Follows CONTRIBUTING.md: adds the ops of tests/contributing/*.txt to a copy of the sources,
builds what changes, runs their tests.

A file of tests/contributing is a change.  `== PATH` starts a new file; `== PATH before TEXT`
inserts lines before the first line that contains TEXT, in the file or in the one header of the
folder PATH that has such a line.  What stands before the first `==` is prose. The generators run
after the change.  Only sources that see a changed file are compiled, without optimisation;
declarations in include/ change no object.  All other objects are those of the build.  A change in
LONG compiles every loop of the cpu: it runs with CHAINRULE_TEST_FULL=1, or by name.

use: python tests/check_contributing.py [name ...]        CHAINRULE_BUILD: the build folder (build/release)
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("CHAINRULE_BUILD", ROOT / "build" / "release")).resolve()
GENERATORS = ("tools/gen_ops.py", "tools/gen_python.py")
LONG = ("cbrt",)
OBJECTS = re.compile(r"/chainrule_(?!python)\w+\.dir/")
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def target(tree: Path, path: str, text: str) -> Path:
    """The file to edit: PATH itself, or the one header of the folder PATH that contains the text."""
    if (tree / path).is_file():
        return tree / path
    found = [p for p in sorted((tree / path).rglob("*.h")) if text in p.read_text(encoding="utf-8")]
    assert len(found) == 1, f"{len(found)} headers of {path} contain '{text}'"
    return found[0]


def insert(file: Path, text: str, lines: str) -> None:
    old = file.read_text(encoding="utf-8").splitlines(keepends=True)
    at = next((i for i, line in enumerate(old) if text in line), None)
    assert at is not None, f"no line of {file.name} contains '{text}'"
    file.write_text("".join([*old[:at], lines, *old[at:]]), encoding="utf-8")


def apply(change: Path, tree: Path) -> set[str]:
    """Applies a change to a copy of the sources; returns the files that it touches, without those of its test."""
    parts = re.split(r"^== (.+)\n", change.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    touched = set()
    for head, body in zip(parts[::2], parts[1::2], strict=True):
        path, _, text = head.partition(" before ")
        file = target(tree, path, text) if text else tree / path
        if text:
            insert(file, text, body.rstrip("\n") + "\n")
        else:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(body, encoding="utf-8")
        touched.add(file.relative_to(tree).as_posix())
    return {path for path in touched if not path.startswith("tests/contributing/")}


def copy_sources(tree: Path) -> None:
    for name in ("include", "src", "tools", "docs", "python", "tests"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__", "*.png", "*.svg"))


def differing(tree: Path) -> set[Path]:
    """Sources and private headers of the copy that are new or differ from the repository's."""
    files = [p for p in (tree / "src").rglob("*") if p.is_file()]
    return {
        p
        for p in files
        if not (ROOT / p.relative_to(tree)).is_file() or p.read_bytes() != (ROOT / p.relative_to(tree)).read_bytes()
    }


def seen_by(source: Path, tree: Path, known: dict[Path, set[Path]]) -> set[Path]:
    """The source and every private header that it includes."""
    if source not in known:
        known[source] = {source}
        for name in INCLUDE.findall(source.read_text(encoding="utf-8")):
            for header in ((source.parent / name).resolve(), tree / "src" / name):
                if header.is_file():
                    known[source] |= seen_by(header, tree, known)
                    break
    return known[source]


class Build:
    """The objects of the library: those of the build, and new ones for sources that changed."""

    def __init__(self, tree: Path) -> None:
        commands = json.loads((BUILD / "compile_commands.json").read_text(encoding="utf-8"))
        self.tree = tree
        self.library = [c for c in commands if OBJECTS.search(c["output"]) and "/src/cli/" not in c["file"]]
        self.like = next(shlex.split(c["command"]) for c in self.library if c["file"].endswith("src/ops/all.c"))

    def command(self, words: list[str], source: Path, output: Path) -> list[str]:
        """A compiler's words with the copy's source and headers in place of the repository's."""
        kept = words[: words.index("-o")]
        for name in ("src", "include"):
            kept = [w.replace(f"-I{ROOT / name}", f"-I{self.tree / name}") for w in kept]
        strict = (
            [] if (ROOT / source.relative_to(self.tree)).is_file() else ["-Werror"]
        )  # without optimisation, compilers' headers warn
        return [*kept, "-O0", *strict, "-o", str(output), "-c", str(source)]

    def objects(self, changed: set[Path]) -> list[str]:
        new = [p for p in changed if p.suffix == ".c" and not (ROOT / p.relative_to(self.tree)).is_file()]
        jobs, linked, known = [(self.like, p) for p in sorted(new)], [], dict[Path, set[Path]]()
        for c in self.library:
            source = self.tree / os.path.relpath(c["file"], ROOT)  # one that the build made is not in the copy
            if source.is_file() and seen_by(source, self.tree, known) & changed:
                jobs.append((shlex.split(c["command"]), source))
            else:
                linked.append(str(BUILD / c["output"]))
        objects = [self.tree / f"{i}.o" for i in range(len(jobs))]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(run, [self.command(*job, output) for job, output in zip(jobs, objects, strict=True)]))
        return [*map(str, objects), *linked]


def run(words: list[str], folder: Path | None = None) -> str:
    done = subprocess.run(
        words, cwd=folder or BUILD, capture_output=True, text=True, env={**os.environ, "CHAINRULE_CUDA": "off"}
    )
    assert not done.returncode, (
        f"{' '.join(words[:1] + words[-1:])}: exit {done.returncode}\n{done.stdout}{done.stderr}"
    )
    return done.stdout


def check(change: Path, tree: Path) -> str:
    copy_sources(tree)
    touched = apply(change, tree)
    for generator in GENERATORS:
        run([sys.executable, generator], tree)
    build = Build(tree)
    objects = build.objects(differing(tree))
    program, source = tree / "program", tree / "tests" / "contributing" / f"test_{change.stem}.c"
    words = [*build.like[: build.like.index("-o")], f"-I{tree / 'tests'}", f"-I{tree / 'src'}", "-o"]
    run(build.command(words, source, tree / "test.o"))
    flags = [w for w in build.like if w.startswith("-fsanitize")]
    run([build.like[0], *flags, str(tree / "test.o"), *objects, "-o", str(program), "-lm", "-lpthread", "-ldl"])
    return f"{len(touched)} places: {', '.join(sorted(touched))}; {run([str(program)], tree).strip()}"


def main() -> int:
    changes = sorted((ROOT / "tests" / "contributing").glob("*.txt"))
    failed = skipped = 0
    for change in changes:
        if sys.argv[1:] and change.stem not in sys.argv[1:]:
            continue
        if not sys.argv[1:] and change.stem in LONG and not os.environ.get("CHAINRULE_TEST_FULL"):
            skipped += 1
            print(f"skipped {change.stem}: too long; with CHAINRULE_TEST_FULL=1")
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                print(f"{change.stem}: {check(change, Path(folder).resolve())}")
            except AssertionError as wrong:
                failed += 1
                print(f"FAILED {change.stem}: {wrong}")
    ran = len(sys.argv[1:]) or len(changes) - skipped
    print(f"result: {ran - failed} passed, {failed} failed, {skipped} skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
