"""Normalization: by layer, root mean square, group, batch, instance and neighbouring channels."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from .. import _core
from .._core import Device, Tensor
from . import functional as F
from . import init
from .linear import new
from .module import Module
from .parameter import Parameter

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "GroupNorm",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "LayerNorm",
    "LocalResponseNorm",
    "RMSNorm",
    "SyncBatchNorm",
]


class _Affine(Module):
    """weight, which starts at 1, and bias, at 0, where they are wanted."""

    weight: Parameter | None
    bias: Parameter | None

    def _make(
        self, shape: Sequence[int], weight: bool, bias: bool, device: Device | str | None, dtype: _core.dtype | None
    ) -> None:
        self.register_parameter("weight", new(*shape, device=device, dtype=dtype) if weight else None)
        self.register_parameter("bias", new(*shape, device=device, dtype=dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """weight 1, bias 0"""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)


class LayerNorm(_Affine):
    """(x - mean) / sqrt(var + eps) weight + bias over the last axes, of the sizes
    ``normalized_shape``; the same shape (Ba et al. 2016)"""

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Device | str | None = None,
        dtype: _core.dtype | None = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self._make(self.normalized_shape, elementwise_affine, elementwise_affine and bias, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine},"
            f" bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """x / sqrt(mean(x^2) + eps) weight over the last axes, of the sizes ``normalized_shape``; the
    same shape (Zhang and Sennrich 2019). eps: as in ``functional.rms_norm`` when absent."""

    weight: Parameter | None

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Device | str | None = None,
        dtype: _core.dtype | None = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self.register_parameter(
            "weight", new(*self.normalized_shape, device=device, dtype=dtype) if elementwise_affine else None
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """weight 1"""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, input: Tensor) -> Tensor:
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(_Affine):
    """Each of ``num_groups`` groups of channels of each sample to mean 0 and variance 1, then
    weight and bias by channel : (N, C, ...) (Wu and He 2018)"""

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Device | str | None = None,
        dtype: _core.dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_groups < 1 or num_channels % num_groups:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        self._make((num_channels,), affine, affine and bias, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine},"
            f" bias={self.bias is not None}"
        )


class _NormBase(_Affine):
    """What normalizations over batches and over samples share: weight, bias and running statistics."""

    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None
    axes: tuple[int, ...]  # how many an input may have
    _version = 2  # 1: without num_batches_tracked

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Device | str | None = None,
        dtype: _core.dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features, self.eps, self.momentum, self.affine, self.track_running_stats = (
            num_features,
            eps,
            momentum,
            affine,
            track_running_stats,
        )
        track = track_running_stats
        self.register_buffer("running_mean", _core.zeros(num_features, device=device, dtype=dtype) if track else None)
        self.register_buffer("running_var", _core.ones(num_features, device=device, dtype=dtype) if track else None)
        self.register_buffer("num_batches_tracked", _core.tensor(0, device=device) if track else None)
        self._make((num_features,), affine, affine and bias, device, dtype)

    def reset_running_stats(self) -> None:
        """running_mean 0, running_var 1, no batches"""
        for buffer, value in ((self.running_mean, 0), (self.running_var, 1), (self.num_batches_tracked, 0)):
            if buffer is not None:
                buffer.fill_(value)

    def reset_parameters(self) -> None:
        """weight 1, bias 0, no statistics"""
        self.reset_running_stats()
        super().reset_parameters()

    def _upgrade_state(self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any]) -> None:
        counted = self.num_batches_tracked
        if (local_metadata.get("version") or 1) < 2 and counted is not None:
            state_dict.setdefault(prefix + "num_batches_tracked", counted)

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim not in self.axes:
            raise ValueError(f"expected {' or '.join(f'{n}D' for n in self.axes)} input (got {input.ndim}D input)")

    def extra_repr(self) -> str:
        said = (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine},"
            f" bias={self.bias is not None}"
        )
        return f"{said}, track_running_stats={self.track_running_stats}"


class _BatchNorm(_NormBase):
    """Each channel to mean 0 and variance 1 over the batch, then weight and bias by channel (Ioffe
    and Szegedy 2015). In training running_mean and running_var go by ``momentum`` (None: so that
    they are means over all batches) towards the batch's; in use they take its place, unless
    ``track_running_stats`` is false."""

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        if input.size(1) != self.num_features:
            raise RuntimeError(f"running_mean should contain {input.size(1)} elements not {self.num_features}")
        momentum = 0.0 if self.momentum is None else self.momentum
        if self.training and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                momentum = 1 / self.num_batches_tracked.item()
        return F.batch_norm(
            input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or self.running_mean is None,
            momentum,
            self.eps,
        )


class BatchNorm1d(_BatchNorm):
    __doc__ = f"(N, C) or (N, C, T).  {_BatchNorm.__doc__}"
    axes = (2, 3)


class BatchNorm2d(_BatchNorm):
    __doc__ = f"(N, C, H, W).  {_BatchNorm.__doc__}"
    axes = (4,)


class BatchNorm3d(_BatchNorm):
    __doc__ = f"(N, C, D, H, W).  {_BatchNorm.__doc__}"
    axes = (5,)


class SyncBatchNorm(_BatchNorm):
    __doc__ = f"(N, C, ...).  In one process, which is all there is, the same as BatchNorm.  {_BatchNorm.__doc__}"
    axes = (2, 3, 4, 5, 6, 7, 8)

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Device | str | None = None,
        dtype: _core.dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """The module with each BatchNorm in it replaced by a SyncBatchNorm with its parameters and buffers."""
        if isinstance(module, _BatchNorm) and not isinstance(module, SyncBatchNorm):
            m = cls(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_group,
            )
            m.weight, m.bias, m.training = module.weight, module.bias, module.training
            m.running_mean, m.running_var = module.running_mean, module.running_var
            m.num_batches_tracked = module.num_batches_tracked
            return m
        for name, child in list(module.named_children()):
            setattr(module, name, cls.convert_sync_batchnorm(child, process_group))
        return module


class _InstanceNorm(_NormBase):
    """Each channel of each sample to mean 0 and variance 1, then weight and bias by channel, where ``affine`` (Ulyanov
    et al. 2016). With track_running_stats: running_mean and running_var go by ``momentum`` towards the means over the
    samples; in use they take the place of the samples' own."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Device | str | None = None,
        dtype: _core.dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def _apply_instance_norm(self, input: Tensor) -> Tensor:
        return F.instance_norm(
            input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        channels = -(self.axes[0])
        if input.size(channels) != self.num_features:
            said = f"input's size at dim={channels} does not match num_features ({self.num_features})"
            if self.affine:
                raise ValueError(f"{said}: {input.size(channels)}")
            warnings.warn(f"{said}. It is not used, because affine=False.", stacklevel=2)
        if input.ndim != self.axes[0]:
            return self._apply_instance_norm(input)
        return self._apply_instance_norm(input.unsqueeze(0)).squeeze(0)


class InstanceNorm1d(_InstanceNorm):
    __doc__ = f"(N, C, T) or (C, T).  {_InstanceNorm.__doc__}"
    axes = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    __doc__ = f"(N, C, H, W) or (C, H, W).  {_InstanceNorm.__doc__}"
    axes = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    __doc__ = f"(N, C, D, H, W) or (C, D, H, W).  {_InstanceNorm.__doc__}"
    axes = (4, 5)


class LocalResponseNorm(Module):
    """x / (k + alpha / size s)^beta, s the sum of x^2 over ``size`` neighbouring channels : (N, C, ...)"""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
