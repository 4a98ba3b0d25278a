"""``torch.profiler``: times of ops as a trace file, by ``chainrule.profile``."""

from __future__ import annotations

import os
from collections.abc import Callable
from enum import Enum
from functools import wraps
from typing import Any

import chainrule as cr

from . import _names

__getattr__ = _names.forward(__name__)
__all__ = ["ProfilerActivity", "profile", "record_function", "schedule", "tensorboard_trace_handler"]


class ProfilerActivity(Enum):
    """What PyTorch records; chainrule records the ops of all devices."""

    CPU = 0
    CUDA = 1
    XPU = 2


class ProfilerAction(Enum):
    """What a step does."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, **options: Any
) -> Callable[[int], ProfilerAction]:
    """Which steps are recorded: after ``skip_first``, in turn ``wait`` and ``warmup`` steps not, ``active`` steps."""

    def action(step: int) -> ProfilerAction:
        step -= skip_first
        each = wait + warmup + active
        if step < 0 or (repeat and step >= repeat * each):
            return ProfilerAction.NONE
        at = step % each
        if at < wait + warmup:
            return ProfilerAction.NONE if at < wait else ProfilerAction.WARMUP
        return ProfilerAction.RECORD_AND_SAVE if at == each - 1 else ProfilerAction.RECORD

    return action


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[Any], None]:
    """Writes the trace into a folder; chrome://tracing and ui.perfetto.dev show it."""

    def handle(prof: Any) -> None:
        os.makedirs(dir_name, exist_ok=True)
        prof.export_chrome_trace(os.path.join(dir_name, f"{worker_name or os.getpid()}.{prof.step_num}.pt.trace.json"))

    return handle


class profile:  # noqa: N801, PyTorch's name
    """Records the ops inside ``with``: ``export_chrome_trace(path)`` writes them.  Tables (``key_averages``) are not
    made: AttributeError."""

    def __init__(
        self,
        *,
        activities: Any = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[Any], Any] | None = None,
        **options: Any,
    ) -> None:
        self.step_num = 0
        self._schedule, self._ready = schedule, on_trace_ready
        self._recording = False
        self._trace = b""

    def _action(self) -> ProfilerAction:
        return self._schedule(self.step_num) if self._schedule else ProfilerAction.RECORD

    def _follow(self) -> None:
        wanted = self._action() in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
        if wanted and not self._recording:
            cr._core._profile_begin()
            self._recording = True

    def _finish(self) -> None:
        from tempfile import TemporaryDirectory

        if not self._recording:
            return
        with TemporaryDirectory() as folder:
            path = os.path.join(folder, "trace.json")
            cr._core._profile_end(path)
            with open(path, "rb") as file:
                self._trace = file.read()
        self._recording = False
        if self._ready:
            self._ready(self)

    def start(self) -> None:
        """Begins to record."""
        self._follow()

    def stop(self) -> None:
        """Ends the recording."""
        self._finish()

    def step(self) -> None:
        """The next step of the schedule begins."""
        if self._action() is ProfilerAction.RECORD_AND_SAVE:
            self._finish()
        self.step_num += 1
        self._follow()

    def export_chrome_trace(self, path: str) -> None:
        """Writes the trace.  RuntimeError: nothing was recorded."""
        if not self._trace:
            raise RuntimeError("Profiler didn't run: leave the `with` before the export")
        with open(path, "wb") as file:
            file.write(self._trace)

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()


class record_function:  # noqa: N801, PyTorch's name
    """``with record_function(name):`` or a decorator; the trace shows the ops inside with the script's lines."""

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name

    def __enter__(self) -> record_function:
        return self

    def __exit__(self, *exception: object) -> None:
        return None

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return inside
