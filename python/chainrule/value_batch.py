"""Many scalars at once: the names of ``Value`` over one tensor, so that each operation is one kernel on its device.

Every element is a Value of its own: ``backward()`` starts with a gradient of 1 at each.
"""

from __future__ import annotations

from . import _core
from ._core import Tensor
from .autograd import no_grad

TYPE_CHECKING = False  # in place of typing's: importing typing takes longer than importing chainrule
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ._core import Device
    from ._core import dtype as Dtype

__all__ = ["ValueBatch"]


def _dtype_on(device: Device) -> Dtype:
    """float64, but on WebGPU, which has none."""
    return _core.float32 if device.type == "webgpu" else _core.float64


class ValueBatch:
    """``ValueBatch([1.0, 2.0], device="cpu")``: a leaf.  Operands are batches of the same length
    and device, or numbers.

    Computed in float64; on a WebGPU device, which has no float64, in float32: ``dtype`` says which.
    """

    def __init__(self, data: Iterable[float], device: Device | str | None = None, *, label: str = "") -> None:
        place = _core.get_default_device() if device is None else _core.Device(device)
        self._tensor = _core.tensor(list(data), dtype=_dtype_on(place), device=place, requires_grad=True)
        if self._tensor.ndim != 1:
            raise TypeError("ValueBatch(): argument 'data' must be a sequence of numbers")
        self._prev: tuple[ValueBatch, ...] = ()
        self._op = ""
        self.label = label

    @classmethod
    def _made(cls, tensor: Tensor, prev: tuple[ValueBatch, ...], op: str) -> ValueBatch:
        batch = cls.__new__(cls)
        tensor.retain_grad()
        batch._tensor, batch._prev, batch._op, batch.label = tensor, prev, op, ""
        return batch

    # ---- looking

    @property
    def data(self) -> list[float]:
        """The numbers."""
        return self._tensor.tolist()  # type: ignore[no-any-return]

    @data.setter
    def data(self, numbers: Iterable[float]) -> None:
        with no_grad():
            self._tensor[:] = _core.tensor(list(numbers), dtype=self.dtype, device=self.device)

    @property
    def grad(self) -> list[float]:
        """Their gradients; zeros before the first ``backward``."""
        grad = self._tensor.grad
        return [0.0] * len(self) if grad is None else grad.tolist()

    @grad.setter
    def grad(self, numbers: Iterable[float]) -> None:
        self._tensor.grad = _core.tensor(list(numbers), dtype=self.dtype, device=self.device)

    @property
    def device(self) -> Device:
        """The device that computes them."""
        return self._tensor.device

    @property
    def dtype(self) -> Dtype:
        """float64; float32 on a WebGPU device."""
        return self._tensor.dtype

    def __len__(self) -> int:
        return len(self._tensor)

    def __repr__(self) -> str:
        narrow = "" if self.dtype == _core.float64 else ", dtype=float32"
        return f"ValueBatch(data={self.data}, grad={self.grad}, device={self.device}{narrow})"

    # ---- computing

    def _binary(
        self, other: ValueBatch | float, f: Callable[[Tensor, Tensor], Tensor], op: str, reflected: bool = False
    ) -> ValueBatch:
        if isinstance(other, int | float):
            other = ValueBatch([other] * len(self), self.device)
        if not isinstance(other, ValueBatch):
            return NotImplemented
        if other.device != self.device:
            raise ValueError(
                f"{op}: one ValueBatch is on {self.device}, the other on {other.device}: move one with to()"
            )
        if len(other) != len(self):
            raise ValueError(f"{op}: {len(self)} Values and {len(other)}")
        a, b = (other, self) if reflected else (self, other)
        return ValueBatch._made(f(a._tensor, b._tensor), (a, b), op)

    def _unary(self, f: Callable[[Tensor], Tensor], op: str) -> ValueBatch:
        return ValueBatch._made(f(self._tensor), (self,), op)

    def __add__(self, other: ValueBatch | float) -> ValueBatch:
        return self._binary(other, _core.add, "+")

    def __radd__(self, other: float) -> ValueBatch:
        return self._binary(other, _core.add, "+", reflected=True)

    def __sub__(self, other: ValueBatch | float) -> ValueBatch:
        return self._binary(other, _core.sub, "-")

    def __rsub__(self, other: float) -> ValueBatch:
        return self._binary(other, _core.sub, "-", reflected=True)

    def __mul__(self, other: ValueBatch | float) -> ValueBatch:
        return self._binary(other, _core.mul, "*")

    def __rmul__(self, other: float) -> ValueBatch:
        return self._binary(other, _core.mul, "*", reflected=True)

    def __truediv__(self, other: ValueBatch | float) -> ValueBatch:
        return self._binary(other, _core.div, "/")

    def __rtruediv__(self, other: float) -> ValueBatch:
        return self._binary(other, _core.div, "/", reflected=True)

    def __pow__(self, other: ValueBatch | float) -> ValueBatch:
        if isinstance(other, int | float):  # as in Value: the exponent has no gradient
            return self._unary(lambda x: x**other, f"**{other:g}")
        return self._binary(other, _core.pow, "**")

    def __rpow__(self, other: float) -> ValueBatch:
        return self._binary(other, _core.pow, "**", reflected=True)

    def __neg__(self) -> ValueBatch:
        return self._unary(_core.neg, "neg")

    def relu(self) -> ValueBatch:
        """max(x, 0); gradient 0 at 0."""
        return self._unary(_core.relu, "ReLU")

    def tanh(self) -> ValueBatch:
        """Hyperbolic tangent."""
        return self._unary(_core.tanh, "tanh")

    def exp(self) -> ValueBatch:
        """e^x."""
        return self._unary(_core.exp, "exp")

    def log(self) -> ValueBatch:
        """Natural logarithm."""
        return self._unary(_core.log, "log")

    def sigmoid(self) -> ValueBatch:
        """1 / (1 + e^-x)."""
        return self._unary(_core.sigmoid, "sigmoid")

    # ---- moving

    def to(self, device: Device | str) -> ValueBatch:
        """The same numbers on another device, as an operation of the graph; itself where it is there."""
        there = _core.Device(device)
        return self if there == self.device else self._unary(lambda x: x.to(there, _dtype_on(there)), "to")

    def cpu(self) -> ValueBatch:
        """``to("cpu")``."""
        return self.to("cpu")

    def cuda(self) -> ValueBatch:
        """``to("cuda")``."""
        return self.to("cuda")

    # ---- gradients

    def zero_grad(self) -> None:
        """Forgets the gradients."""
        self._tensor.grad = None

    def _results(self) -> Iterable[ValueBatch]:
        """Every batch under this one that was computed."""
        seen, todo = {id(self)}, [self]
        while todo:
            batch = todo.pop()
            if batch._op:
                yield batch
            new = [b for b in batch._prev if id(b) not in seen]
            seen.update(map(id, new))
            todo += new

    def backward(self) -> None:
        """Every element's gradients: those of results are set, those of leaves added to."""
        for batch in self._results():
            batch._tensor.grad = None
        self._tensor.backward(_core.ones_like(self._tensor), retain_graph=True)
