"""Names of PyTorch that exist for imports only: other packages import them, name them in annotations and ask
``isinstance``, and most never use them.  Using one raises NotImplementedError with what to use instead."""

from __future__ import annotations

from functools import cache, wraps
from types import FunctionType
from typing import Any

import chainrule as cr

from ._advice import message
from ._missing import ALIASES, ANSWERS, DTYPES, OPTIONS


class Absent(type):
    """The class of such names: they are classes, so that they can stand in annotations and bases.  Their own names
    exist in the same way, as ``ShardingStrategy.FULL_SHARD``."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs and isinstance(args[0], FunctionType):
            return _refused(cls._absent, args[0])
        raise NotImplementedError(message(cls._absent))

    def __getattr__(cls, name: str) -> Any:
        if "_absent" not in cls.__dict__ or (name.startswith("__") and name.endswith("__")):
            raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}", name=name, obj=cls)
        found = absent(f"{cls._absent}.{name}")
        setattr(cls, name, found)
        return found

    def __getitem__(cls, key: object) -> Any:
        """In annotations, as ``RRef[Tensor]``."""
        return cls

    def __repr__(cls) -> str:
        return f"<class '{cls._absent}', not in chainrule>" if "_absent" in cls.__dict__ else type.__repr__(cls)


def _same(x: Any = None, *args: Any, **kwargs: Any) -> Any:
    return x


class Options:
    """What a class was given that only holds it: packages make such objects when they are imported."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.args = args
        self.__dict__.update(kwargs)


def _refused(name: str, function: Any) -> Any:
    """What a decorator that is not there gives: its use is the call of the decorated function."""

    @wraps(function)
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(message(name))

    return refuse


def absent(name: str) -> Any:
    """The class that stands for a name, or the function whose answer is known."""
    if name in ANSWERS:
        answer = {"same": _same, "decorator": lambda *args, **kwargs: _same}.get(str(ANSWERS[name]))
        return answer or (lambda *args, **kwargs: ANSWERS[name])
    module, _, last = name.rpartition(".")
    if module.startswith("torch.distributed.") and last in OPTIONS:
        return type(last, (Options,), {"__module__": module})
    return Absent(last, (), {"_absent": name, "__module__": module})


class _Dtype:
    """A dtype that no tensor has: it can be compared, looked up in a dict and asked about."""

    name: str
    itemsize: int
    is_floating_point = property(lambda self: self.name.startswith("float"))
    is_complex = property(lambda self: self.name.startswith("complex"))
    is_signed = property(lambda self: not self.name.startswith(("uint", "quint")))
    __class__ = property(lambda self: cr.dtype)  # isinstance(x, torch.dtype) is true

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> Any:
        return dtype, (self.name,)


@cache
def dtype(name: str) -> Any:
    """Such a dtype.  A function that refuses it says the name of its class: what is missing, and what to use."""
    if name in ALIASES:
        return dtype(ALIASES[name])
    itemsize, advice = DTYPES[name]
    kind = f"torch.{name}, which is not in chainrule: {advice}"
    return type(kind, (_Dtype,), {"name": name, "itemsize": itemsize, "__module__": __name__})()


# dtype: eps, max, smallest_normal
_LIMITS = {
    "float8_e4m3fn": (0.125, 448.0, 2.0**-6),
    "float8_e4m3fnuz": (0.125, 240.0, 2.0**-7),
    "float8_e5m2": (0.25, 57344.0, 2.0**-14),
    "float8_e5m2fnuz": (0.125, 57344.0, 2.0**-15),
    "float8_e8m0fnu": (1.0, 2.0**127, 2.0**-127),
}


class finfo(cr.finfo):  # noqa: N801, PyTorch's name
    """``chainrule.finfo``, also of dtypes that no tensor has."""

    def __init__(self, type: Any = None) -> None:  # noqa: A002, as PyTorch's
        name = getattr(type, "name", None)
        if name not in _LIMITS:
            super().__init__({"complex64": cr.float32, "complex128": cr.float64}.get(str(name), type))
            return
        self.dtype, self.bits = type, 8
        self.eps, self.max, self.tiny = _LIMITS[name]
        self.smallest_normal = self.tiny
        self.min = self.tiny if name == "float8_e8m0fnu" else -self.max
