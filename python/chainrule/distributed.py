"""Collectives of many processes, which mpirun, srun or torchrun started: ``mpirun -n 4 python train.py``.  Names and
arguments are those of ``torch.distributed``.  Without a launcher the world has one process, and needs no MPI.

MPI carries tensors of the cpu.  NCCL carries tensors of GPUs where the backend is "nccl" or torchrun started the
processes; torchrun needs a GPU for each.

A sum is added over a binary tree of the processes, in one order for every engine: the same bits on each process and in
each run.  ``nn.parallel.DistributedDataParallel`` and ``optim.ZeroRedundancyOptimizer`` train with it."""

from __future__ import annotations

import atexit
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from types import TracebackType
from typing import Any

from . import _core
from ._core import Tensor
from .autograd import no_grad

__all__ = [
    "ReduceOp",
    "Work",
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "broadcast",
    "broadcast_object_list",
    "destroy_process_group",
    "gather",
    "gather_object",
    "get_backend",
    "get_engine",
    "get_node_local_rank",
    "get_rank",
    "get_world_size",
    "init_process_group",
    "is_available",
    "is_initialized",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "scatter",
]


class ReduceOp(Enum):
    """How a collective joins the tensors of all processes; AVG is SUM over the number of processes."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7


_FOLDS: dict[ReduceOp, Callable[[Tensor, Tensor], Tensor]] = {
    ReduceOp.SUM: _core.add,
    ReduceOp.AVG: _core.add,
    ReduceOp.PRODUCT: _core.mul,
    ReduceOp.MIN: _core.minimum,
    ReduceOp.MAX: _core.maximum,
    ReduceOp.BAND: _core.bitwise_and,
    ReduceOp.BOR: _core.bitwise_or,
    ReduceOp.BXOR: _core.bitwise_xor,
}


class Work:
    """A collective that was started with ``async_op=True``: the tensor is complete after ``wait()``."""

    def __init__(self, finish: Callable[[], None] | None = None) -> None:
        self._finish = finish
        if finish:
            _pending[id(self)] = self

    def wait(self, timeout: object = None) -> bool:
        """Waits until the tensor is complete; True."""
        finish, self._finish = self._finish, None
        _pending.pop(id(self), None)
        if finish:
            finish()
        return True

    def is_completed(self) -> bool:
        """Was it waited for, or complete at once?"""
        return self._finish is None


_pending: dict[int, Work] = {}  # works that nobody has waited for: the world outlives them
_backend: list[str] = []  # the name that init_process_group was given, while there is a group
_failed: list[bool] = []  # an exception ended the program


# ---- the group of all processes ----


def is_available() -> bool:
    """True."""
    return True


def is_initialized() -> bool:
    """Is there a process group?"""
    return bool(_backend)


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: object = None,
    world_size: int = -1,
    rank: int = -1,
    store: object = None,
    group_name: str = "",
    pg_options: object = None,
    device_id: object = None,
) -> None:
    """Opens the world of the processes that the launcher started.  ``backend`` "nccl": tensors on CUDA go from GPU to
    GPU, by NCCL; else MPI carries them through memory of the cpu.  init_method, timeout and store have no effect.

    RuntimeError: no MPI library or no NCCL is found, or the world has another size than world_size or WORLD_SIZE says.
    ValueError: there is a group."""
    if _backend:
        raise ValueError("trying to initialize the default process group twice!")
    _core._world_open()
    here, size, _, engine = _world()
    expected = world_size if world_size > 0 else int(os.environ.get("WORLD_SIZE", size))
    if expected != size:
        raise RuntimeError(
            f"init_process_group: a world of {expected} processes was asked for, but the launcher started {size}: start"
            f" the script with mpirun -n {expected}, or with torchrun, which also sets RANK and MASTER_ADDR"
        )
    if rank >= 0 and rank != here:
        raise RuntimeError(f"init_process_group: rank {rank} was asked for, but the launcher made this rank {here}")
    usual = "gloo" if size == 1 else "nccl" if engine.startswith("NCCL") else "mpi"
    _backend.append((backend or usual).split(":")[-1].split(",")[0])
    if size > 1 and not _failed:
        _end_with_all()


def destroy_process_group(group: object = None) -> None:
    """Ends the group, after all processes have come here.  MPI cannot be opened again in this process."""
    _settle()
    _backend.clear()
    _core._world_close()


def _settle() -> None:
    for work in list(_pending.values()):
        work.wait()


def _end_with_all() -> None:
    """An exception that ends this process ends the others too: they would wait for it.  A normal end closes MPI."""
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        _failed.append(True)
        before(kind, error, trace)

    def end() -> None:
        if not _failed:
            destroy_process_group()
            return
        sys.stdout.flush()
        sys.stderr.flush()
        time.sleep(0.3)  # mpirun passes the traceback on before it ends all
        _core._world_abort(1)

    sys.excepthook = hook
    atexit.register(end)


def _world() -> tuple[int, int, str, str]:
    info = _core._world_info()
    if info is None:
        raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")
    return info


def _size(group: object = None) -> int:
    if not _backend:
        raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")
    return _world()[1]


def get_rank(group: object = None) -> int:
    """The number of this process, from 0 on."""
    _size(group)
    return _world()[0]


def get_world_size(group: object = None) -> int:
    """How many processes there are."""
    return _size(group)


def get_backend(group: object = None) -> str:
    """The name that init_process_group got."""
    _size(group)
    return _backend[0]


def get_engine() -> str:
    """What carries the bytes: "MPI 5.0 standard ABI, MPICH 5.0.2"; "none" in a world of one process."""
    _size()
    return _world()[3]


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """The number of this process on its machine, as the launcher's variables say.  RuntimeError: they do not."""
    for name in ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"):
        if name in os.environ:
            return int(os.environ[name])
    if fallback_rank is not None:
        return fallback_rank
    if not _backend or _world()[1] == 1:
        return 0
    raise RuntimeError("get_node_local_rank: the launcher sets no LOCAL_RANK, and there is no fallback_rank")


def barrier(group: object = None, async_op: bool = False, device_ids: object = None) -> Work | None:
    """Waits until all processes are here."""
    _size(group)
    _core._world_barrier()
    return Work() if async_op else None


# ---- tensors ----


def _carrier(tensor: Tensor) -> Any:
    """The device from which the engine sends the tensor: its own, or the cpu."""
    direct = tensor.device.type == "cuda" and (_backend[0] == "nccl" or _world()[3].startswith("NCCL"))
    return tensor.device if direct else "cpu"


def _flat(tensor: Tensor, dtype: _core.dtype | None = None) -> Tensor:
    """A tensor that the engine can send: contiguous; the tensor's own memory where it is that."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"Invalid function argument. Expected a Tensor, got {type(tensor).__name__}")
    _size()
    return tensor.detach().to(device=_carrier(tensor), dtype=dtype or tensor.dtype).contiguous()


def _same_memory(a: Tensor, b: Tensor) -> bool:
    """Do both begin at one address of the cpu?  Addresses on GPUs are unknown here: False, which costs a copy."""
    return a.device.type == b.device.type == "cpu" and a.data_ptr() == b.data_ptr()


def _put(tensor: Tensor, value: Tensor) -> None:
    """Writes the value, which may be the tensor's own memory."""
    if not _same_memory(value, tensor):
        tensor.copy_(value.reshape(tensor.shape))


def _gathered(tensor: Tensor) -> Tensor:
    """(processes, *shape)"""
    mine = _flat(tensor)
    out = _core.empty(_size(), *mine.shape, dtype=mine.dtype, device=mine.device)
    _core._world_all_gather(mine, out)
    return out


def _is_sum(tensor: Tensor, op: Any) -> bool:
    return tensor.is_floating_point() and getattr(op, "name", "SUM") in ("SUM", "AVG")


def _fold(tensors: Sequence[Tensor], op: Any) -> Tensor:
    fold, total = _FOLDS[ReduceOp[getattr(op, "name", "SUM")]], tensors[0].clone()
    for t in tensors[1:]:
        total = fold(total, t)
    return total


@no_grad
def all_reduce(tensor: Tensor, op: Any = ReduceOp.SUM, group: object = None, async_op: bool = False) -> Work | None:
    """Writes the sum over all processes into the tensor of each, or another ``ReduceOp``.  async_op: the sum of floats
    runs beside other work until ``wait()`` of the result.  Half precision is added in float32."""
    size, average = _size(group), getattr(op, "name", "") == "AVG"
    if isinstance(tensor, list):
        for t in tensor:
            all_reduce(t, op, group)
        return Work() if async_op else None
    value = _flat(tensor)
    if size == 1:
        return Work() if async_op else None
    if not _is_sum(tensor, op):
        total = _fold(list(_gathered(value)), op)
        _put(tensor, total / size if average else total)
        return Work() if async_op else None
    if tensor.itemsize < 4:
        value = value.to(_core.float32)
    running = _core._world_all_reduce(value)

    @no_grad
    def finish() -> None:
        _core._world_wait(running)
        if average:
            value.div_(size)
        _put(tensor, value)

    work = Work(finish)
    if async_op:
        return work
    work.wait()
    return None


@no_grad
def broadcast(tensor: Tensor, src: int = 0, group: object = None, async_op: bool = False) -> Work | None:
    """Writes the tensor of the process ``src`` into the tensor of each."""
    _size(group)
    value = _flat(tensor)
    _core._world_broadcast(value, src)
    _put(tensor, value)
    return Work() if async_op else None


def _broadcast_all(tensors: Iterable[Tensor], src: int = 0) -> None:
    """The same for many tensors: one message for each dtype."""
    by_dtype: dict[Any, list[Tensor]] = {}
    for t in tensors:
        by_dtype.setdefault(t.dtype, []).append(t)
    with no_grad():
        for list_ in by_dtype.values():
            flat = _core.cat([_flat(t).reshape(-1) for t in list_])
            _core._world_broadcast(flat, src)
            if get_rank() != src:
                for t, value in zip(list_, flat.split([t.numel() for t in list_]), strict=True):
                    _put(t, value)


@no_grad
def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: object = None, async_op: bool = False
) -> Work | None:
    """Writes the tensors of all processes, one after the other, into output_tensor of each."""
    mine, out = _flat(input_tensor), _flat(output_tensor)
    _size(group)
    _core._world_all_gather(mine, out)
    _put(output_tensor, out)
    return Work() if async_op else None


@no_grad
def all_gather(tensor_list: list[Tensor], tensor: Tensor, group: object = None, async_op: bool = False) -> Work | None:
    """Writes the tensor of process i into tensor_list[i]."""
    for to, value in zip(tensor_list, _gathered(tensor), strict=True):
        to.copy_(value.reshape(to.shape))
    return Work() if async_op else None


@no_grad
def reduce_scatter_tensor(
    output: Tensor, input: Tensor, op: Any = ReduceOp.SUM, group: object = None, async_op: bool = False
) -> Work | None:
    """Writes this process's part of the sum over all processes into output; input: the parts one after the other."""
    size = _size(group)
    if _is_sum(input, op):
        low = _core.float32 if input.itemsize < 4 else None
        mine, out = _flat(input, low), _flat(output, low)
        _core._world_reduce_scatter(mine, out)
    else:
        parts = _gathered(input).reshape(size, size, -1)
        out = _fold([parts[r, get_rank()] for r in range(size)], op)
    if getattr(op, "name", "") == "AVG":
        out = out / size
    _put(output, out)
    return Work() if async_op else None


def reduce_scatter(
    output: Tensor, input_list: list[Tensor], op: Any = ReduceOp.SUM, group: object = None, async_op: bool = False
) -> Work | None:
    """Writes the sum over all processes of input_list[rank] into output."""
    return reduce_scatter_tensor(output, _core.cat([t.reshape(-1) for t in input_list]), op, group, async_op)


@no_grad
def reduce(
    tensor: Tensor, dst: int = 0, op: Any = ReduceOp.SUM, group: object = None, async_op: bool = False
) -> Work | None:
    """``all_reduce``, whose result only the process ``dst`` receives."""
    total = tensor if get_rank(group) == dst else tensor.clone()
    return all_reduce(total, op, group, async_op)


@no_grad
def gather(
    tensor: Tensor, gather_list: list[Tensor] | None = None, dst: int = 0, group: object = None, async_op: bool = False
) -> Work | None:
    """Writes the tensor of process i into gather_list[i] of the process ``dst``."""
    values = _gathered(tensor)
    for to, value in zip(gather_list or [], values if get_rank() == dst else [], strict=get_rank() == dst):
        to.copy_(value.reshape(to.shape))
    return Work() if async_op else None


@no_grad
def scatter(
    tensor: Tensor, scatter_list: list[Tensor] | None = None, src: int = 0, group: object = None, async_op: bool = False
) -> Work | None:
    """Writes scatter_list[i] of the process ``src`` into the tensor of process i."""
    size, rank = _size(group), get_rank(group)
    if rank == src and len(scatter_list or []) != size:
        raise ValueError(f"scatter: scatter_list has {len(scatter_list or [])} tensors for {size} processes")
    all_ = _core.cat([_flat(t).reshape(-1) for t in scatter_list or []]) if rank == src else None
    whole = all_
    if whole is None:
        whole = _core.empty(size * tensor.numel(), dtype=tensor.dtype, device=_carrier(tensor))
    _core._world_broadcast(whole, src)
    tensor.copy_(whole.reshape(size, *tensor.shape)[rank])
    return Work() if async_op else None


@no_grad
def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: list[int] | None = None,
    input_split_sizes: list[int] | None = None,
    group: object = None,
    async_op: bool = False,
) -> Work | None:
    """Part i of input, of equal parts along the first axis, becomes part ``rank`` of output on process i."""
    if output_split_sizes or input_split_sizes:
        raise ValueError("all_to_all_single: parts of different sizes are not supported")
    size = _size(group)
    output.copy_(_gathered(input).reshape(size, size, -1)[:, get_rank()].reshape(output.shape))
    return Work() if async_op else None


@no_grad
def all_to_all(
    output_tensor_list: list[Tensor], input_tensor_list: list[Tensor], group: object = None, async_op: bool = False
) -> Work | None:
    """input_tensor_list[i] becomes output_tensor_list[rank] of process i; all have one shape."""
    parts = _gathered(_core.stack(input_tensor_list))[:, get_rank(group)]
    for to, value in zip(output_tensor_list, parts, strict=True):
        to.copy_(value)
    return Work() if async_op else None


# ---- objects, by pickle ----


def all_gather_object(object_list: list[Any], obj: Any, group: object = None) -> None:
    """Puts the object of process i into object_list[i].  Objects are pickled: processes must trust each other."""
    object_list[:] = _objects(obj)


def _objects(obj: Any) -> list[Any]:
    if _size() == 1:
        return [obj]
    import pickle

    data = pickle.dumps(obj)
    sizes = [int(n) for n in _gathered(_core.tensor([len(data)]))]
    mine = _core.asarray(bytearray(data.ljust(max(sizes), b"\0")))
    return [pickle.loads(memoryview(row)[:n]) for row, n in zip(_gathered(mine), sizes, strict=True)]


def gather_object(obj: Any, object_gather_list: list[Any] | None = None, dst: int = 0, group: object = None) -> None:
    """Puts the object of process i into object_gather_list[i] of the process ``dst``."""
    found = _objects(obj)
    if object_gather_list is not None and get_rank() == dst:
        object_gather_list[:] = found


def broadcast_object_list(object_list: list[Any], src: int = 0, group: object = None, device: object = None) -> None:
    """Puts the objects of the process ``src`` into the list of each."""
    if _size(group) == 1:
        return
    import pickle

    data = pickle.dumps(list(object_list)) if get_rank() == src else b""
    n = _core.tensor([len(data)])
    _core._world_broadcast(n, src)
    whole = _core.asarray(bytearray(data.ljust(int(n), b"\0")))
    _core._world_broadcast(whole, src)
    object_list[:] = pickle.loads(memoryview(whole))
