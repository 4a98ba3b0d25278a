"""``chainrule.nn.init`` with the names without an underscore, which also write into the tensor."""

from __future__ import annotations

import math

import chainrule as _cr
import chainrule.nn.init as _init

from .. import _names

_OLD = """uniform normal constant eye dirac xavier_uniform xavier_normal
kaiming_uniform kaiming_normal orthogonal sparse""".split()
_forward = _names.forward(__name__, "chainrule.nn.init")


def __getattr__(name: str) -> object:
    return getattr(_init, name + "_") if name in _OLD and hasattr(_init, name + "_") else _forward(name)


def _calculate_fan_in_and_fan_out(tensor: _cr.Tensor) -> tuple[int, int]:
    """(inputs, outputs) of one element of a weight (OUT, IN, *kernel)."""
    if tensor.ndim < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    kernel = math.prod(tensor.shape[2:])
    return tensor.shape[1] * kernel, tensor.shape[0] * kernel


def _calculate_correct_fan(tensor: _cr.Tensor, mode: str) -> int:
    """The fan of ``mode``, "fan_in" or "fan_out"."""
    if mode.lower() not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    return _calculate_fan_in_and_fan_out(tensor)[mode.lower() == "fan_out"]


def _no_grad_trunc_normal_(tensor: _cr.Tensor, mean: float, std: float, a: float, b: float) -> _cr.Tensor:
    return _init.trunc_normal_(tensor, mean, std, a, b)
