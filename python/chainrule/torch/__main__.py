"""``python -m chainrule.torch train.py --its-own-arguments`` runs a script of PyTorch's with chainrule.

use: python -m chainrule.torch SCRIPT [ARGUMENT...]       a file, or a folder or zip with __main__.py
     python -m chainrule.torch -m MODULE [ARGUMENT...]    as python -m

In this process, and in those that it starts with multiprocessing, ``torch`` is ``chainrule.torch``."""

from __future__ import annotations

import sys
from types import ModuleType

from ._install import install


def run_script(path: str) -> None:
    """Runs a file as Python runs it."""
    import os
    import runpy
    from importlib.machinery import SourceFileLoader

    if os.path.isdir(path) or path.endswith((".zip", ".pyz")):
        runpy.run_path(path, run_name="__main__")
        return
    try:
        with open(path, "rb") as file:
            source = file.read()
    except OSError as problem:
        print(f"{sys.executable}: can't open file {os.path.abspath(path)!r}: {problem}", file=sys.stderr)
        raise SystemExit(2) from None
    main = ModuleType("__main__")
    main.__dict__.update(__file__=path, __builtins__=__builtins__, __loader__=SourceFileLoader("__main__", path))
    sys.modules["__main__"] = main
    sys.path[0] = os.path.dirname(os.path.realpath(path))
    exec(compile(source, path, "exec", dont_inherit=True), main.__dict__)


def main(arguments: list[str]) -> None:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(__doc__)
        raise SystemExit(0 if arguments else 2)
    install()
    if arguments[0] == "-m":
        import runpy

        if len(arguments) < 2:
            print("python -m chainrule.torch -m: the name of a module is missing", file=sys.stderr)
            raise SystemExit(2)
        sys.argv = arguments[1:]
        sys.path[0] = ""
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return
    sys.argv = arguments
    run_script(arguments[0])


if __name__ == "__main__":
    main(sys.argv[1:])
