"""``torch.utils.hooks``: handles that remove a hook from a dict of hooks."""

from __future__ import annotations

import weakref
from itertools import count
from typing import Any

from chainrule import _core
from chainrule.nn.module import RemovableHandle as _Handle

from .. import _names

__getattr__ = _names.forward(__name__)
_ids = count()


class _Meta(type):
    """chainrule's own handles are instances too."""

    def __instancecheck__(cls, obj: object) -> bool:
        return type.__instancecheck__(cls, obj) or isinstance(obj, _Handle | _core.RemovableHandle)


class RemovableHandle(metaclass=_Meta):
    """A hook under the key ``id`` of a dict, and of others: ``remove()``, or the end of a ``with``, removes it."""

    def __init__(self, hooks_dict: Any, *, extra_dict: Any = None) -> None:
        self.id = next(_ids)
        others = [] if extra_dict is None else extra_dict if isinstance(extra_dict, list) else [extra_dict]
        self._dicts = [weakref.ref(d) if hasattr(d, "__weakref__") else (lambda d=d: d) for d in (hooks_dict, *others)]

    def remove(self) -> None:
        for found in self._dicts:
            hooks = found()
            if hooks is not None:
                hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()


def unserializable_hook(f: Any) -> Any:
    """The hook, with a mark that a warning of ``save`` asks for."""
    f.__torch_unserializable__ = True
    return f
