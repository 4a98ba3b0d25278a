"""The program chainrule of an installed package, which the extension contains."""

import os
import signal
import sys

from . import _core


def main() -> int:
    if sys.argv[1:2] == ["serve"]:
        from .serve.__main__ import main as serve

        del sys.argv[1]
        return serve()
    for name in ("SIGINT", "SIGPIPE"):  # as programs in C start, not as Python's
        if hasattr(signal, name) and (name == "SIGPIPE" or signal.getsignal(signal.SIGINT) is not signal.SIG_IGN):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
    folder, name = os.path.split(sys.argv[0])
    called = name if folder in os.get_exec_path() else sys.argv[0]
    return _core._program([os.fsencode(word) for word in (called, *sys.argv[1:])])
