"""The range of a dtype's numbers, and the shape that several shapes broadcast to."""

from __future__ import annotations

from . import _core

TYPE_CHECKING = False  # in place of typing's: importing typing takes longer than importing chainrule
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ._core import Tensor, dtype


class _Limits:
    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value}' for name, value in vars(self).items())})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(self.__repr__())


class finfo(_Limits):  # noqa: N801, PyTorch's name
    """Limits of a float dtype (the default one): bits, eps = 1's distance to the next number, max, min,
    smallest_normal, also as tiny, dtype."""

    def __init__(self, type: dtype | None = None) -> None:  # noqa: A002, as PyTorch's
        self.dtype = _core.get_default_dtype() if type is None else type
        found = {
            _core.float16: (10, 15),
            _core.bfloat16: (7, 127),
            _core.float32: (23, 127),
            _core.float64: (52, 1023),
        }.get(self.dtype)
        if found is None:
            raise TypeError(f"finfo() needs a floating point dtype: {type}")
        fraction, exponent = found
        self.bits = 8 * self.dtype.itemsize
        self.eps = 2.0**-fraction
        self.max = (2 - 2.0**-fraction) * 2.0**exponent
        self.min = -self.max
        self.smallest_normal = self.tiny = 2.0 ** (1 - exponent)


class iinfo(_Limits):  # noqa: N801, PyTorch's name
    """Limits of an integer dtype: bits, max, min, dtype."""

    def __init__(self, type: dtype) -> None:  # noqa: A002, as PyTorch's
        if type == _core.bool or type.is_floating_point:
            raise TypeError(f"iinfo() needs an integer dtype: {type}")
        self.dtype = type
        self.bits = 8 * type.itemsize
        self.max = 2 ** (self.bits - type.is_signed) - 1
        self.min = -(2 ** (self.bits - 1)) if type.is_signed else 0


def broadcast_shapes(*shapes: Sequence[int] | int) -> _core.Size:
    """The shape to which all broadcast.  RuntimeError: there is none."""
    wide = [(s,) if isinstance(s, int) else tuple(s) for s in shapes]
    ndim = max((len(s) for s in wide), default=0)
    found = []
    for i in range(-ndim, 0):
        sizes = {s[i] for s in wide if len(s) >= -i and s[i] != 1}
        if len(sizes) > 1:
            raise _core.Error(f"shapes do not broadcast: {', '.join(map(str, wide))}")
        found.append(sizes.pop() if sizes else 1)
    return _core.Size(found)


def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Views of the shape to which all broadcast.  RuntimeError: there is none."""
    shape = broadcast_shapes(*[t.shape for t in tensors])
    return tuple(_core.broadcast_to(t, shape) for t in tensors)
