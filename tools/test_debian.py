"""Builds the Debian packages from a copy of the tree, asks lintian, and uses them from an unpacked folder: a C program
through pkg-config, the program, the Python package.  Needs dpkg-dev, debhelper, lintian and what debian/control names.
Ends with the result line of tests/test.h."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NO_ADDRESS = "bogus-mail-host,bogus-mail-host-in-debian-changelog"  # the maintainers have no address yet
PACKAGES = ("libchainrule0.1", "libchainrule-dev", "chainrule", "python3-chainrule")
PROGRAM = "#include <chainrule.h>\nint main(void) { return !cr_ones(CR_LIST(3), CR_F32, cr_cpu()); }\n"
SCRIPT = "import chainrule as cr; assert (cr.ones(3) + 1).sum().item() == 6; print(cr.__version__)"


class Failure(Exception):
    """A step that did not work; holds what it printed."""


def run(*command: str | Path, folder: Path, **environment: str) -> str:
    system = {**os.environ, "PATH": "/usr/bin:/bin:/usr/sbin:/sbin", **environment}  # no virtual environment
    done = subprocess.run([*map(str, command)], cwd=folder, env=system, text=True, capture_output=True)
    if done.returncode:
        raise Failure(f"$ {' '.join(map(str, command))}\n{(done.stdout + done.stderr)[-4000:]}")
    return done.stdout


def version() -> str:
    header = (ROOT / "include/chainrule.h").read_text(encoding="utf-8")
    return re.search(r'#define CR_VERSION "([^"]+)"', header)[1]  # type: ignore[index]


def build(folder: Path) -> Path:
    """The packages, unpacked into one root."""
    source = folder / "chainrule"
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns("build", ".git", "shared"))
    said = run("dpkg-parsechangelog", "--show-field", "Version", folder=source).strip()
    if said != version():
        raise Failure(f"debian/changelog says {said}, the header {version()}")
    run("dpkg-buildpackage", "-us", "-uc", "-b", folder=source, DEB_BUILD_OPTIONS=f"parallel={os.cpu_count()} nocheck")
    changes = next(folder.glob("*.changes"))
    run("lintian", "--fail-on", "error,warning", "--suppress-tags", NO_ADDRESS, "--allow-root", changes, folder=folder)
    for package in PACKAGES:
        run("dpkg-deb", "-x", next(folder.glob(f"{package}_*.deb")), folder / "root", folder=folder)
    return folder / "root"


def use(root: Path, folder: Path) -> None:
    library = next(root.glob("usr/lib/*/libchainrule.so.*")).parent
    (folder / "main.c").write_text(PROGRAM, encoding="utf-8")
    found = {"PKG_CONFIG_PATH": str(library / "pkgconfig"), "LD_LIBRARY_PATH": str(library)}
    flags = run("pkg-config", "--cflags", "--libs", "chainrule", folder=folder, **found).split()
    run("cc", "main.c", *flags, "-o", "main", folder=folder)
    run(folder / "main", folder=folder, **found)
    if version() not in run(root / "usr/bin/chainrule", "--version", folder=folder):
        raise Failure("the program has another version")
    if not list(root.glob("usr/share/man/man1/chainrule.1*")):
        raise Failure("the program has no manual page")
    run("/usr/bin/python3", "-c", SCRIPT, folder=folder, PYTHONPATH=str(root / "usr/lib/python3/dist-packages"))


def lacking() -> list[str]:
    """What a build needs and this machine lacks."""
    needed = ("dpkg-buildpackage", "dh", "lintian", "help2man", "pkg-config")
    tools = [name for name in needed if not shutil.which(name)]
    if tools:
        return tools
    asked = subprocess.run(["dpkg-checkbuilddeps"], cwd=ROOT, text=True, capture_output=True)
    return [] if asked.returncode == 0 else [asked.stderr.strip()]


def main() -> int:
    if why := lacking():
        print(f"skipped Debian packages: {', '.join(why)}\nresult: 0 passed, 0 failed, 1 skipped")
        return 0
    with tempfile.TemporaryDirectory(prefix="chainrule-") as name:
        folder = Path(name)
        try:
            use(build(folder), folder)
        except Failure as failure:
            print(f"{failure}\nresult: 0 passed, 1 failed, 0 skipped")
            return 1
        sizes = ", ".join(
            f"{package} {next(folder.glob(f'{package}_*.deb')).stat().st_size / 1e6:.1f} MB" for package in PACKAGES
        )
    print(f"report Debian packages: {sizes}; lintian has nothing to say\nresult: 1 passed, 0 failed, 0 skipped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
