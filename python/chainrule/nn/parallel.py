"""``DistributedDataParallel``: one model on many processes, each with its own part of a batch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from .. import _core, distributed
from .._core import Tensor
from ..autograd import no_grad
from .module import Module

__all__ = ["DistributedDataParallel"]

MIB = 1 << 20


class _Bucket:
    """Gradients that are exchanged together: ``flat`` has a part for each parameter."""

    def __init__(self, numbers: list[int], params: list[Tensor], extra: int) -> None:
        first = params[numbers[0]]
        sizes = [params[i].numel() for i in numbers]
        dtype = first.dtype if first.dtype is _core.float64 else _core.float32
        self.numbers = numbers
        self.flat = _core.zeros(sum(sizes) + extra, dtype=dtype, device=distributed._carrier(first))
        *parts, self.extra = self.flat.split([*sizes, extra])
        self.parts = {i: part.reshape(params[i].shape) for i, part in zip(numbers, parts, strict=True)}
        self.missing = set(numbers)
        self.work: Any = None


def _buckets(params: list[Tensor], most: int) -> list[_Bucket]:
    """Parameters in reverse order, about the order in which their gradients come.  The last bucket has a number for
    each parameter more: on how many processes it has a gradient."""
    lists: list[list[int]] = []
    room = 0
    for i in reversed(range(len(params))):
        p, before = params[i], params[lists[-1][-1]] if lists else None
        bytes_ = p.numel() * max(p.itemsize, 4)
        if before is None or bytes_ > room or (p.dtype is _core.float64) != (before.dtype is _core.float64):
            lists.append([])
            room = most
        lists[-1].append(i)
        room -= bytes_
    return [_Bucket(numbers, params, len(params) * (numbers is lists[-1])) for numbers in lists]


class DistributedDataParallel(Module):
    """Calls ``module`` on this process's part of the batch.  In the backward pass gradients become their mean over all
    processes, added in one order; buckets of them are exchanged while the pass goes on.

    The parameters and buffers of process 0 are copied to all.  bucket_cap_mb: MiB of a bucket (25).  broadcast_buffers:
    buffers of process 0 before each forward pass.  gradient_as_bucket_view: .grad is a part of the bucket, which saves
    a copy.  Parameters without a gradient are always found.  As in PyTorch the names in the state dict begin with
    "module.".  ValueError: there is no process group.  RuntimeError: processes have other parameters."""

    module: Module

    def __init__(
        self,
        module: Module,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool = True,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        **options: Any,
    ) -> None:
        self_size = distributed.get_world_size(process_group)
        super().__init__()
        self.module = module
        self.device_ids: list[Any] = list(device_ids or [])
        self.dim = dim
        self.broadcast_buffers = broadcast_buffers
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.require_backward_grad_sync = self.require_forward_param_sync = True
        self._processes = self_size
        named = [(name, p) for name, p in module.named_parameters() if p.requires_grad]
        if not named:
            raise RuntimeError("DistributedDataParallel: no parameter of the module requires a gradient")
        self._params: list[Tensor] = [p for _, p in named]
        self._reducing = self._queued = False
        if self_size == 1:
            return
        self._compare([(name, tuple(p.shape), str(p.dtype)) for name, p in named])
        if init_sync:
            distributed._broadcast_all([p.data for p in module.parameters()] + list(module.buffers()))
        self._all = _buckets(self._params, int((bucket_cap_mb or 25) * MIB))
        self._bucket_of = {i: bucket for bucket in self._all for i in bucket.numbers}
        self._next = 0
        for i, p in enumerate(self._params):
            p.register_post_accumulate_grad_hook(partial(self._arrived, i))

    @staticmethod
    def _compare(mine: list[tuple[str, tuple[int, ...], str]]) -> None:
        """RuntimeError: the processes whose parameters differ from those of process 0, and the first one that does."""
        found = distributed._objects(mine)
        other = [r for r, theirs in enumerate(found) if theirs != found[0]]
        if other:
            theirs = found[other[0]]
            at = next((i for i, (a, b) in enumerate(zip(found[0], theirs, strict=False)) if a != b), None)
            what = (
                f"{found[0][at]} and {theirs[at]}" if at is not None else f"{len(found[0])} and {len(theirs)} of them"
            )
            raise RuntimeError(
                f"DistributedDataParallel: rank 0 and rank{'s' * (len(other) > 1)} {', '.join(map(str, other))} have"
                f" other parameters: {what}"
            )

    # ---- calling ----

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if self._processes > 1:
            self._prepare()
        return self.module(*args, **kwargs)

    def _prepare(self) -> None:
        buffers = list(self.module.buffers())
        if self.require_forward_param_sync and self.broadcast_buffers and buffers:
            distributed._broadcast_all(buffers)
        recorded = _core.is_grad_enabled()
        self._reducing = recorded and self.require_backward_grad_sync
        self.require_forward_param_sync = self._reducing
        self._reset()

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Gradients of forward passes inside are only accumulated; the next one outside exchanges their sums."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    @contextmanager
    def join(self, *args: Any, **options: Any) -> Iterator[None]:
        """For processes with different numbers of batches; RuntimeError in a world of several: give each as many."""
        if self._processes > 1:
            raise RuntimeError("join: processes with different numbers of batches are not supported")
        yield

    # ---- the backward pass ----

    def _reset(self) -> None:
        self._queued, self._next = False, 0
        for bucket in self._all:
            bucket.missing, bucket.work = set(bucket.numbers), None

    @no_grad
    def _arrived(self, i: int, p: Tensor) -> None:
        """The gradient of parameter i is complete.  All processes start buckets in the order of their numbers."""
        if not self._reducing:
            return
        if not self._queued:
            _core._after_backward(self._finish)
            self._queued = True
        self._fill(i)
        self._bucket_of[i].missing.discard(i)
        while self._next < len(self._all) and not self._all[self._next].missing:
            self._start(self._all[self._next], [1.0] * len(self._params))

    def _fill(self, i: int) -> None:
        part, grad = self._bucket_of[i].parts[i], self._params[i].grad
        if grad is None:
            part.zero_()
        elif not distributed._same_memory(grad, part):
            part.copy_(grad)

    def _start(self, bucket: _Bucket, flags: list[float]) -> None:
        bucket.flat.div_(self._processes)
        if bucket.extra.numel():
            bucket.extra.copy_(_core.tensor(flags, dtype=bucket.flat.dtype))
        bucket.work = distributed.all_reduce(bucket.flat, async_op=True)
        self._next += 1

    @no_grad
    def _finish(self) -> None:
        """Behind the pass: sends what is left, and writes the means into the gradients."""
        flags = [float(p.grad is not None) for p in self._params]
        for bucket in self._all[self._next :]:
            for i in bucket.missing:
                self._fill(i)
            self._start(bucket, flags)
        for bucket in self._all:
            bucket.work.wait()
        found = self._all[-1].extra.tolist()
        for i, p in enumerate(self._params):
            if found[i]:
                self._write(p, self._bucket_of[i].parts[i])
        self._reset()

    def _write(self, p: Tensor, part: Tensor) -> None:
        same = part.dtype == p.dtype and part.device == p.device
        if self.gradient_as_bucket_view and same:
            if p.grad is None or not distributed._same_memory(p.grad, part):
                p.grad = part
        elif p.grad is None:
            p.grad = part.to(p.device, p.dtype, copy=True)
        else:
            p.grad.copy_(part)
