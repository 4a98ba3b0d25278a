"""``torch`` as a name of ``chainrule.torch``: in a script, a notebook or a program."""

from __future__ import annotations

import os
import sys
from types import TracebackType
from typing import Any

from . import _advice, _alias

MAIN = os.path.join(os.path.dirname(__file__), "__main__.py")


def install() -> None:
    """``import torch`` gives ``chainrule.torch`` from now on, in this process and in those that it starts with
    multiprocessing; printed names are PyTorch's: what ``python -m chainrule.torch`` does before the script begins.
    RuntimeError: PyTorch has been imported."""
    import multiprocessing.spawn as spawn

    import chainrule

    there = sys.modules.get("torch")
    if there not in (None, sys.modules[__package__]):
        where = getattr(there, "__file__", "torch")
        raise RuntimeError(f"[install] PyTorch is imported already: {where}; call it before the first `import torch`")
    _alias.install_alias()
    chainrule._core._namespace("torch")
    sys.excepthook = explained
    if hasattr(spawn.get_command_line, "chainrule"):
        return
    command_line = spawn.get_command_line

    def prepared(**options: Any) -> list[str]:
        found = command_line(**options)
        at = found.index("-c") + 1
        found[at] = "import chainrule.torch as t; t.install(); " + found[at]
        return found

    prepared.chainrule = True  # type: ignore[attr-defined]
    spawn.get_command_line = prepared


def explained(kind: type[BaseException], problem: BaseException, trace: TracebackType | None) -> None:
    """Python's message of an exception that nothing caught, from the script's first line on; of a method that is
    missing with what to use instead."""
    import chainrule

    while trace is not None and trace.tb_frame.f_code.co_filename in (MAIN, "<frozen runpy>"):
        trace = trace.tb_next
    last, at = None, trace  # the script's last frame: those of this package behind it say nothing
    while at is not None:
        if not (at.tb_frame.f_globals.get("__package__") or "").startswith(_advice.PACKAGE):
            last = at
        at = at.tb_next
    if last is not None and isinstance(problem, AttributeError | ImportError | NotImplementedError):
        last.tb_next = None
    if isinstance(problem, AttributeError) and isinstance(problem.obj, chainrule.Tensor | chainrule.nn.Module):
        name = f"torch.{'Tensor' if isinstance(problem.obj, chainrule.Tensor) else 'nn.Module'}.{problem.name}"
        problem.add_note(f"{name} is not in chainrule: {_advice.advice(name)}")
    sys.__excepthook__(kind, problem.with_traceback(trace), trace)
