"""``DistributedDataParallel`` is chainrule's; the modules for several devices compute on one."""

from __future__ import annotations

from typing import Any

from chainrule.nn import Module
from chainrule.nn.parallel import DistributedDataParallel

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel"]


class DataParallel(Module):
    """Calls ``module`` with the whole batch.  As in PyTorch the names in the state dict begin with "module.".

    device_ids, output_device, dim: where PyTorch would split the batch; they have no effect."""

    module: Module

    def __init__(self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0) -> None:
        super().__init__()
        self.module = module
        self.device_ids: list[Any] = list(device_ids or [])
        self.dim = dim

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Any = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: Any = None,
) -> Any:
    """``module(*inputs)``"""
    return module(*(inputs if isinstance(inputs, tuple) else (inputs,)), **(module_kwargs or {}))
