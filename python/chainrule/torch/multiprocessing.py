"""Python's multiprocessing, ``spawn`` of several processes, and tensors whose memory processes share.

A tensor of ``share_memory_()`` is sent to a process as the name of its memory; others are sent as copies."""

from __future__ import annotations

import multiprocessing as _mp
from multiprocessing import *  # noqa: F403
from multiprocessing.reduction import ForkingPickler
from typing import Any

import chainrule as cr

from . import _names
from ._memory import opened

__getattr__ = _names.forward(__name__, "multiprocessing")


class ProcessException(Exception):
    """A process failed: error_index is its number."""

    def __init__(self, msg: str, error_index: int, pid: int) -> None:
        super().__init__(msg)
        self.msg, self.error_index, self.pid = msg, error_index, pid


class ProcessRaisedException(ProcessException):
    """A process failed with an exception, which the message has."""


class ProcessExitedException(ProcessException):
    """A process ended by a signal or a call of exit."""

    def __init__(self, msg: str, error_index: int, error_pid: int, exit_code: int) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code = exit_code


def _run(fn: Any, i: int, args: Any, errors: Any) -> None:
    """What a process of ``spawn`` does."""
    from traceback import format_exc

    try:
        fn(i, *args)
    except KeyboardInterrupt:
        pass
    except Exception:
        errors.put(format_exc())
        raise SystemExit(1) from None


class SpawnContext:
    """The processes of ``spawn(join=False)``."""

    def __init__(self, processes: list[Any], errors: list[Any]) -> None:
        self.processes, self._errors = processes, errors

    def pids(self) -> list[int]:
        """The processes' numbers in the system."""
        return [p.pid for p in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Waits until one process has failed, which ends the others and raises, or all are done: True."""
        from multiprocessing.connection import wait

        alive = [p.sentinel for p in self.processes if p.is_alive()]
        if alive:
            wait(alive, timeout)
        done = not any(p.is_alive() for p in self.processes)  # asked first: one may end between the two lines
        failed = next((i for i, p in enumerate(self.processes) if p.exitcode), None)
        if failed is None:
            return done
        for p in self.processes:
            if p.is_alive():
                p.terminate()
            p.join()
        p = self.processes[failed]
        if self._errors[failed].empty():
            raise ProcessExitedException(
                f"process {failed} terminated with exit code {p.exitcode}", failed, p.pid, p.exitcode
            )
        text = self._errors[failed].get()
        raise ProcessRaisedException(
            f"\n\n-- Process {failed} terminated with the following error:\n{text}", failed, p.pid
        )


def start_processes(
    fn: Any, args: Any = (), nprocs: int = 1, join: bool = True, daemon: bool = False, start_method: str = "spawn"
) -> SpawnContext | None:
    """Runs ``fn(i, *args)`` in process i of ``nprocs``."""
    context = _mp.get_context(start_method)
    processes, errors = [], []
    for i in range(nprocs):
        errors.append(context.SimpleQueue())
        processes.append(context.Process(target=_run, args=(fn, i, args, errors[-1]), daemon=daemon))  # type: ignore[attr-defined]
        processes[-1].start()
    found = SpawnContext(processes, errors)
    if not join:
        return found
    while not found.join():
        pass
    return None


def spawn(
    fn: Any, args: Any = (), nprocs: int = 1, join: bool = True, daemon: bool = False, start_method: str = "spawn"
) -> SpawnContext | None:
    """Runs ``fn(i, *args)`` in process i of ``nprocs``; ProcessRaisedException where one fails."""
    return start_processes(fn, args, nprocs, join, daemon, start_method)


def get_all_sharing_strategies() -> set[str]:
    """How memory is shared: by name."""
    return {"file_system"}


def get_sharing_strategy() -> str:
    """How memory is shared: by name."""
    return "file_system"


def set_sharing_strategy(new_strategy: str) -> None:
    """There is one strategy; another name has no effect."""


def _reduce(t: cr.Tensor) -> Any:
    path = getattr(t, "_shared", None)
    if path is None or not t.is_contiguous():
        return t.__reduce_ex__(4)
    return opened, (path, tuple(t.shape), t.dtype, type(t), t.requires_grad)


for _kind in (cr.Tensor, cr.nn.Parameter):
    ForkingPickler.register(_kind, _reduce)
