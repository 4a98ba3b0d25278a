"""``torch.distributed`` over ``chainrule.distributed``, and names that only ask."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

from chainrule import distributed as _d

from .. import _names

__getattr__ = _names.forward(__name__, "chainrule.distributed")

default_pg_timeout = timedelta(minutes=30)  # as PyTorch's; processes wait without a limit
reduce_op = _d.ReduceOp
_d.ReduceOp.RedOpType = _d.ReduceOp  # type: ignore[attr-defined]  # the type of its values


class ProcessGroup:
    """All processes."""

    def rank(self) -> int:
        return _d.get_rank()

    def size(self) -> int:
        return _d.get_world_size()


def get_process_group_ranks(group: Any = None) -> list[int]:
    """The ranks of a group: there is one group."""
    return list(range(_d.get_world_size()))


class group:  # noqa: N801, PyTorch's name
    """``group.WORLD``"""

    WORLD = ProcessGroup()


GroupMember = group


class Backend(str):
    """A backend's name."""

    GLOO, NCCL, MPI, UNDEFINED = "gloo", "nccl", "mpi", "undefined"


def is_nccl_available() -> bool:
    return False


is_ucc_available = is_nccl_available


def is_gloo_available() -> bool:
    """The name is accepted; MPI carries the bytes."""
    return True


is_mpi_available = is_gloo_available


def is_torchelastic_launched() -> bool:
    """Did torchrun start this process?"""
    return "TORCHELASTIC_RUN_ID" in os.environ


def get_default_backend_for_device(device: Any) -> str:
    """The backend that PyTorch would take."""
    return "nccl" if str(device).startswith("cuda") else "gloo"


def new_group(ranks: Any = None, *args: Any, **options: Any) -> ProcessGroup:
    """The group of all processes.  ValueError: of some of them."""
    size = _d.get_world_size()
    if ranks is not None and list(ranks) not in (list(range(size)), []):
        raise ValueError(f"new_group: ranks {list(ranks)} in a world of {size}: groups of some processes are missing")
    return group.WORLD


monitored_barrier, all_reduce_coalesced = _d.barrier, _d.all_reduce


def send(tensor: Any, dst: int, *args: Any, **options: Any) -> None:
    """ValueError: there are collectives only."""
    raise ValueError(f"send: to process {dst} of {_d.get_world_size()}: chainrule has collectives only; use broadcast")


def recv(tensor: Any, src: int | None = None, *args: Any, **options: Any) -> int:
    """ValueError: there are collectives only."""
    raise ValueError(
        f"recv: from process {src} of {_d.get_world_size()}: chainrule has collectives only; use broadcast"
    )


isend, irecv = send, recv
