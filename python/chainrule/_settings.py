"""``chainrule.config``, the run-time switches, ``chainrule.auto_transfer``, and
``chainrule.profile``, the times of ops."""

from __future__ import annotations

from . import _core
from .autograd import _ModeFromNow

TYPE_CHECKING = False  # in place of typing's: importing typing takes longer than importing chainrule
if TYPE_CHECKING:
    import os
    from collections.abc import Iterator


class Config:
    """Every run-time switch by its name in lower case; ``print(chainrule.config)`` lists them with their meaning.

    ``config.num_threads`` is the value in force as a string, None where the default holds;
    ``config.num_threads = 1`` sets it in this process, before the environment's
    CHAINRULE_NUM_THREADS; ``= None`` brings that back.  RuntimeError: too late for this switch."""

    def __getattr__(self, name: str) -> str | None:
        for known, _, value in _core._switches():
            if known == name:
                return value
        raise AttributeError(f"no switch is called {name!r}; there are: {', '.join(self)}")

    def __setattr__(self, name: str, value: str | int | None) -> None:
        if name not in self:
            raise AttributeError(f"no switch is called {name!r}; there are: {', '.join(self)}")
        _core._switch_set(name.upper(), None if value is None else str(value))

    def __iter__(self) -> Iterator[str]:
        return iter([name for name, _, _ in _core._switches()])

    def __dir__(self) -> list[str]:
        return list(self)

    def __repr__(self) -> str:
        rows = [(name, "default" if value is None else value, doc) for name, doc, value in _core._switches()]
        wide = [max(len(row[k]) for row in rows) for k in (0, 1)]
        return "\n".join(f"{name:{wide[0]}}  {value:{wide[1]}}  {doc}" for name, value, doc in rows)


class profile:
    """Writes the ops that run inside ``with`` to a file that chrome://tracing and ui.perfetto.dev
    show: for each op of any thread its time, shapes, dtypes, bytes, device, and the line of Python
    that called it."""

    def __init__(self, path: str | os.PathLike[str] = "trace.json") -> None:
        self.path = path

    def __enter__(self) -> profile:
        _core._profile_begin()
        return self

    def __exit__(self, *exception: object) -> None:
        _core._profile_end(str(self.path))


def auto_transfer(mode: bool) -> _ModeFromNow:
    """Operands on several devices move to the first one's, in this thread, from the call on; in
    ``with`` until its end.  Else they are an error."""
    return _ModeFromNow(_core._set_auto_transfer, mode)


config = Config()
