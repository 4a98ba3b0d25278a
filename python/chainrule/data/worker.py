"""Which worker of a ``DataLoader`` runs this."""

from __future__ import annotations

from threading import local
from typing import Any, NamedTuple

__all__ = ["WorkerInfo", "get_worker_info"]


class WorkerInfo(NamedTuple):
    """The worker that asks: its number, how many there are, its seed, and the dataset."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


in_thread = local()
in_process: list[WorkerInfo] = []  # in a process of a DataLoader: its worker


def get_worker_info() -> WorkerInfo | None:
    """The worker of a DataLoader that runs this, or None elsewhere."""
    return in_process[0] if in_process else getattr(in_thread, "info", None)
