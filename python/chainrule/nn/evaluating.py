"""``evaluating``: a module in the mode of use while somebody computes with it, also for several threads at once."""

from __future__ import annotations

import os
from threading import Lock
from weakref import WeakKeyDictionary

from .. import _core
from .module import Module

__all__ = ["evaluating"]


class _State:
    """How many threads are inside, and which modules trained before the first."""

    def __init__(self) -> None:
        self.inside, self.root = 0, False
        self.trained: list[Module] = []  # without the module itself, which is the key of a weak dictionary


_states: WeakKeyDictionary[Module, _State] = WeakKeyDictionary()
_lock = Lock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_lock._at_fork_reinit)  # type: ignore[attr-defined]


def _set(module: Module, mode: bool) -> None:
    object.__setattr__(module, "training", mode)


class evaluating:  # noqa: N801 - a context manager
    """Without dropout and the like.  It may be entered several times; the last thread that leaves restores the mode of
    each module inside."""

    __slots__ = ("module", "state")

    def __init__(self, module: Module) -> None:
        self.module = module
        with _lock:
            self.state = _states.setdefault(module, _State())

    def __enter__(self) -> None:
        state = self.state
        with _lock:
            if not state.inside:
                state.root, state.trained = self.module.training, _core._training_inside(self.module)
                for m in (self.module, *state.trained):
                    _set(m, False)
            state.inside += 1

    def __exit__(self, *_: object) -> None:
        state = self.state
        with _lock:
            state.inside -= 1
            if not state.inside:
                _set(self.module, state.root)
                for m in state.trained:
                    _set(m, True)
                state.trained = []
