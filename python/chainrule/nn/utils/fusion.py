"""A batch norm, as it is in use, folded into the layer in front of it."""

from __future__ import annotations

import copy
from typing import Any

from ..._core import Tensor
from ..parameter import Parameter

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of a layer and a batch norm in one: w s and (b - mean) s + beta, s = gamma /
    sqrt(var + eps), along the axis of the outputs, 1 where ``transpose``."""
    scale = (bn_rv + bn_eps).rsqrt() * (1.0 if bn_w is None else bn_w)
    shape = [1] * conv_w.ndim
    shape[1 if transpose else 0] = -1
    bias = ((0.0 if conv_b is None else conv_b) - bn_rm) * scale
    bias = bias if bn_b is None else bias + bn_b
    weight = conv_w * scale.reshape(shape)
    return (
        Parameter(weight.detach(), conv_w.requires_grad),
        Parameter(bias.detach(), conv_b.requires_grad if conv_b is not None else True),
    )


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
) -> tuple[Parameter, Parameter]:
    """``fuse_conv_bn_weights`` of a linear layer."""
    return fuse_conv_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """A copy of the convolution that does what both do in use.  Both must be in use, not in training."""
    if conv.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("Fusion needs the running statistics of the batch norm")
    fused = copy.deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        conv.weight, conv.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, transpose
    )
    return fused


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """``fuse_conv_bn_eval`` of a linear layer."""
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError("To fuse, linear.out_features == bn.num_features or bn.num_features == 1")
    return fuse_conv_bn_eval(linear, bn)
