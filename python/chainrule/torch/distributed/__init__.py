"""``torch.distributed`` for a world of one process: a sum over all processes is the tensor itself."""

from __future__ import annotations

import os
from enum import Enum
from typing import Any

import chainrule as cr

from .. import _names

__getattr__ = _names.forward(__name__, "chainrule.distributed")


class ReduceOp(Enum):
    """How ``all_reduce`` joins the tensors of all processes; of one process each is the tensor."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7


reduce_op = ReduceOp


class ProcessGroup:
    """The one process."""

    def rank(self) -> int:
        return 0

    def size(self) -> int:
        return 1


class group:  # noqa: N801, PyTorch's name
    """``group.WORLD``"""

    WORLD = ProcessGroup()


GroupMember = group


class Backend(str):
    """A backend's name."""

    GLOO, NCCL, MPI, UNDEFINED = "gloo", "nccl", "mpi", "undefined"


class Work:
    """A call that is done."""

    def wait(self, timeout: Any = None) -> bool:
        return True

    def is_completed(self) -> bool:
        return True


_group: list[str] = []  # the backend's name, while there is a group


def is_available() -> bool:
    """True: for a world of one process."""
    return True


def is_initialized() -> bool:
    """Is there a process group?"""
    return bool(_group)


def is_nccl_available() -> bool:
    return False


is_mpi_available = is_ucc_available = is_nccl_available


def is_gloo_available() -> bool:
    return True


def is_torchelastic_launched() -> bool:
    """Did torchrun start this process?"""
    return "TORCHELASTIC_RUN_ID" in os.environ


def get_default_backend_for_device(device: Any) -> str:
    """The backend that PyTorch would take."""
    return "nccl" if str(device).startswith("cuda") else "gloo"


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: Any = None,
    world_size: int = -1,
    rank: int = -1,
    store: Any = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
) -> None:
    """Starts the group of this one process.  RuntimeError: the world has more; ValueError: there is a group."""
    if _group:
        raise ValueError("trying to initialize the default process group twice!")
    size = world_size if world_size > 0 else int(os.environ.get("WORLD_SIZE", 1))
    if size != 1:
        raise RuntimeError(
            f"init_process_group: a world of {size} processes, but chainrule trains in one; start the script once,"
            " without torchrun, with world_size=1"
        )
    _group.append((backend or "gloo").split(":")[-1].split(",")[0])


def destroy_process_group(group: Any = None) -> None:
    """Ends the group."""
    _group.clear()


def _in_group() -> None:
    if not _group:
        raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")


def get_rank(group: Any = None) -> int:
    """0"""
    _in_group()
    return 0


def get_world_size(group: Any = None) -> int:
    """1"""
    _in_group()
    return 1


def get_backend(group: Any = None) -> str:
    """The name that init_process_group got."""
    _in_group()
    return _group[0]


def new_group(ranks: Any = None, *args: Any, **options: Any) -> ProcessGroup:
    """A group of this process."""
    _in_group()
    if ranks is not None and list(ranks) not in ([0], []):
        raise ValueError(f"new_group: ranks {list(ranks)} in a world of 1")
    return group.WORLD


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """LOCAL_RANK of the environment."""
    return int(os.environ.get("LOCAL_RANK", fallback_rank or 0))


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Work | None:
    """Waits for all processes: this one is here."""
    _in_group()
    return Work() if async_op else None


monitored_barrier = barrier


def _one(tensor: Any, *args: Any, async_op: bool = False, **options: Any) -> Work | None:
    """The tensor stays as it is: no other process adds to it."""
    _in_group()
    if not isinstance(tensor, cr.Tensor | list):
        raise TypeError(f"Invalid function argument. Expected a Tensor, got {type(tensor).__name__}")
    return Work() if async_op else None


all_reduce = broadcast = reduce = all_reduce_coalesced = _one


def all_gather(tensor_list: list[Any], tensor: Any, group: Any = None, async_op: bool = False) -> Work | None:
    """Writes the tensor of each process, the one here, into the list."""
    _write(tensor_list[0], tensor)
    return Work() if async_op else None


def all_gather_into_tensor(
    output_tensor: Any, input_tensor: Any, group: Any = None, async_op: bool = False
) -> Work | None:
    """Writes the tensor of each process, the one here, one after the other."""
    _write(output_tensor, input_tensor.view(output_tensor.shape))
    return Work() if async_op else None


all_to_all_single = all_gather_into_tensor


def reduce_scatter_tensor(
    output: Any, input: Any, op: Any = None, group: Any = None, async_op: bool = False
) -> Work | None:
    """Writes this process's part of the sum: all of it."""
    _write(output, input.view(output.shape))
    return Work() if async_op else None


def reduce_scatter(
    output: Any, input_list: list[Any], op: Any = None, group: Any = None, async_op: bool = False
) -> Work | None:
    """Writes this process's part of the sum: the first tensor of the list."""
    _write(output, input_list[0])
    return Work() if async_op else None


def gather(
    tensor: Any, gather_list: list[Any] | None = None, dst: int = 0, group: Any = None, async_op: bool = False
) -> Work | None:
    """Writes the tensor of each process, the one here, into the list."""
    _write((gather_list or [cr.empty_like(tensor)])[0], tensor)
    return Work() if async_op else None


def scatter(
    tensor: Any, scatter_list: list[Any] | None = None, src: int = 0, group: Any = None, async_op: bool = False
) -> Work | None:
    """Writes this process's tensor of the list: the first."""
    if scatter_list:
        _write(tensor, scatter_list[0])
    return Work() if async_op else None


def all_to_all(
    output_tensor_list: list[Any], input_tensor_list: list[Any], group: Any = None, async_op: bool = False
) -> Any:
    """Writes the tensor that each process, this one, sends here."""
    _write(output_tensor_list[0], input_tensor_list[0])
    return Work() if async_op else None


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Puts the object of each process, the one here, into the list."""
    _in_group()
    object_list[0] = obj


def gather_object(obj: Any, object_gather_list: list[Any] | None = None, dst: int = 0, group: Any = None) -> None:
    """Puts the object of each process, the one here, into the list."""
    _in_group()
    if object_gather_list is not None:
        object_gather_list[0] = obj


def broadcast_object_list(object_list: list[Any], src: int = 0, group: Any = None, device: Any = None) -> None:
    """The list stays as it is."""
    _in_group()


def send(tensor: Any, dst: int, *args: Any, **options: Any) -> None:
    """ValueError: no other process is there."""
    raise ValueError(f"send: there is no process {dst} in a world of 1")


def recv(tensor: Any, src: int | None = None, *args: Any, **options: Any) -> int:
    """ValueError: no other process is there."""
    raise ValueError(f"recv: there is no process {src} in a world of 1")


isend, irecv = send, recv


def _write(to: Any, value: Any) -> None:
    _in_group()
    with cr.no_grad():
        to.copy_(value)
