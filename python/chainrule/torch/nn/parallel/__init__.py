"""Modules for several devices or processes: here one device and one process compute everything."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from chainrule.nn import Module

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


class DistributedDataParallel(Module):
    """Calls ``module``: in a world of one process its gradients are the sum over all processes already.
    ValueError: there is no process group."""

    module: Module

    def __init__(
        self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0, **options: Any
    ) -> None:
        from ... import distributed

        if not distributed.is_initialized():
            raise ValueError(
                "Default process group has not been initialized, please make sure to call init_process_group."
            )
        super().__init__()
        self.module = module
        self.device_ids: list[Any] = list(device_ids or [])
        self.dim = dim
        self.require_backward_grad_sync = True

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Gradients inside are not summed over processes."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    @contextmanager
    def join(self, *args: Any, **options: Any) -> Iterator[None]:
        """For processes with different numbers of batches: one process has nothing to wait for."""
        yield


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
